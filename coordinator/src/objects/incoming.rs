//! A blob on its way in: small ones stay in memory until they are kept, large ones are written as they come.

use std::io;

use bytes::{Bytes, BytesMut};
use sha2::{Digest as _, Sha256};

use super::directory::{Directory, Draft};
use super::{Objects, blocking};

/// Bytes that wait in memory before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// A blob that is being written. Dropped, it leaves nothing behind.
pub struct Incoming {
    objects: Objects,
    buffer: BytesMut,
    draft: Option<Draft>,
    sum: Sha256,
    size: u64,
}

impl Incoming {
    pub(super) fn new(objects: Objects) -> Self {
        Self { objects, buffer: BytesMut::new(), draft: None, sum: Sha256::new(), size: 0 }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// When they cannot be written; nothing is left behind.
    pub async fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.sum.update(piece);
        self.size += piece.len() as u64;
        self.buffer.extend_from_slice(piece);
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        let full = self.buffer.split().freeze();
        let Objects::Dir(directory) = &self.objects;
        let (directory, draft) = (directory.clone(), self.draft.take());
        self.draft = Some(blocking(move || written(&directory, draft, &full)).await?);
        Ok(())
    }

    /// Bytes so far.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Brings it to the disk under its name.
    ///
    /// # Errors
    /// When the disk does not take it; nothing is left behind.
    pub async fn keep(self) -> io::Result<Kept> {
        let mut kept = Self::keep_all(vec![self]).await?;
        kept.pop().ok_or_else(|| io::Error::other("a blob was lost on its way to the disk"))
    }

    /// Brings several to the disk at the price of one, in their order.
    ///
    /// # Errors
    /// When the disk does not take one of them; nothing is left behind of any.
    pub async fn keep_all(all: Vec<Self>) -> io::Result<Vec<Kept>> {
        let Some(first) = all.first() else { return Ok(Vec::new()) };
        let Objects::Dir(directory) = first.objects.clone();
        blocking(move || {
            let mut drafts = Vec::with_capacity(all.len());
            let mut sums = Vec::with_capacity(all.len());
            for incoming in all {
                drafts.push(written(&directory, incoming.draft, &incoming.buffer.freeze())?);
                sums.push((hexadecimal(&incoming.sum.finalize()), incoming.size));
            }
            directory.keep(drafts, sums)
        })
        .await
    }
}

fn written(directory: &Directory, draft: Option<Draft>, bytes: &Bytes) -> io::Result<Draft> {
    let mut draft = match draft {
        Some(draft) => draft,
        None => directory.begin()?,
    };
    draft.write(bytes)?;
    Ok(draft)
}

/// A blob that is on the disk. It is removed again unless somebody names it.
pub struct Kept {
    pub(super) directory: Directory,
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
    pub(super) is_named: bool,
}

impl Kept {
    /// The store names it now: it stays.
    pub fn is_named(mut self) {
        self.is_named = true;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.is_named {
            // What cannot be removed now is found by the sweep.
            let _ = self.directory.remove(&self.name);
        }
        self.directory.settle(&self.name);
    }
}

/// Bytes as digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // cannot fail: a text takes everything
        let _ = write!(text, "{byte:02x}");
    }
    text
}
