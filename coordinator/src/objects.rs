//! Where files of tasks and of workspaces are kept: immutable blobs, each under a name of its own. A blob is whole and safe
//! before anyone names it; what nobody names is swept. Beside them plain objects, which are copies for people.
//!
//! This room knows no tasks, leases or sessions: which blobs are named stands in the store. Bytes come and go in pieces.

mod directory;
mod incoming;
mod plain;
pub mod s3;
mod unnamed;

use std::io;
use std::ops::Range;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use protocol::Timestamp;

pub use directory::Directory;
pub use incoming::{Incoming, Kept};
pub use plain::Plain;
pub use s3::S3;

/// A place for blobs.
#[derive(Clone)]
pub enum Objects {
    /// A directory that one coordinator owns.
    Dir(Directory),
    /// A bucket, or what has a prefix in it.
    S3(S3),
}

/// A blob that is being read, piece by piece.
pub struct Reading {
    source: Source,
    left: u64,
}

enum Source {
    Dir(std::fs::File),
    S3(Box<s3::Pieces>),
}

impl Objects {
    /// Opens a directory of blobs; what a crash left half-written is gone afterwards.
    ///
    /// # Errors
    /// When it cannot be made, read or written.
    pub fn open_directory(path: &Path) -> anyhow::Result<Self> {
        Directory::open(path).map(Self::Dir)
    }

    /// Connects to a bucket and tries whether it can be used. The directory is for what is on its way.
    ///
    /// # Errors
    /// What is wrong with the settings or the server, in words, and what to do.
    pub async fn open_s3(settings: s3::Settings, path: &Path) -> anyhow::Result<Self> {
        S3::open(settings, path).await.map(Self::S3)
    }

    /// Where large blobs are written while they come.
    fn spool(&self) -> &Directory {
        match self {
            Self::Dir(directory) => directory,
            Self::S3(s3) => s3.spool(),
        }
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
        let left = part.end.saturating_sub(part.start);
        let source = match self {
            Self::Dir(directory) => {
                let (directory, name, start) = (directory.clone(), name.to_owned(), part.start);
                Source::Dir(blocking(move || directory.read(&name, start)).await?)
            }
            Self::S3(s3) => Source::S3(Box::new(s3.read(name, part).await?)),
        };
        Ok(Reading { source, left })
    }

    /// A whole blob of so many bytes, in memory: for those that are known to be small.
    ///
    /// # Errors
    /// When it is not there, or cannot be read.
    pub async fn bytes(&self, name: &str, size: u64) -> io::Result<Bytes> {
        self.read(name, 0..size).await?.bytes().await
    }

    /// Removes blobs; one that is not there is removed already.
    ///
    /// # Errors
    /// When one cannot be removed; the others may be gone.
    pub async fn remove(&self, names: Vec<String>) -> io::Result<()> {
        match self {
            Self::Dir(directory) => {
                let directory = directory.clone();
                blocking(move || names.iter().try_for_each(|name| directory.remove(name))).await
            }
            Self::S3(s3) => s3.remove(&names).await,
        }
    }

    /// All blobs that are kept and not about to be named: those that the store does not name are nobody's. Ask the store
    /// only afterwards. In a bucket they are also older than a day, by the wall clock.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn settled(&self, wall: Timestamp) -> io::Result<Vec<String>> {
        match self {
            Self::Dir(directory) => {
                let directory = directory.clone();
                blocking(move || directory.settled()).await
            }
            Self::S3(s3) => s3.settled(wall).await,
        }
    }

    /// A blob that was kept is named or not wanted: the sweep may look at it.
    fn settle(&self, name: &str) {
        match self {
            Self::Dir(directory) => directory.settle(name),
            Self::S3(s3) => s3.settle(name),
        }
    }

    /// Nobody came to name a blob that was kept. What cannot be removed is found by the sweep.
    fn drop_unnamed(&self, name: &str) {
        match self {
            Self::Dir(directory) => drop(directory.remove(name)),
            Self::S3(s3) => s3.remove_later(name.to_owned()),
        }
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
        if self.left == 0 {
            return Ok(None);
        }
        let piece = match &mut self.source {
            Source::Dir(file) => Some(directory::piece(file, self.left).await?),
            Source::S3(pieces) => pieces.next().await?,
        };
        let piece = piece.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.left -= piece.len() as u64;
        Ok(Some(piece))
    }

    /// All that is left, in memory: for what is known to be small.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn bytes(mut self) -> io::Result<Bytes> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }
}

/// Does what blocks elsewhere, and waits for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::from).flatten()
}

#[cfg(test)]
pub(crate) mod tests;
