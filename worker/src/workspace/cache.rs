//! Contents by their sums, so that none is fetched twice: files that nobody but the worker reads, of which the ones that were
//! not used for longest go first.
//!
//! A content is summed up while it is written and gets its name when it is whole. After a loss of power the disk may have
//! kept less, so what an earlier start wrote is summed up once more when it is first used. Tasks get copies or clones of
//! a content, never the file itself: who writes in place would change it for all.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::ioctl_ficlone;
use sha2::{Digest as _, Sha256};

use super::entry::{self, Sum, hexadecimal};

/// Contents at most, whatever their sizes: each takes some memory.
const MAX_BLOBS: usize = 250_000;
/// Up to this size a content is read and written at once.
const SMALL_BYTES: u64 = 64 << 10;
const PIECE_BYTES: usize = 64 << 10;

/// The contents.
pub(crate) struct Cache {
    place: PathBuf,
    limit_bytes: u64,
    index: Mutex<Index>,
    names: AtomicU64,
    /// Whether the file system shares the bytes of two files until one is changed.
    clones: AtomicBool,
}

#[derive(Default)]
struct Index {
    /// Whether the directory was looked through.
    is_known: bool,
    blobs: HashMap<Sum, Blob>,
    bytes: u64,
    uses: u64,
    pins: HashMap<Sum, u32>,
}

#[derive(Clone, Copy)]
struct Blob {
    size: u64,
    used: u64,
    /// Whether this very process summed it up.
    is_checked: bool,
}

/// Why a content was not laid out.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotLaid {
    /// It is not there, or not what it should be: it must be fetched.
    #[error("a content is missing")]
    Missing,
    /// The disk did not take it.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Cache {
    /// Makes the directory, and removes what was begun and not finished.
    pub(super) fn open(place: PathBuf, limit_bytes: u64) -> io::Result<Self> {
        let incoming = place.join("incoming");
        if fs::exists(&incoming)? {
            fs::remove_dir_all(&incoming)?;
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&incoming)?;
        let (index, names) = (Mutex::default(), AtomicU64::new(0));
        Ok(Self { place, limit_bytes, index, names, clones: AtomicBool::new(true) })
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if !index.is_known {
            index.is_known = true;
            self.look_through(&mut index);
        }
        index
    }

    /// The oldest start's contents first.
    fn look_through(&self, index: &mut Index) {
        let directories = fs::read_dir(&self.place).into_iter().flatten().flatten();
        let mut found = Vec::new();
        for directory in directories.filter(|directory| directory.file_name().len() == 2) {
            let start = directory.file_name().to_string_lossy().into_owned();
            for file in fs::read_dir(directory.path()).into_iter().flatten().flatten() {
                let name = start.clone() + &file.file_name().to_string_lossy();
                if let (Some(sum), Ok(about)) = (entry::sum(&name), file.metadata()) {
                    found.push(((about.mtime(), about.mtime_nsec()), sum, about.len()));
                }
            }
        }
        found.sort_unstable();
        for (_, sum, size) in found {
            index.uses += 1;
            index.bytes += size;
            index.blobs.insert(sum, Blob { size, used: index.uses, is_checked: false });
        }
    }

    fn path(&self, sum: &Sum) -> PathBuf {
        let name = hexadecimal(sum);
        self.place.join(&name[..2]).join(&name[2..])
    }

    /// Keeps these contents from going, as far as they are there or come, until the answer is dropped.
    pub(super) fn pin(self: &Arc<Self>, sums: Vec<Sum>) -> Pinned {
        let mut index = self.lock();
        for sum in &sums {
            *index.pins.entry(*sum).or_default() += 1;
        }
        drop(index);
        Pinned { cache: Arc::clone(self), sums }
    }

    /// Begins a content.
    pub(super) fn begin(&self) -> io::Result<Incoming<'_>> {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        let path = self.place.join("incoming").join(number.to_string());
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Incoming { cache: self, file, path, size: 0, sum: Sha256::new(), is_kept: false })
    }

    fn add(&self, sum: Sum, size: u64) {
        let mut index = self.lock();
        index.uses += 1;
        let blob = Blob { size, used: index.uses, is_checked: true };
        if index.blobs.insert(sum, blob).is_none() {
            index.bytes += size;
        }
        if index.bytes > self.limit_bytes || index.blobs.len() > MAX_BLOBS {
            self.make_room(&mut index);
        }
    }

    /// Removes what was not used for longest until a tenth is free, so that this is not done for each.
    fn make_room(&self, index: &mut Index) {
        let mut old: Vec<(u64, Sum)> = index
            .blobs
            .iter()
            .filter(|(sum, _)| !index.pins.contains_key(*sum))
            .map(|(sum, blob)| (blob.used, *sum))
            .collect();
        old.sort_unstable();
        let (bytes, count) = (self.limit_bytes / 10 * 9, MAX_BLOBS / 10 * 9);
        for (_, sum) in old {
            if index.bytes <= bytes && index.blobs.len() <= count {
                return;
            }
            self.remove(index, &sum);
        }
    }

    fn remove(&self, index: &mut Index, sum: &Sum) {
        if let Some(blob) = index.blobs.remove(sum) {
            index.bytes = index.bytes.saturating_sub(blob.size);
        }
        let _ = fs::remove_file(self.path(sum));
    }

    /// Fills a new file with a content.
    pub(super) fn lay(&self, sum: &Sum, size: u64, to: &mut File) -> Result<(), NotLaid> {
        let blob = {
            let mut index = self.lock();
            index.uses += 1;
            let uses = index.uses;
            let blob = index.blobs.get_mut(sum).ok_or(NotLaid::Missing)?;
            blob.used = uses;
            *blob
        };
        let Some(mut from) = self.opened(sum, size)? else {
            self.remove(&mut self.lock(), sum);
            return Err(NotLaid::Missing);
        };
        if blob.is_checked {
            return Ok(self.copy(&mut from, size, to)?);
        }
        if copy_and_sum(&mut from, to)? != *sum {
            tracing::warn!("a content in the cache was damaged and is fetched again");
            self.remove(&mut self.lock(), sum);
            return Err(NotLaid::Missing);
        }
        if let Some(blob) = self.lock().blobs.get_mut(sum) {
            blob.is_checked = true;
        }
        Ok(())
    }

    fn opened(&self, sum: &Sum, size: u64) -> io::Result<Option<File>> {
        match File::open(self.path(sum)) {
            Ok(file) if file.metadata()?.len() == size => Ok(Some(file)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn copy(&self, from: &mut File, size: u64, to: &mut File) -> io::Result<()> {
        if size <= SMALL_BYTES {
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
            from.read_to_end(&mut bytes)?;
            return to.write_all(&bytes);
        }
        if self.clones.load(Ordering::Relaxed) {
            if ioctl_ficlone(&*to, &*from).is_ok() {
                return Ok(());
            }
            self.clones.store(false, Ordering::Relaxed);
        }
        let copied = io::copy(from, to)?;
        if copied == size { Ok(()) } else { Err(io::Error::other("a content became shorter while it was copied")) }
    }
}

fn copy_and_sum(from: &mut File, to: &mut File) -> io::Result<Sum> {
    let mut sum = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(sum.finalize().into()),
            length => {
                sum.update(&piece[..length]);
                to.write_all(&piece[..length])?;
            }
        }
    }
}

/// Contents that stay as long as this does.
pub(super) struct Pinned {
    cache: Arc<Cache>,
    sums: Vec<Sum>,
}

impl Pinned {
    /// Those that are not there.
    pub(super) fn lacking(&self) -> Vec<Sum> {
        let index = self.cache.lock();
        self.sums.iter().filter(|sum| !index.blobs.contains_key(*sum)).copied().collect()
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut index = self.cache.lock();
        for sum in &self.sums {
            if let Some(count) = index.pins.get_mut(sum) {
                *count -= 1;
                if *count == 0 {
                    index.pins.remove(sum);
                }
            }
        }
        if index.bytes > self.cache.limit_bytes {
            self.cache.make_room(&mut index);
        }
    }
}

/// A content of which not all has come. It is gone unless it is kept.
pub(super) struct Incoming<'cache> {
    cache: &'cache Cache,
    file: File,
    path: PathBuf,
    size: u64,
    sum: Sha256,
    is_kept: bool,
}

impl Incoming<'_> {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.size += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Keeps it, if it is what it should be; says whether it is.
    pub(super) fn keep(mut self, sum: &Sum) -> io::Result<bool> {
        let found: Sum = std::mem::take(&mut self.sum).finalize().into();
        if found != *sum {
            return Ok(false);
        }
        let path = self.cache.path(sum);
        rename_into(&self.path, &path)?;
        self.is_kept = true;
        self.cache.add(*sum, self.size);
        Ok(true)
    }
}

fn rename_into(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = to.parent().ok_or(io::ErrorKind::NotFound)?;
            match fs::DirBuilder::new().mode(0o700).create(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
            fs::rename(from, to)
        }
        renamed => renamed,
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
