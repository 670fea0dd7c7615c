//! The trees of sessions that tasks left, for the next task of the same session: a few, on the disk, each with its record.
//! A tree is here or in the directory of an attempt, never in both, so that whatever becomes of an attempt, a tree of which
//! not all is known is swept with its directory.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, ensure};
use protocol::SessionName;

use super::fetch::Desk;
use super::look::look;
use super::record::{self, Head, Origin};
use super::tree::Tree;
use crate::{directory, random};

/// The trees.
pub(crate) struct Kept {
    place: PathBuf,
    most: u32,
    most_bytes: u64,
    origin: Origin,
    /// The one that was used last stands last.
    trees: Mutex<Vec<Known>>,
}

struct Known {
    name: String,
    head: Head,
    /// Whether this very process put it here.
    is_own: bool,
    /// What its record says, as long as there is room for that in memory.
    tree: Option<Tree>,
}

/// Entries of trees that are held in memory, in all: a hundred thousand take some twenty megabytes.
const MAX_HELD: usize = 100_000;

impl Kept {
    /// Finds those that an earlier start left whole; removes the others.
    pub(super) fn open(place: PathBuf, most: u32, most_bytes: u64, origin: Origin) -> anyhow::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
        let mut trees = Vec::new();
        for entry in fs::read_dir(&place)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let head = record::head(&entry.path().join("record")).ok();
            match head.filter(|head| !name.starts_with('.') && head.is_of(&origin)) {
                Some(head) => trees.push(Known { name, head, is_own: false, tree: None }),
                None => remove(&entry.path()),
            }
        }
        let kept = Self { place, most, most_bytes, origin, trees: Mutex::new(trees) };
        kept.make_room();
        Ok(kept)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user whose files a session's tree has, so that it comes to the same slot again.
    pub(crate) fn owner(&self, session: &SessionName) -> Option<u32> {
        self.lock().iter().rev().find(|known| known.head.session == *session).and_then(|known| known.head.owner)
    }

    /// Moves a tree of this session to where a task finds it: the slot's own if there is one, else the newest.
    pub(super) fn take(&self, session: &SessionName, desk: &Desk) -> anyhow::Result<Option<Tree>> {
        let known = {
            let mut trees = self.lock();
            let fit = |known: &Known| (known.head.owner == desk.owner, known.head.version);
            let of_session = trees.iter().enumerate().filter(|(_, known)| known.head.session == *session);
            let Some((at, _)) = of_session.max_by_key(|(_, known)| fit(known)) else { return Ok(None) };
            trees.remove(at)
        };
        let place = self.place.join(&known.name);
        let tree = move_out(&place, known, desk);
        remove(&place);
        tree.map(Some)
    }

    /// Keeps a tree. Every path of it must be known.
    pub(super) fn put(&self, tree: Tree, desk: &Desk) -> anyhow::Result<()> {
        let head = Head::of(&tree, desk.owner, &self.origin);
        if self.most == 0 || head.bytes > self.most_bytes {
            return Ok(());
        }
        let name = format!("{:032x}", random::bits()?);
        let hidden = self.place.join(format!(".{name}"));
        fs::DirBuilder::new().mode(0o700).create(&hidden)?;
        let put = || {
            record::write(&hidden.join("record"), &head, &tree)?;
            fs::rename(&desk.root, hidden.join("tree"))?;
            fs::rename(&hidden, self.place.join(&name))
        };
        if let Err(error) = put() {
            remove(&hidden);
            return Err(error).context("cannot keep the tree of a session");
        }
        self.lock().push(Known { name, head, is_own: true, tree: Some(tree) });
        self.make_room();
        Ok(())
    }

    /// Removes those that were not used for longest.
    fn make_room(&self) {
        let mut gone = Vec::new();
        {
            let mut trees = self.lock();
            let is_over = |trees: &Vec<Known>| {
                let bytes: u64 = trees.iter().map(|known| known.head.bytes).sum();
                trees.len() > self.most as usize || bytes > self.most_bytes
            };
            while is_over(&trees) {
                gone.push(trees.remove(0));
            }
            let mut held = 0;
            for known in trees.iter_mut().rev() {
                held += known.tree.as_ref().map_or(0, Tree::len);
                if held > MAX_HELD {
                    known.tree = None;
                }
            }
        }
        gone.iter().for_each(|known| remove(&self.place.join(&known.name)));
    }
}

fn move_out(place: &FilePath, known: Known, desk: &Desk) -> anyhow::Result<Tree> {
    let mut tree = known.tree.map_or_else(|| record::read(&place.join("record")), Ok)?;
    // From here on it is nobody's until it is put back.
    fs::remove_file(place.join("record"))?;
    let root = place.join("tree");
    if !known.is_own {
        let found = look(&root, &tree.laid, (i64::MAX, 0), None)?;
        let is_same = found.changes.is_empty() && found.touched.is_empty() && found.strays.is_empty();
        ensure!(is_same, "it is not what its record says");
    }
    fs::rename(&root, &desk.root)?;
    if known.head.owner != desk.owner {
        give(&mut tree, desk)?;
    }
    Ok(tree)
}

/// Gives a tree to another slot's user.
fn give(tree: &mut Tree, desk: &Desk) -> anyhow::Result<()> {
    std::os::unix::fs::chown(&desk.root, desk.owner, desk.owner)?;
    let mut hands = desk.hands()?;
    for (path, laid) in &mut tree.laid {
        laid.mark = hands.give(path)?;
    }
    Ok(())
}

fn remove(path: &FilePath) {
    if let Err(error) = directory::remove(path) {
        tracing::warn!("cannot remove {}: {error}", path.display());
    }
}
