//! A session, or a directory of it, as a compressed archive that is made while it is read.

use std::io::Write as _;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::read::{Found, View};
use super::tar::{self, Kind};
use super::{Pieces, Sink, send, stream};
use crate::queue::Queue;
use crate::store::{Content, StoreError, StoredEntry};

/// Bytes that are sent at once.
const PIECE_BYTES: usize = 64 << 10;

struct Archive {
    sink: Sink,
    gzip: GzEncoder<Vec<u8>>,
}

/// Everything below a directory of a session as tar.gz, without the overlays: they are not the session's.
pub(crate) fn archive(queue: Arc<Queue>, view: View, below: String) -> Pieces {
    stream(move |sink| async move {
        let mut archive = Archive { sink, gzip: GzEncoder::new(Vec::new(), Compression::fast()) };
        let mut after = String::new();
        loop {
            let page = queue.page(view.tree, &below, &after).await?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.path);
            for entry in page {
                archive.add(&queue, &below, entry).await?;
            }
        }
        archive.write(&tar::END).await?;
        let rest = archive.gzip.finish()?;
        send(&archive.sink, rest).await
    })
}

impl Archive {
    async fn add(&mut self, queue: &Queue, below: &str, entry: StoredEntry) -> Result<(), StoreError> {
        let path = entry.path.get(below.len()..).unwrap_or_default().trim_start_matches('/').to_owned();
        let (mode, at) = (entry.content.mode(), entry.modified_at);
        match &entry.content {
            Content::Directory { .. } => self.write(&tar::header(&format!("{path}/"), Kind::Directory, mode, at)).await,
            Content::Symlink { target } => self.write(&tar::header(&path, Kind::Symlink(target), mode, at)).await,
            Content::File { size, .. } => {
                let size = *size;
                self.write(&tar::header(&path, Kind::File(size), mode, at)).await?;
                let mut reading = queue.open(&Found::stored(entry), 0..size).await?;
                while let Some(piece) = reading.next().await? {
                    self.write(&piece).await?;
                }
                self.write(&tar::END[..tar::padding(size)]).await
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        for part in bytes.chunks(PIECE_BYTES) {
            self.gzip.write_all(part)?;
            if self.gzip.get_ref().len() >= PIECE_BYTES {
                let ready = std::mem::take(self.gzip.get_mut());
                send(&self.sink, ready).await?;
            }
        }
        Ok(())
    }
}
