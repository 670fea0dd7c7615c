//! Where files of tasks are kept: immutable blobs, each under a name of its own. A blob is whole and on the disk before
//! anyone names it; what nobody names is swept.
//!
//! This room knows no tasks and no leases: which blobs are named stands in the store.

mod directory;

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub use directory::{Directory, Incoming, Kept};

/// Pieces of an upload that may wait for the disk.
const PIECES: usize = 8;

/// A place for blobs.
pub enum Objects {
    /// A directory that one coordinator owns.
    Dir(Directory),
}

impl Objects {
    /// Opens a directory of blobs; what a crash left half-written is gone afterwards.
    ///
    /// # Errors
    /// When it cannot be made, read or written.
    pub fn open_directory(path: &Path) -> anyhow::Result<Self> {
        Directory::open(path).map(Self::Dir)
    }

    /// Begins a blob: what is sent is written, and the sum comes once the sender is dropped. Nothing is left of it unless
    /// it is kept.
    #[must_use]
    pub fn receive(&self) -> (mpsc::Sender<Bytes>, JoinHandle<io::Result<Incoming>>) {
        let Self::Dir(directory) = self;
        let (sender, mut pieces) = mpsc::channel::<Bytes>(PIECES);
        let directory = directory.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let mut incoming = directory.begin()?;
            while let Some(piece) = pieces.blocking_recv() {
                incoming.write(&piece)?;
            }
            Ok(incoming)
        });
        (sender, writing)
    }

    /// Opens a blob for reading.
    ///
    /// # Errors
    /// When it is not there, or cannot be read.
    pub async fn read(&self, name: String) -> io::Result<File> {
        let Self::Dir(directory) = self;
        let directory = directory.clone();
        tokio::task::spawn_blocking(move || directory.read(&name)).await.map_err(io::Error::from).flatten()
    }

    /// Removes blobs; one that is not there is removed already.
    ///
    /// # Errors
    /// When one cannot be removed; the others may be gone.
    pub async fn remove(&self, names: Vec<String>) -> io::Result<()> {
        let Self::Dir(directory) = self;
        let directory = directory.clone();
        let remove = move || names.iter().try_for_each(|name| directory.remove(name));
        tokio::task::spawn_blocking(remove).await.map_err(io::Error::from).flatten()
    }

    /// All blobs that are kept and not about to be named: those that the store does not name are nobody's. Ask the store
    /// only afterwards.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn settled(&self) -> io::Result<Vec<String>> {
        let Self::Dir(directory) = self;
        let directory = directory.clone();
        tokio::task::spawn_blocking(move || directory.settled()).await.map_err(io::Error::from).flatten()
    }
}

#[cfg(test)]
mod tests;
