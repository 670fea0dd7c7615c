//! Reports on disk, each in a file of its own until the coordinator acknowledged it: `spool/<lease>.json`, one line that
//! says what, then the batches of events that are not yet over there. A file appears whole or not at all.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use protocol::event::EventBody;
use protocol::{LeaseId, Report, TaskId};
use serde::{Deserialize, Serialize};

pub(crate) use delivery::{Delivery, Settled};

mod delivery;
pub(crate) mod numbering;
pub(crate) mod resend;

/// A line holds a report or a batch: what is longer is neither.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// The first line of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) lease: LeaseId,
    pub(crate) task: TaskId,
    /// When it was saved, in milliseconds since 1970.
    pub(crate) saved_at_ms: u64,
    /// The number of the first event in the file.
    pub(crate) first: u64,
    pub(crate) report: Report,
}

/// The directory of reports.
pub(crate) struct Spool {
    directory: PathBuf,
    /// Reports that an attempt is delivering itself.
    in_hand: Mutex<HashSet<LeaseId>>,
}

impl Spool {
    pub(crate) fn open(state_dir: &Path) -> anyhow::Result<Self> {
        let directory = state_dir.join("spool");
        let refused = directory.join("refused");
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&refused).with_context(|| format!("cannot make {}", refused.display()))?;
        Ok(Self { directory, in_hand: Mutex::default() })
    }

    /// Writes a report so that it outlives the worker and the machine; it stays in hand until `let_go`.
    pub(crate) fn save(
        &self,
        head: &Head,
        batches: impl Iterator<Item = io::Result<Vec<EventBody>>>,
    ) -> io::Result<()> {
        self.in_hand().insert(head.lease);
        let part = self.directory.join(format!("{}.part", head.lease));
        let saved = write(&part, head, batches).and_then(|()| {
            fs::rename(&part, self.path(head.lease))?;
            File::open(&self.directory)?.sync_all()
        });
        if saved.is_err() {
            // A leftover part would be swept at the next start anyway.
            let _ = fs::remove_file(&part);
        }
        saved
    }

    /// Whoever delivered a report does not any more.
    pub(crate) fn let_go(&self, lease: LeaseId) {
        self.in_hand().remove(&lease);
    }

    /// The files that nobody has in hand, the oldest first.
    pub(crate) fn files(&self) -> io::Result<Vec<PathBuf>> {
        let in_hand: HashSet<PathBuf> = self.in_hand().iter().map(|lease| self.path(*lease)).collect();
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") && !in_hand.contains(&path) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Deletes what a start finds half written.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "part") {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Does with a report's file what its delivery came to.
    pub(crate) fn settle(&self, lease: LeaseId, settled: &Settled) {
        let path = self.path(lease);
        match settled {
            Settled::Acknowledged => remove(&path),
            Settled::LeaseLost => {
                tracing::warn!(%lease, "report dropped: the coordinator gave the task to another lease meanwhile");
                remove(&path);
            }
            Settled::KeyRefused => {
                tracing::warn!(%lease, "report kept in {}: it is sent when the key is taken again", path.display());
            }
            Settled::Undeliverable(why) => self.set_aside(&path, why),
        }
    }

    /// Moves a file that can never be delivered out of the way, and says so.
    fn set_aside(&self, path: &Path, why: &str) {
        let aside = self.directory.join("refused").join(path.file_name().unwrap_or_default());
        match fs::rename(path, &aside) {
            Ok(()) => tracing::error!("report set aside in {}: {why}", aside.display()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::error!("cannot set {} aside ({why}): {error}", path.display()),
        }
    }

    fn path(&self, lease: LeaseId) -> PathBuf {
        self.directory.join(format!("{lease}.json"))
    }

    fn in_hand(&self) -> MutexGuard<'_, HashSet<LeaseId>> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(part: &Path, head: &Head, batches: impl Iterator<Item = io::Result<Vec<EventBody>>>) -> io::Result<()> {
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(part)?;
    let mut file = BufWriter::new(file);
    serde_json::to_writer(&mut file, head)?;
    for batch in batches {
        file.write_all(b"\n")?;
        serde_json::to_writer(&mut file, &batch?)?;
    }
    // The last line shows that nothing is missing before it.
    file.write_all(b"\nend\n")?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        // Sent again at the next start, and answered as a repeat.
        tracing::warn!("cannot delete {}: {error}", path.display());
    }
}

/// Reads a report's file: what it is about, and its batches one by one.
fn load(path: &Path) -> io::Result<(Head, SavedBatches)> {
    let mut lines = SavedBatches { file: BufReader::new(File::open(path)?), is_at_end: false };
    let head = lines.line()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((serde_json::from_slice(&head)?, lines))
}

/// The batches of a file.
pub(crate) struct SavedBatches {
    file: BufReader<File>,
    is_at_end: bool,
}

impl SavedBatches {
    /// The next line; none after the last.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        (&mut self.file).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is cut off"));
        }
        self.is_at_end = line == b"end";
        Ok(Some(line).filter(|_| !self.is_at_end))
    }
}

impl Iterator for SavedBatches {
    type Item = io::Result<Vec<EventBody>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_at_end {
            return None;
        }
        let batch = self.line().and_then(|line| line.map(|line| Ok(serde_json::from_slice(&line)?)).transpose());
        self.is_at_end |= batch.is_err();
        batch.transpose()
    }
}

#[cfg(test)]
mod tests;
