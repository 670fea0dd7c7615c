//! What a lease lays out: the manifest of the version that it was given, and the contents that its worker lacks.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use protocol::workspace::frames::{BlobFrame, encode};
use protocol::workspace::{Difference, Head, ManifestEntry, ManifestLine};
use serde::Serialize;
use tokio::task::JoinHandle;

use super::read::{Found, ROWS_AT_ONCE};
use super::{Pieces, Sink, send, stream};
use crate::lifecycle::Holder;
use crate::queue::Queue;
use crate::store::{Checkout, Content, StoreError, StoredEntry, WorkspaceError};

/// Differences beyond this many are told as the whole.
const MAX_DIFFERENCES: usize = 200_000;
/// A blob up to this size is read whole, several at a time.
const SMALL_BYTES: u64 = 256 << 10;
/// Small blobs that are read ahead.
const READ_AHEAD: usize = 8;

type Result<T> = std::result::Result<T, StoreError>;

fn line(line: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn manifest_entry(entry: StoredEntry, overlay: bool) -> ManifestEntry {
    let (kind, mode, size) = (entry.content.kind(), entry.content.mode(), entry.content.size());
    let (sha256, target) = match entry.content {
        Content::File { sha256, .. } => (Some(sha256), None),
        Content::Directory { .. } => (None, None),
        Content::Symlink { target } => (None, Some(target)),
    };
    ManifestEntry { path: entry.path, kind, mode, size, sha256, target, modified_at: entry.modified_at, overlay }
}

/// Pins the newest version for a lease, and begins to tell what is in it.
///
/// # Errors
/// `LeaseLost`, `NoStage`, or see `StoreError`.
pub(crate) async fn check_out(queue: Arc<Queue>, holder: Holder, since: Option<u64>) -> Result<Pieces> {
    let checkout = queue.store.check_out(holder, since, queue.rules.clone()).await?;
    queue.sessions_used.note(&checkout.session, queue.clock.now().at);
    let touched = match since.filter(|_| checkout.is_since_known) {
        Some(since) => Some((since, queue.store.touched(checkout.tree, since).await?)),
        None => None,
    };
    let touched = touched.filter(|(_, paths)| paths.len() <= MAX_DIFFERENCES);
    Ok(stream(move |sink| Telling { queue, checkout, sink, lines: 0 }.tell(touched)))
}

struct Telling {
    queue: Arc<Queue>,
    checkout: Checkout,
    sink: Sink,
    lines: u64,
}

impl Telling {
    async fn tell(mut self, touched: Option<(u64, Vec<String>)>) -> Result<()> {
        let difference = if touched.is_some() { Difference::Since } else { Difference::Whole };
        let head = ManifestLine::Head(Head {
            session: self.checkout.session.clone(),
            generation: self.checkout.tree.session.cast_unsigned(),
            version: self.checkout.tree.version,
            mode: self.checkout.mode,
            difference,
            quota_left_bytes: self.checkout.quota_left_bytes,
        });
        send(&self.sink, line(&head)?).await?;
        match touched {
            Some((since, paths)) => self.differences(since, &paths).await?,
            None => self.whole().await?,
        }
        let overlaid = self.queue.overlaid("").await?;
        self.entries(overlaid.into_iter().map(|entry| manifest_entry(entry, true))).await?;
        send(&self.sink, line(&ManifestLine::End { lines: self.lines })?).await
    }

    async fn whole(&mut self) -> Result<()> {
        let mut after = String::new();
        loop {
            let page = self.queue.page(self.checkout.tree, "", &after).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(&last.path);
            self.entries(page.into_iter().map(|entry| manifest_entry(entry, false))).await?;
        }
    }

    async fn differences(&mut self, since: u64, paths: &[String]) -> Result<()> {
        for paths in paths.chunks(ROWS_AT_ONCE as usize) {
            let differing = self.queue.store.compare(self.checkout.tree, since, paths.to_vec()).await?;
            let mut bytes = Vec::new();
            for (path, entry) in differing {
                self.lines += 1;
                let told = match entry {
                    Some(entry) => ManifestLine::Entry(manifest_entry(entry, false)),
                    None => ManifestLine::Removed { path },
                };
                bytes.extend(line(&told)?);
            }
            send(&self.sink, bytes).await?;
        }
        Ok(())
    }

    async fn entries(&mut self, entries: impl Iterator<Item = ManifestEntry>) -> Result<()> {
        let mut bytes = Vec::new();
        for entry in entries {
            self.lines += 1;
            bytes.extend(line(&ManifestLine::Entry(entry))?);
        }
        send(&self.sink, bytes).await
    }
}

/// The contents that a worker lacks, as frames. All of them must be named by its lease's manifest.
///
/// # Errors
/// `LeaseLost`, `NoEntry` for a content that the manifest does not name, or see `StoreError`.
pub(crate) async fn contents(queue: Arc<Queue>, holder: Holder, sums: Vec<String>) -> Result<Pieces> {
    let stored = queue.store.contents(holder, sums.clone()).await?;
    let overlaid: HashMap<String, StoredEntry> = if stored.iter().all(Option::is_some) {
        HashMap::new()
    } else {
        let all = queue.overlaid("").await?.into_iter();
        all.filter_map(|entry| Some((sum_of(&entry)?.to_owned(), entry))).collect()
    };
    let mut wanted = Vec::with_capacity(sums.len());
    for (sum, stored) in sums.into_iter().zip(stored) {
        let found = match (stored, overlaid.get(&sum)) {
            (Some((blob, size)), _) => Found::stored(nameless(blob, size, &sum)),
            (None, Some(entry)) => Found::overlaid(entry.clone()),
            (None, None) => return Err(WorkspaceError::NoEntry(sum).into()),
        };
        wanted.push((sum, found));
    }
    Ok(stream(move |sink| send_contents(queue, wanted, sink)))
}

fn sum_of(entry: &StoredEntry) -> Option<&str> {
    match &entry.content {
        Content::File { sha256, .. } => Some(sha256),
        Content::Directory { .. } | Content::Symlink { .. } => None,
    }
}

/// A content for itself, wherever it stands.
fn nameless(blob: String, size: u64, sha256: &str) -> StoredEntry {
    let content = Content::File { blob, size, sha256: sha256.to_owned(), mode: 0 };
    StoredEntry { path: sha256.to_owned(), content, modified_at: protocol::Timestamp::from_ms(0) }
}

async fn send_contents(queue: Arc<Queue>, wanted: Vec<(String, Found)>, sink: Sink) -> Result<()> {
    let count = wanted.len() as u64;
    let mut ahead: VecDeque<(String, JoinHandle<Result<Bytes>>)> = VecDeque::new();
    for (sha256, found) in wanted {
        let size = found.entry.content.size();
        if size <= SMALL_BYTES {
            let queue = queue.clone();
            ahead.push_back((sha256, tokio::spawn(async move { Ok(Bytes::from(queue.whole(&found).await?)) })));
            if ahead.len() >= READ_AHEAD {
                send_small(&mut ahead, &sink).await?;
            }
            continue;
        }
        while !ahead.is_empty() {
            send_small(&mut ahead, &sink).await?;
        }
        send(&sink, frame(&BlobFrame::Blob { sha256, size })?).await?;
        let mut reading = queue.open(&found, 0..size).await?;
        while let Some(piece) = reading.next().await? {
            send(&sink, piece).await?;
        }
    }
    while !ahead.is_empty() {
        send_small(&mut ahead, &sink).await?;
    }
    send(&sink, frame(&BlobFrame::End { count })?).await
}

async fn send_small(ahead: &mut VecDeque<(String, JoinHandle<Result<Bytes>>)>, sink: &Sink) -> Result<()> {
    let Some((sha256, reading)) = ahead.pop_front() else { return Ok(()) };
    let bytes = reading.await.map_err(|error| StoreError::Objects(error.into()))??;
    let mut whole = frame(&BlobFrame::Blob { sha256, size: bytes.len() as u64 })?;
    whole.extend_from_slice(&bytes);
    send(sink, whole).await
}

fn frame(header: &BlobFrame) -> Result<Vec<u8>> {
    encode(header).map_err(|error| StoreError::Corrupt(error.to_string()))
}
