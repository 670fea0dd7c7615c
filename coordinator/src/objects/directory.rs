//! Blobs as files of a directory: `incoming/` has what is being written, `blobs/` what is whole, `plain/` copies for people.

mod plain;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;

use super::incoming::{Kept, hexadecimal};
use super::unnamed::Unnamed;
use super::{Objects, blocking};

/// From so many files on, one call that brings the whole file system to the disk is cheaper than one for each.
const MANY_FILES: usize = 8;

/// A directory of blobs.
#[derive(Clone)]
pub struct Directory {
    root: Arc<Path>,
    unnamed: Unnamed,
}

impl Directory {
    pub(super) fn open(root: &Path) -> anyhow::Result<Self> {
        let directory = Self { root: root.into(), unnamed: Unnamed::default() };
        let prepare = || {
            for part in ["blobs", "incoming", "plain"] {
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

    pub(super) fn begin(&self) -> io::Result<Draft> {
        let path = self.root.join("incoming").join(random()?);
        let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
        Ok(Draft { file, path })
    }

    /// Brings drafts to the disk under names of their sums.
    pub(super) fn keep(&self, drafts: Vec<Draft>, sums: Vec<(String, u64)>) -> io::Result<Vec<Kept>> {
        if drafts.len() < MANY_FILES {
            drafts.iter().try_for_each(|draft| draft.file.sync_all())?;
        } else {
            rustix::fs::syncfs(File::open(self.root.join("incoming"))?)?;
        }
        let mut all = Vec::with_capacity(drafts.len());
        for (draft, (sha256, size)) in drafts.iter().zip(sums) {
            let name = format!("{sha256}.{}", random()?);
            self.unnamed.add(&name);
            let kept = Kept { objects: Objects::Dir(self.clone()), name, size, sha256, is_named: false };
            fs::rename(&draft.path, self.blob(&kept.name))?;
            all.push(kept);
        }
        File::open(self.root.join("blobs"))?.sync_all()?;
        Ok(all)
    }

    /// A blob is named or gone: the sweep may look at it.
    pub(super) fn settle(&self, name: &str) {
        self.unnamed.settle(name);
    }

    pub(super) fn read(&self, name: &str, start: u64) -> io::Result<File> {
        let mut file = File::open(self.blob(name))?;
        file.seek(SeekFrom::Start(start))?;
        Ok(file)
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
        self.unnamed.drop_from(&mut names);
        Ok(names)
    }
}

/// A file that is being written. Dropped, it leaves nothing behind.
pub(super) struct Draft {
    file: File,
    path: PathBuf,
}

impl Draft {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// The same file for reading.
    pub(super) fn reopen(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Once it is kept it is not there any more; what stays by mistake goes at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// The next piece of a file, of which so many bytes are wanted.
pub(super) async fn piece(file: &File, left: u64) -> io::Result<Bytes> {
    const PIECE_BYTES: u64 = 256 << 10;
    let length = usize::try_from(left.min(PIECE_BYTES)).map_err(io::Error::other)?;
    let mut file = file.try_clone()?;
    blocking(move || {
        let mut bytes = vec![0; length];
        file.read_exact(&mut bytes)?;
        Ok(bytes.into())
    })
    .await
}

/// Digits that nobody can guess.
pub(super) fn random() -> io::Result<String> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hexadecimal(&bytes))
}
