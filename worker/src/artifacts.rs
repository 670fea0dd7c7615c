//! Files that came of an attempt: what its processes made or changed in the working directory, listed with their sums and
//! uploaded while the lease is valid. Hidden files and caches are nobody's result and are left out without a word.
//!
//! The directory is a task's work and hostile: no link is followed, and neither its depth nor its size decides what this
//! costs. Nothing here can fail the attempt: what cannot be listed or uploaded is named among the skipped.

mod changed;
mod send;
mod walk;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use protocol::artifact::{MAX_SKIPPED, Skipped};
use protocol::{Artifact, LeaseId};
use tokio::sync::watch;

use crate::client::{CallError, Client};
use crate::heartbeat::Validity;
use crate::random::Backoff;
use changed::{Changed, changed};
use walk::{Mark, walk};

/// Bytes that are read of all files of an attempt: to sum up more takes longer than anybody waits for a report.
const MAX_READ_BYTES: u64 = 4 << 30;
/// How often a file is sent while no answer comes.
const UPLOADS: u32 = 4;

/// The working directory as it was before the task began.
#[derive(Default)]
pub(crate) struct Snapshot {
    work: PathBuf,
    marks: HashMap<Vec<u8>, Mark>,
}

impl Snapshot {
    /// Remembers what is there. Take it before anything runs.
    pub(crate) async fn take(work: PathBuf) -> Self {
        let look = move || {
            let mut marks = HashMap::new();
            // What cannot be seen now counts as made later: rather listed twice than lost.
            let _ = walk(&work, |entry| {
                marks.insert(entry.path, entry.mark);
            });
            Self { work, marks }
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }
}

/// What came of an attempt, as the report says it.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Files, by path.
    pub(crate) artifacts: Vec<Artifact>,
    /// Files that are not listed, or not stored.
    pub(crate) skipped: Vec<Skipped>,
    unnamed: u64,
}

impl Collected {
    /// Names a file that is not among them.
    pub(crate) fn skip(&mut self, path: impl Into<String>, why: impl Into<String>) {
        if self.skipped.len() + 1 < MAX_SKIPPED {
            self.skipped.push(Skipped { path: path.into(), why: why.into() });
        } else {
            self.unnamed += 1;
        }
    }

    /// Says how many more there were than are named.
    pub(crate) fn finished(mut self) -> Self {
        if self.unnamed > 0 {
            self.skipped.push(Skipped { path: "…".into(), why: format!("{} more were left out", self.unnamed) });
        }
        self
    }
}

/// Where files go, and how long they may.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) client: Arc<Client>,
    pub(crate) lease: LeaseId,
    pub(crate) validity: Validity,
    pub(crate) give_up: watch::Receiver<bool>,
    /// Bytes that are uploaded at most.
    pub(crate) limit_bytes: u64,
}

impl Way {
    /// Whether files may still be read and sent.
    fn is_open(&self) -> bool {
        self.validity.is_valid() && !*self.give_up.borrow()
    }
}

/// Lists and uploads what changed since the snapshot. Every process of the attempt must be gone.
pub(crate) async fn collect(before: Snapshot, way: Way) -> Collected {
    let mut collected = Collected::default();
    let mut give_up = way.give_up.clone();
    tokio::select! {
        biased;
        () = gather(before, &way, &mut collected) => {}
        () = crate::attempt::must_leave(&mut give_up) => collected.skip("…", "the worker left before all files were read"),
    }
    collected.finished()
}

async fn gather(before: Snapshot, way: &Way, collected: &mut Collected) {
    let look = tokio::task::spawn_blocking(move || changed(&before)).await;
    let Ok(Changed { files, skipped }) = look else { return };
    skipped.into_iter().for_each(|skipped| collected.skip(skipped.path, skipped.why));
    let mut room = Room { stored_bytes: way.limit_bytes, read_bytes: MAX_READ_BYTES, closed: None };
    for file in files {
        if !way.is_open() {
            return;
        }
        take(file, way, &mut room, collected).await;
    }
}

/// What may still be read and stored.
struct Room {
    stored_bytes: u64,
    read_bytes: u64,
    /// Why nothing more is uploaded at all.
    closed: Option<String>,
}

/// Lists one file, and uploads it if there is room.
async fn take(file: changed::File, way: &Way, room: &mut Room, collected: &mut Collected) {
    let (path, size) = (file.path.clone(), file.size);
    if size > room.read_bytes {
        return collected.skip(path.as_str(), format!("too large to be read: {size} bytes"));
    }
    room.read_bytes -= size;
    let is_sent = room.closed.is_none() && size <= room.stored_bytes;
    let sent = if is_sent { send_patiently(file, way).await } else { send::read_only(file, way).await };
    let sum = match sent.sum {
        Ok(sum) => sum,
        Err(error) => return collected.skip(path.as_str(), format!("cannot be read: {error}")),
    };
    let is_stored = is_sent && sent.uploaded.is_ok();
    if is_stored {
        room.stored_bytes = room.stored_bytes.saturating_sub(sum.size);
    } else {
        collected.skip(path.as_str(), not_stored(sent.uploaded, way, room));
    }
    collected.artifacts.push(Artifact::new(path, sum.size, sum.sha256, is_stored));
}

/// Uploads a file; a coordinator that is away for a moment, as when it is started again, is waited for.
async fn send_patiently(file: changed::File, way: &Way) -> send::Sent {
    let mut backoff = Backoff::default();
    for _ in 1..UPLOADS {
        let sent = send::read_and_send(file.clone(), way).await;
        // A try whose connection broke may still be at work over there.
        let is_passing = |error: &CallError| {
            matches!(error, CallError::Unreachable(_)) || error.code() == Some(protocol::Code::Conflict)
        };
        if !sent.uploaded.as_ref().is_err_and(is_passing) || sent.sum.is_err() || !way.is_open() {
            return sent;
        }
        tokio::time::sleep(backoff.next()).await;
    }
    send::read_and_send(file, way).await
}

fn not_stored(uploaded: Result<(), CallError>, way: &Way, room: &mut Room) -> String {
    let Err(error) = uploaded else {
        let limit = format!("listed only: all files of an attempt may have {} bytes", way.limit_bytes);
        return room.closed.clone().unwrap_or(limit);
    };
    let why = format!("not stored: {error}");
    tracing::warn!(lease = %way.lease, "a file was not uploaded: {error}");
    // One that is too large says nothing about the next; everything else would meet them all.
    if !error.is_too_large() {
        room.closed = Some(why.clone());
    }
    why
}

#[cfg(test)]
mod tests;
