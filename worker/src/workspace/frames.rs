//! Takes contents that come as one stream of frames into the cache. Each must be one that was asked for, of the size and sum
//! that the manifest said, and the end must count them all.

use std::collections::HashMap;
use std::io::{self, Read};

use anyhow::{Context as _, ensure};
use protocol::workspace::frames::{BlobFrame, MAX_HEADER_BYTES};
use tokio::sync::mpsc;

use super::cache::Cache;
use super::entry::{self, Sum};

const PIECE_BYTES: u64 = 64 << 10;

/// Reads a whole stream; says how many contents came, also when it was cut off after them.
pub(super) fn take_in(
    from: &mut impl Read,
    wanted: &HashMap<Sum, u64>,
    cache: &Cache,
    taken: &mut u64,
) -> anyhow::Result<()> {
    let mut seen = 0;
    loop {
        match header(from)? {
            BlobFrame::Blob { sha256, size } => {
                seen += 1;
                let sum = entry::sum(&sha256).context("a frame names no sum")?;
                let expected = wanted.get(&sum).context("a content came that was not asked for")?;
                ensure!(size == *expected, "a content has {size} bytes instead of {expected}");
                content(from, sum, size, cache)?;
                *taken += 1;
            }
            BlobFrame::End { count } => {
                ensure!(count == seen, "its end counts {count} contents, and there were {seen}");
                ensure!(count == wanted.len() as u64, "{count} contents came instead of {}", wanted.len());
                ensure!(from.read(&mut [0])? == 0, "it goes on after its end");
                return Ok(());
            }
        }
    }
}

fn header(from: &mut impl Read) -> anyhow::Result<BlobFrame> {
    let mut length = [0; 4];
    from.read_exact(&mut length).context("it was cut off")?;
    let length = u32::from_be_bytes(length) as usize;
    ensure!(length <= MAX_HEADER_BYTES, "a header of it is over {MAX_HEADER_BYTES} bytes");
    let mut header = vec![0; length];
    from.read_exact(&mut header).context("it was cut off")?;
    serde_json::from_slice(&header).context("a header of it is not understood")
}

fn content(from: &mut impl Read, sum: Sum, size: u64, cache: &Cache) -> anyhow::Result<()> {
    let mut incoming = cache.begin().context("the cache takes nothing")?;
    let mut left = size;
    let mut piece = vec![0; usize::try_from(size.min(PIECE_BYTES))?];
    while left > 0 {
        let length = usize::try_from(left.min(PIECE_BYTES))?;
        from.read_exact(&mut piece[..length]).context("it was cut off")?;
        incoming.write(&piece[..length]).context("the cache takes no more")?;
        left -= length as u64;
    }
    ensure!(incoming.keep(&sum).context("the cache keeps nothing")?, "a content is not what its sum says");
    Ok(())
}

/// What comes over a channel, for somebody who reads. It ends when the channel does.
pub(super) struct Pieces {
    from: mpsc::Receiver<Vec<u8>>,
    piece: Vec<u8>,
    read: usize,
}

impl Pieces {
    pub(super) const fn new(from: mpsc::Receiver<Vec<u8>>) -> Self {
        Self { from, piece: Vec::new(), read: 0 }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.piece.len() {
            match self.from.blocking_recv() {
                Some(piece) => (self.piece, self.read) = (piece, 0),
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.piece.len() - self.read);
        buffer[..length].copy_from_slice(&self.piece[self.read..self.read + length]);
        self.read += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests;
