//! Blobs as files of a directory: `incoming/` has what is being written, `blobs/` what is whole.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;

use super::incoming::{Kept, hexadecimal};

/// From so many files on, one call that brings the whole file system to the disk is cheaper than one for each.
const MANY_FILES: usize = 8;

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
            self.unnamed().insert(name.clone());
            let kept = Kept { directory: self.clone(), name, size, sha256, is_named: false };
            fs::rename(&draft.path, self.blob(&kept.name))?;
            all.push(kept);
        }
        File::open(self.root.join("blobs"))?.sync_all()?;
        Ok(all)
    }

    /// A blob is named or gone: the sweep may look at it.
    pub(super) fn settle(&self, name: &str) {
        self.unnamed().remove(name);
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
        let unnamed = self.unnamed();
        names.retain(|name| !unnamed.contains(name));
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
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Once it is kept it is not there any more; what stays by mistake goes at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

fn random() -> io::Result<String> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hexadecimal(&bytes))
}
