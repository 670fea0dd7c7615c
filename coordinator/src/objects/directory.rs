//! Blobs as files of a directory: `incoming/` has what is being written, `blobs/` what is whole.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

/// A directory of blobs.
#[derive(Clone)]
pub struct Directory {
    root: Arc<Path>,
    /// Blobs that are kept but not named yet: the sweep must not take them for nobody's.
    unnamed: Arc<Mutex<HashSet<String>>>,
}

impl Directory {
    pub(super) fn open(root: &Path) -> anyhow::Result<Self> {
        let directory = Self { root: root.into(), unnamed: Arc::default() };
        let prepare = || {
            for part in ["blobs", "incoming"] {
                DirBuilder::new().recursive(true).mode(0o700).create(root.join(part))?;
            }
            for entry in fs::read_dir(root.join("incoming"))? {
                fs::remove_file(entry?.path())?;
            }
            io::Result::Ok(())
        };
        prepare().with_context(|| format!("preparing the object store {}", root.display()))?;
        Ok(directory)
    }

    fn blob(&self, name: &str) -> PathBuf {
        self.root.join("blobs").join(name)
    }

    fn unnamed(&self) -> MutexGuard<'_, HashSet<String>> {
        self.unnamed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self) -> io::Result<Incoming> {
        let path = self.root.join("incoming").join(random()?);
        let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
        Ok(Incoming { directory: self.clone(), file, path, sum: Sha256::new(), size: 0 })
    }

    pub(super) fn read(&self, name: &str) -> io::Result<File> {
        File::open(self.blob(name))
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.blob(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    pub(super) fn settled(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join("blobs"))? {
            names.extend(entry?.file_name().into_string());
        }
        let unnamed = self.unnamed();
        names.retain(|name| !unnamed.contains(name));
        Ok(names)
    }
}

/// A blob that is being written. Dropped, it leaves nothing behind.
pub struct Incoming {
    directory: Directory,
    file: File,
    path: PathBuf,
    sum: Sha256,
    size: u64,
}

impl Incoming {
    pub(super) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        self.sum.update(piece);
        self.size += piece.len() as u64;
        Ok(())
    }

    /// Brings it to the disk under its name. Blocks.
    ///
    /// # Errors
    /// When the disk does not take it; nothing is left behind.
    pub fn keep(mut self) -> io::Result<Kept> {
        self.file.sync_all()?;
        let sha256 = hexadecimal(&std::mem::take(&mut self.sum).finalize());
        let name = format!("{sha256}.{}", random()?);
        self.directory.unnamed().insert(name.clone());
        let kept = Kept { directory: self.directory.clone(), name, size: self.size, sha256, is_named: false };
        fs::rename(&self.path, self.directory.blob(&kept.name))?;
        File::open(self.directory.root.join("blobs"))?.sync_all()?;
        Ok(kept)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // Once it is kept it is not there any more; what stays by mistake goes at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// A blob that is on the disk. It is removed again unless somebody names it.
pub struct Kept {
    directory: Directory,
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
    is_named: bool,
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
        self.directory.unnamed().remove(&self.name);
    }
}

fn random() -> io::Result<String> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hexadecimal(&bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // cannot fail: a text takes everything
        let _ = write!(text, "{byte:02x}");
    }
    text
}
