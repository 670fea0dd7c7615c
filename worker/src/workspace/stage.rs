//! Brings what a task changed to the coordinator: one compressed stream of frames, read from the tree while it is sent.

use std::io::{self, Read as _, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use protocol::workspace::Staged;
use protocol::workspace::frames::{StageFrame, encode};
use rustix::fs::fstat;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_stream::wrappers::ReceiverStream;

use super::entry::{Mark, Path, Sum};
use super::errand::{Errand, Unreadable};
use super::look::{Change, To};
use super::root::Root;

const PIECE_BYTES: usize = 64 << 10;
/// Pieces that may wait for the network.
const PIECES: usize = 4;

/// A file that was sent, as it stands on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) path: Path,
    pub(super) sum: Sum,
    pub(super) mark: Mark,
}

/// Sends all of it, again when that fails in passing. Nothing reads the tree any more when it returns.
pub(super) async fn send(
    errand: &Errand,
    base: u64,
    root: PathBuf,
    changes: Arc<Vec<Change>>,
) -> anyhow::Result<(Staged, Vec<Sent>)> {
    errand.patiently(|| send_once(errand, base, root.clone(), Arc::clone(&changes))).await
}

async fn send_once(
    errand: &Errand,
    base: u64,
    root: PathBuf,
    changes: Arc<Vec<Change>>,
) -> anyhow::Result<(Staged, Vec<Sent>)> {
    let size = changes.iter().map(|change| if let To::File(mark) = &change.to { mark.size } else { 0 }).sum();
    let (pieces, body) = mpsc::channel(PIECES);
    let reading = {
        let errand = errand.clone();
        spawn_blocking(move || write_stage(root, &changes, &errand, pieces))
    };
    let body = reqwest::Body::wrap_stream(ReceiverStream::new(body));
    let staged = errand.unless_halted(async { Ok(errand.client.stage(errand.lease, base, size, body).await?) }).await;
    // Without a body that takes pieces it ends, too.
    let sent = reading.await?;
    match (staged, sent) {
        (Ok(staged), sent) => Ok((staged, sent?)),
        // An upload that broke off for want of pieces says less than why there were none.
        (Err(_), Err(error)) if error.is::<Unreadable>() => Err(error),
        (Err(error), _) => Err(error),
    }
}

type Pieces = mpsc::Sender<io::Result<Vec<u8>>>;

fn write_stage(root: PathBuf, changes: &[Change], errand: &Errand, pieces: Pieces) -> anyhow::Result<Vec<Sent>> {
    let abort = pieces.clone();
    let written = Root::open(&root).context("cannot open the workspace").and_then(|root| {
        let to = GzEncoder::new(Outgoing { pieces, piece: Vec::with_capacity(PIECE_BYTES) }, Compression::fast());
        let mut stage = Stage { root, to, errand, sent: Vec::new() };
        changes.iter().try_for_each(|change| stage.change(change))?;
        let count = changes.len() as u64;
        stage.to.write_all(&encode(&StageFrame::End { count })?)?;
        stage.root.close_down()?;
        stage.to.finish()?.flush()?;
        Ok(stage.sent)
    });
    if written.is_err() {
        // A body that just ends would pass for a whole one until its last frame is missed.
        let _ = abort.blocking_send(Err(io::Error::other("the stage was not finished")));
    }
    written
}

struct Stage<'errand> {
    root: Root,
    to: GzEncoder<Outgoing>,
    errand: &'errand Errand,
    sent: Vec<Sent>,
}

impl Stage<'_> {
    fn change(&mut self, change: &Change) -> anyhow::Result<()> {
        let path = change.path.to_string();
        let frame = match &change.to {
            To::File(mark) => StageFrame::File { path, mode: mark.permissions(), size: mark.size },
            To::Directory { mode } => StageFrame::Directory { path, mode: *mode },
            To::Symlink { target, .. } => StageFrame::Symlink { path, target: target.to_string() },
            To::Nothing => StageFrame::Delete { path },
        };
        self.to.write_all(&encode(&frame)?)?;
        if let To::File(mark) = &change.to {
            self.file(&change.path, mark)?;
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, mark: &Mark) -> anyhow::Result<()> {
        let unreadable = |error: &dyn std::fmt::Display| Unreadable(format!("cannot read `{path}`: {error}"));
        let file = self.root.file(path).map_err(|error| unreadable(&error))?;
        let now = Mark::of(&fstat(&file)?);
        if !now.has_content_of(mark) {
            return Err(unreadable(&"it changed after its task had ended").into());
        }
        let mut sum = Sha256::new();
        let (mut rest, mut left) = (file.take(mark.size), mark.size);
        let mut piece = vec![0; usize::try_from(mark.size.min(PIECE_BYTES as u64))?];
        while left > 0 {
            let length = rest.read(&mut piece).map_err(|error| unreadable(&error))?;
            if length == 0 {
                return Err(unreadable(&"it became shorter while it was read").into());
            }
            if !self.errand.is_open() {
                return Err(anyhow::anyhow!("the attempt ended meanwhile"));
            }
            sum.update(&piece[..length]);
            self.to.write_all(&piece[..length])?;
            left -= length as u64;
        }
        self.sent.push(Sent { path: path.clone(), sum: sum.finalize().into(), mark: now });
        Ok(())
    }
}

/// Collects bytes to pieces, and waits until somebody takes them.
struct Outgoing {
    pieces: Pieces,
    piece: Vec<u8>,
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        if piece.is_empty() {
            return Ok(());
        }
        self.pieces.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
