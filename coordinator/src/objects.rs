//! Where files of tasks and of workspaces are kept: immutable blobs, each under a name of its own. A blob is whole and on the
//! disk before anyone names it; what nobody names is swept.
//!
//! This room knows no tasks, leases or sessions: which blobs are named stands in the store. Bytes come and go in pieces.

mod directory;
mod incoming;

use std::io;
use std::ops::Range;
use std::path::Path;

use bytes::{Bytes, BytesMut};

use directory::Directory;
pub use incoming::{Incoming, Kept};

/// A place for blobs.
#[derive(Clone)]
pub enum Objects {
    /// A directory that one coordinator owns.
    Dir(Directory),
}

/// A blob that is being read, piece by piece.
pub struct Reading {
    source: Source,
    left: u64,
}

enum Source {
    Dir(std::fs::File),
}

impl Objects {
    /// Opens a directory of blobs; what a crash left half-written is gone afterwards.
    ///
    /// # Errors
    /// When it cannot be made, read or written.
    pub fn open_directory(path: &Path) -> anyhow::Result<Self> {
        Directory::open(path).map(Self::Dir)
    }

    /// Begins a blob. Nothing is left of it unless it is kept.
    #[must_use]
    pub fn begin(&self) -> Incoming {
        Incoming::new(self.clone())
    }

    /// Begins to read a part of a blob. A blob that ends before the part does is an error, never a short answer.
    ///
    /// # Errors
    /// When it is not there, or cannot be read.
    pub async fn read(&self, name: &str, part: Range<u64>) -> io::Result<Reading> {
        let Self::Dir(directory) = self;
        let (directory, name, start) = (directory.clone(), name.to_owned(), part.start);
        let file = blocking(move || directory.read(&name, start)).await?;
        Ok(Reading { source: Source::Dir(file), left: part.end.saturating_sub(part.start) })
    }

    /// A whole blob of so many bytes, in memory: for those that are known to be small.
    ///
    /// # Errors
    /// When it is not there, or cannot be read.
    pub async fn bytes(&self, name: &str, size: u64) -> io::Result<Bytes> {
        let mut reading = self.read(name, 0..size).await?;
        let mut whole = BytesMut::new();
        while let Some(piece) = reading.next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// Removes blobs; one that is not there is removed already.
    ///
    /// # Errors
    /// When one cannot be removed; the others may be gone.
    pub async fn remove(&self, names: Vec<String>) -> io::Result<()> {
        let Self::Dir(directory) = self;
        let directory = directory.clone();
        blocking(move || names.iter().try_for_each(|name| directory.remove(name))).await
    }

    /// All blobs that are kept and not about to be named: those that the store does not name are nobody's. Ask the store
    /// only afterwards.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn settled(&self) -> io::Result<Vec<String>> {
        let Self::Dir(directory) = self;
        let directory = directory.clone();
        blocking(move || directory.settled()).await
    }
}

impl Reading {
    /// Begins to read a part of a file that is not a blob.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn of_file(mut file: std::fs::File, part: Range<u64>) -> io::Result<Self> {
        let start = part.start;
        let file = blocking(move || io::Seek::seek(&mut file, io::SeekFrom::Start(start)).map(|_| file)).await?;
        Ok(Self { source: Source::Dir(file), left: part.end.saturating_sub(part.start) })
    }

    /// The next piece; none at the end of the part.
    ///
    /// # Errors
    /// When it cannot be read, or the blob is shorter than it should be.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        const PIECE_BYTES: u64 = 256 << 10;
        let length = usize::try_from(self.left.min(PIECE_BYTES)).map_err(io::Error::other)?;
        if length == 0 {
            return Ok(None);
        }
        let Source::Dir(file) = &self.source;
        let mut file = file.try_clone()?;
        let piece = blocking(move || {
            let mut bytes = vec![0; length];
            io::Read::read_exact(&mut file, &mut bytes)?;
            Ok(Bytes::from(bytes))
        });
        let piece = piece.await?;
        self.left -= piece.len() as u64;
        Ok(Some(piece))
    }
}

/// Does what blocks elsewhere, and waits for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::from).flatten()
}

#[cfg(test)]
mod tests;
