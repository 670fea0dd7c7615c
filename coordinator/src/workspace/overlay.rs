//! The operator's directories that lie over every workspace, read-only. Links in them are not shown and not followed, nor is
//! anything that a workspace would refuse by its name.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::Timestamp;
use protocol::path::{Overlay, WorkspacePath};
use rustix::fs::{Mode, OFlags, openat};
use sha2::{Digest as _, Sha256};

use crate::store::{Content, StoredEntry};

/// Files and directories of one overlay that are shown.
const MAX_ENTRIES: usize = 10_000;

/// Both overlays.
#[derive(Clone, Default)]
pub struct Overlays {
    roots: Vec<(Overlay, PathBuf)>,
    sums: Arc<Mutex<HashMap<PathBuf, (Stamp, String)>>>,
}

/// What changes when a file does.
type Stamp = (u64, u64, i64, i64);

impl Overlays {
    /// Directories by their overlay; one that is not set is empty.
    ///
    /// # Errors
    /// When a directory is not there.
    pub fn open(utils: Option<&Path>, skills: Option<&Path>) -> io::Result<Self> {
        let given = [(Overlay::Utils, utils), (Overlay::Skills, skills)];
        let roots = given.into_iter().filter_map(|(overlay, path)| Some((overlay, path?)));
        let roots = roots.map(|(overlay, path)| Ok((overlay, fs::canonicalize(path)?))).collect::<io::Result<_>>()?;
        Ok(Self { roots, sums: Arc::default() })
    }

    /// Everything in one of them with its own directory, by path.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn entries(&self, overlay: Overlay) -> io::Result<Vec<StoredEntry>> {
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.scan(overlay)).await.map_err(io::Error::from).flatten()
    }

    /// What stands at a path of an overlay, by its exact spelling.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn entry(&self, overlay: Overlay, path: &WorkspacePath) -> io::Result<Option<StoredEntry>> {
        let all = self.entries(overlay).await?;
        Ok(all.into_iter().find(|entry| entry.path == path.as_str()))
    }

    /// Opens a file that `entries` showed, walking without following links.
    ///
    /// # Errors
    /// When it is gone, or became something else.
    pub async fn file(&self, path: String) -> io::Result<File> {
        let this = self.clone();
        let open = move || {
            let (top, inside) = path.split_once('/').ok_or(io::ErrorKind::NotFound)?;
            let root = this.roots.iter().find(|(overlay, _)| overlay.as_str() == top);
            let (_, root) = root.ok_or(io::ErrorKind::NotFound)?;
            open_inside(root, inside)
        };
        tokio::task::spawn_blocking(open).await.map_err(io::Error::from).flatten()
    }

    fn scan(&self, overlay: Overlay) -> io::Result<Vec<StoredEntry>> {
        let mut found = vec![top(overlay)];
        if let Some((_, root)) = self.roots.iter().find(|(known, _)| *known == overlay) {
            self.scan_directory(root, overlay.as_str(), &mut found)?;
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    fn scan_directory(&self, directory: &Path, path: &str, found: &mut Vec<StoredEntry>) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let (kind, name) = (entry.file_type()?, entry.file_name());
            let path = format!("{path}/{}", name.to_str().unwrap_or("/"));
            let is_shown = WorkspacePath::from_relative(&path).is_ok() && (kind.is_file() || kind.is_dir());
            if !is_shown {
                continue;
            }
            if found.len() >= MAX_ENTRIES {
                tracing::warn!(directory = %directory.display(), "an overlay has over 10,000 files; the rest is not shown");
                return Ok(());
            }
            let about = entry.metadata()?;
            let modified_at = Timestamp::from_ms(about.mtime() * 1000 + about.mtime_nsec() / 1_000_000);
            let content = if kind.is_dir() {
                Content::Directory { mode: 0o555 }
            } else {
                let sha256 = self.sum(&entry.path(), &about)?;
                let mode = if about.mode() & 0o111 == 0 { 0o444 } else { 0o555 };
                Content::File { blob: String::new(), size: about.len(), sha256, mode }
            };
            found.push(StoredEntry { path: path.clone(), content, modified_at });
            if kind.is_dir() {
                self.scan_directory(&entry.path(), &path, found)?;
            }
        }
        Ok(())
    }

    /// The sum of a file, taken again only when the file changed.
    fn sum(&self, path: &Path, about: &fs::Metadata) -> io::Result<String> {
        let stamp = (about.ino(), about.len(), about.mtime(), about.mtime_nsec());
        let known = self.sums.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some((_, sum)) = known.filter(|(known, _)| *known == stamp) {
            return Ok(sum);
        }
        let mut file = File::open(path)?;
        let mut sum = Sha256::new();
        let mut piece = vec![0; 64 << 10];
        loop {
            match file.read(&mut piece)? {
                0 => break,
                length => sum.update(&piece[..length]),
            }
        }
        let sum: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), (stamp, sum.clone()));
        Ok(sum)
    }
}

/// The directory of an overlay itself, which is there whatever is in it.
pub(super) fn top(overlay: Overlay) -> StoredEntry {
    let (path, content) = (overlay.as_str().to_owned(), Content::Directory { mode: 0o555 });
    StoredEntry { path, content, modified_at: Timestamp::from_ms(0) }
}

fn open_inside(root: &Path, inside: &str) -> io::Result<File> {
    let mut at = File::open(root)?;
    let mut components = inside.split('/').peekable();
    while let Some(component) = components.next() {
        let kind = if components.peek().is_some() { OFlags::DIRECTORY } else { OFlags::NONBLOCK };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | kind;
        at = File::from(openat(&at, component, flags, Mode::empty())?);
    }
    if at.metadata()?.is_file() { Ok(at) } else { Err(io::ErrorKind::NotFound.into()) }
}
