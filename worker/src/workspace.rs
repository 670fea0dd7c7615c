//! The files of sessions in this worker: pulled by manifest through a cache of contents, laid out as a tree that one task
//! gets to itself, compared when it is gone, and brought back as a stage. The last tree of a session stays for the next task.
//!
//! A tree is a task's work and hostile: no link in it is ever followed here. What was not published is taken away before
//! another task sees the tree, or the tree is dropped.

use std::path::PathBuf;
use std::sync::Arc;

use protocol::spec::SessionMode;
use protocol::{SessionName, StageId};
use tokio::task::spawn_blocking;

use crate::artifacts::Collected;
use crate::directory::Directory;
pub(crate) use checkout::Checkout;
use entry::{Entry, Laid, What};
pub(crate) use errand::Errand;
use look::{Change, Found, To};
use record::Origin;
use stage::Sent;
use tree::Tree;

mod cache;
mod checkout;
mod entry;
mod errand;
mod fetch;
mod frames;
mod kept;
mod lay;
mod look;
mod manifest;
mod on_top;
mod overlays;
mod record;
mod root;
mod stage;
mod tree;

pub(crate) use on_top::lay_on_top;

/// What a worker has for the sessions of its tasks.
pub(crate) struct Workspaces {
    cache: Arc<cache::Cache>,
    pub(crate) kept: kept::Kept,
    standing: overlays::Standing,
    attempts: PathBuf,
}

/// How much of it may be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Bytes of contents; trees that are kept may have as many again.
    pub(crate) cache_bytes: u64,
    /// Trees that are kept.
    pub(crate) trees: u32,
}

impl Workspaces {
    /// Opens what is in the state directory.
    pub(crate) fn open(state: &std::path::Path, bounds: Bounds, coordinator: &str) -> anyhow::Result<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        let origin = Origin { coordinator: coordinator.to_owned(), boot };
        Ok(Self {
            cache: Arc::new(cache::Cache::open(state.join("cache"), bounds.cache_bytes)?),
            kept: kept::Kept::open(state.join("trees"), bounds.trees, bounds.cache_bytes, origin)?,
            standing: overlays::Standing::default(),
            attempts: state.join("attempts"),
        })
    }

    /// Lays out a session in the directory of an attempt. Nothing works on it any more when it returns.
    pub(crate) async fn check_out(
        self: &Arc<Self>,
        errand: &Errand,
        wish: (SessionName, SessionMode),
        directory: &Directory,
    ) -> anyhow::Result<Checkout> {
        checkout::check_out(self, errand, wish, directory).await
    }

    /// Keeps a tree for the next task of its session; what it left beside is taken away.
    pub(crate) async fn keep(self: &Arc<Self>, left: Left, directory: &Directory) {
        let (this, desk) = (Arc::clone(self), checkout::desk(directory));
        let keep = move || {
            if left.is_strange {
                return Ok(());
            }
            std::fs::set_permissions(&desk.root, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
            let mut hands = desk.hands()?;
            for (parent, name) in &left.strays {
                hands.remove_name(parent, name)?;
            }
            anyhow::ensure!(hands.root.take_opened_up().is_empty(), "a directory was closed to its owner");
            this.kept.put(left.tree, &desk)
        };
        if let Err(error) = spawn_blocking(keep).await.map_err(anyhow::Error::from).flatten() {
            tracing::warn!("the tree of a session is not kept: {error:#}");
        }
    }
}

/// A tree that its task has left, and what is known of it.
pub(crate) struct Left {
    tree: Tree,
    strays: Vec<(String, std::ffi::OsString)>,
    is_strange: bool,
}

/// What came of a task's tree.
pub(crate) struct Brought {
    /// What a report names; none when nothing was changed.
    pub(crate) stage: Option<StageId>,
    /// What could not be kept.
    pub(crate) collected: Collected,
    /// For the next task, once this is published.
    pub(crate) left: Left,
}

impl Checkout {
    /// A tree that its task could not change.
    pub(crate) fn left_alone(self) -> Left {
        Left { tree: self.tree, strays: Vec::new(), is_strange: false }
    }

    /// Finds what the task changed, and brings it to the coordinator. Every process of the attempt must be gone.
    pub(crate) async fn bring(self, errand: &Errand, directory: &Directory) -> anyhow::Result<Brought> {
        let root = directory.work();
        let (tree, begun, on, errand_there) = (self.tree, self.begun, root.clone(), errand.clone());
        let (mut tree, mut found) = spawn_blocking(move || {
            let found = look::look(&on, &tree.laid, begun, Some(&errand_there))?;
            anyhow::Ok((tree, found))
        })
        .await??;
        let changes = Arc::new(std::mem::take(&mut found.changes));
        let (stage, sent) = if changes.is_empty() {
            (None, Vec::new())
        } else {
            let (staged, sent) = stage::send(errand, tree.version, root, Arc::clone(&changes)).await?;
            (Some(staged.stage), sent)
        };
        let mut collected = Collected::default();
        std::mem::take(&mut found.skipped).into_iter().for_each(|(path, why)| collected.skip(path, why));
        note(&mut tree, &changes, &found, sent);
        let left = Left { tree, strays: found.strays, is_strange: found.is_strange };
        Ok(Brought { stage, collected: collected.finished(), left })
    }
}

/// Takes note of what stands now, and of what the version has there.
fn note(tree: &mut Tree, changes: &[Change], found: &Found, sent: Vec<Sent>) {
    for (path, mark) in &found.touched {
        if let Some(laid) = tree.laid.get_mut(path) {
            laid.mark = *mark;
            tree.drift.insert(path.clone(), Some(laid.entry.clone()));
        }
    }
    let mut sent = sent.into_iter();
    for Change { path, to } in changes {
        let (what, mark) = match to {
            To::Nothing => {
                forget(tree, path);
                continue;
            }
            To::Directory { mode } => (What::Directory { mode: *mode }, entry::Mark::default()),
            To::Symlink { target, mark } => (What::Symlink { target: target.clone() }, *mark),
            To::File(_) => {
                // In the same order: one for each.
                let Some(file) = sent.next() else { continue };
                (What::File { size: file.mark.size, sum: file.sum, mode: file.mark.permissions() }, file.mark)
            }
        };
        let laid = Laid { entry: Entry { what, modified_ms: mark.modified.0 * 1000 }, mark };
        let was = tree.laid.insert(path.clone(), laid).map(|laid| laid.entry);
        tree.drift.entry(path.clone()).or_insert(was);
    }
}

/// Takes note that a path is gone, with all that was below it.
fn forget(tree: &mut Tree, path: &str) {
    for gone in std::iter::once(path.into()).chain(tree.below(path)) {
        let was = tree.laid.remove(&gone).map(|laid| laid.entry);
        tree.drift.entry(gone).or_insert(was);
    }
}
