//! The operator's directories that lie over every workspace: laid out once for all attempts that have the same, outside every
//! tree, the worker's own, and shown to tasks by mounts that nobody can write through.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use protocol::path::Overlay;
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use super::Workspaces;
use super::entry::{Entry, Path, What, hexadecimal};
use super::errand::Errand;
use super::fetch::{Desk, lay_files};
use crate::{directory, random};

/// Beside the attempts, so that the slots' users reach them, too.
const PLACE: &str = ".overlays";
/// Sets of overlays that stay although no attempt has them.
const UNUSED: usize = 2;

/// Both overlays, laid out.
#[derive(Debug)]
pub(super) struct Overlaid {
    key: String,
    /// Bytes that they take, about.
    pub(super) bytes: u64,
}

impl Overlaid {
    /// Where they stand, in the directory of attempts.
    pub(super) fn name(&self) -> String {
        format!("{PLACE}/{}", self.key)
    }
}

/// Those that stand, the newest last.
#[derive(Debug, Default)]
pub(super) struct Standing(Mutex<Vec<Arc<Overlaid>>>);

impl Standing {
    fn find(&self, key: &str) -> Option<Arc<Overlaid>> {
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = standing.iter().position(|overlaid| overlaid.key == key)?;
        let found = standing.remove(at);
        standing.push(Arc::clone(&found));
        Some(found)
    }

    /// Takes one in; gives out what is to be removed.
    fn add(&self, key: &str, bytes: u64) -> (Arc<Overlaid>, Vec<Arc<Overlaid>>) {
        if let Some(found) = self.find(key) {
            return (found, Vec::new());
        }
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unused = standing.iter().filter(|overlaid| Arc::strong_count(overlaid) == 1).count();
        let mut gone = Vec::new();
        standing.retain(|overlaid| {
            let goes = unused > UNUSED && Arc::strong_count(overlaid) == 1;
            if goes {
                unused -= 1;
                gone.push(Arc::clone(overlaid));
            }
            !goes
        });
        let added = Arc::new(Overlaid { key: key.to_owned(), bytes });
        standing.push(Arc::clone(&added));
        (added, gone)
    }
}

/// Finds these overlays, or lays them out.
pub(super) async fn lay_out(
    workspaces: &Arc<Workspaces>,
    errand: &Errand,
    entries: BTreeMap<Path, Entry>,
) -> anyhow::Result<Arc<Overlaid>> {
    let key = key(&entries);
    if let Some(found) = workspaces.standing.find(&key) {
        return Ok(found);
    }
    let bytes = entries.values().map(|entry| entry.what.disk_bytes()).sum();
    let place = workspaces.attempts.join(PLACE);
    let new = place.join(format!(".{:032x}", random::bits()?));
    let desk = Desk { root: new.join("tree"), trash: new.join("trash"), owner: None };
    let laid = lay_anew(workspaces, errand, &desk, entries).await;
    let (workspaces, to) = (Arc::clone(workspaces), place.join(&key));
    spawn_blocking(move || {
        let done = laid.and_then(|()| match fs::rename(&desk.root, &to) {
            // Another attempt has laid out the same meanwhile.
            Err(_) if to.is_dir() => Ok(()),
            moved => moved.with_context(|| format!("cannot make {}", to.display())),
        });
        directory::remove(&new)?;
        done?;
        let (added, gone) = workspaces.standing.add(&key, bytes);
        for gone in gone {
            directory::remove(&workspaces.attempts.join(gone.name()))?;
        }
        anyhow::Ok(added)
    })
    .await?
    .context("cannot lay out the overlays")
}

async fn lay_anew(
    workspaces: &Arc<Workspaces>,
    errand: &Errand,
    desk: &Desk,
    entries: BTreeMap<Path, Entry>,
) -> anyhow::Result<()> {
    let (files, others): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(_, entry)| matches!(entry.what, What::File { .. }));
    let on = desk.clone();
    spawn_blocking(move || make_directories(&on, &others)).await??;
    let files = files.into_iter().map(|(path, entry)| (path, readable(entry))).collect();
    lay_files(errand, &workspaces.cache, desk, files).await.map(drop)
}

fn make_directories(desk: &Desk, others: &[(Path, Entry)]) -> anyhow::Result<()> {
    let parent = desk.root.parent().and_then(FilePath::parent).map(FilePath::to_path_buf).unwrap_or_default();
    if !parent.is_dir() {
        // Two attempts may be here at once.
        let _ = fs::DirBuilder::new().mode(0o711).create(&parent);
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o711))?;
    }
    let roots: [PathBuf; 2] = [desk.root.clone(), desk.trash.clone()];
    fs::DirBuilder::new().mode(0o700).create(desk.root.parent().unwrap_or(&desk.root))?;
    for root in roots {
        open_directory(&root)?;
    }
    for overlay in Overlay::ALL {
        open_directory(&desk.root.join(overlay.as_str()))?;
    }
    let mut hands = desk.hands()?;
    for (path, entry) in others {
        if Overlay::ALL.iter().any(|overlay| overlay.as_str() == &**path) {
            continue;
        }
        hands.make(path, entry)?;
        if entry.what.is_directory() {
            let open = Entry { what: What::Directory { mode: 0o755 }, modified_ms: entry.modified_ms };
            hands.fix(path, &open)?;
        }
    }
    Ok(())
}

fn open_directory(path: &FilePath) -> std::io::Result<()> {
    fs::DirBuilder::new().mode(0o755).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Every slot's user must be able to read it.
fn readable(entry: Entry) -> Entry {
    match entry.what {
        What::File { size, sum, mode } => {
            let mode = (mode & 0o111) | 0o444;
            Entry { what: What::File { size, sum, mode }, ..entry }
        }
        What::Directory { .. } | What::Symlink { .. } => entry,
    }
}

/// What all attempts with the same overlays have in common.
fn key(entries: &BTreeMap<Path, Entry>) -> String {
    let mut sum = Sha256::new();
    for (path, entry) in entries {
        let what = match &entry.what {
            What::File { size, sum, mode } => format!("f {size} {} {mode}", hexadecimal(sum)),
            What::Directory { .. } => "d".into(),
            What::Symlink { target } => format!("l {target}"),
        };
        // No path and no target has a NUL.
        sum.update(format!("{path}\0{what}\0{}\0", entry.modified_ms));
    }
    hexadecimal(&sum.finalize().into())
}
