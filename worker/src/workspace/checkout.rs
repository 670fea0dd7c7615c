//! A session's tree, laid out for one attempt: what is kept from last time, the manifest, what differs, the overlays.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::Path as FilePath;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use protocol::SessionName;
use protocol::path::Overlay;
use protocol::spec::SessionMode;
use protocol::workspace::Difference;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::Workspaces;
use super::entry::{Entry, Laid, Mark, What};
use super::errand::Errand;
use super::fetch::{Desk, LaidFile, LaidFiles, lay_files};
use super::manifest::{Manifest, Reader};
use super::overlays::Overlaid;
use super::tree::{Plan, Tree};
use crate::confinement::limits::SPARE_BYTES;
use crate::confinement::mounts::OVERLAYS;
use crate::directory::Directory;

/// A tree that is laid out in an attempt's directory.
pub(crate) struct Checkout {
    pub(super) tree: Tree,
    pub(super) mode: SessionMode,
    pub(super) overlaid: Arc<Overlaid>,
    /// A time of the file system after all that was laid out, and before the task.
    pub(super) begun: (i64, i64),
}

impl Checkout {
    /// Where the overlays stand, in the directory of attempts.
    pub(crate) fn overlays(&self) -> String {
        self.overlaid.name()
    }

    /// Whether the task may only read.
    pub(crate) fn is_read_only(&self) -> bool {
        self.mode == SessionMode::Read
    }

    /// Bytes that the task sees on the disk before it adds any, about.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.tree.disk_bytes() + self.overlaid.bytes
    }

    /// Waits until whatever the task does has a later time than what was laid out. Comes right before it begins.
    pub(crate) fn begin(&mut self, directory: &Directory) -> anyhow::Result<()> {
        let last = self.tree.laid.values().map(|laid| laid.mark.changed).max().unwrap_or_default();
        match desk(directory).hands()?.later_than(last)? {
            Some(begun) => self.begun = begun,
            // A clock that stands still tells nothing: every file is summed up.
            None => self.tree.laid.values_mut().for_each(|laid| laid.mark = Mark::default()),
        }
        Ok(())
    }
}

pub(super) fn desk(directory: &Directory) -> Desk {
    Desk { root: directory.work(), trash: directory.path().join("trash"), owner: directory.owner() }
}

/// Lays a session's tree out in the directory of an attempt.
pub(super) async fn check_out(
    workspaces: &Arc<Workspaces>,
    errand: &Errand,
    (session, mode): (SessionName, SessionMode),
    directory: &Directory,
) -> anyhow::Result<Checkout> {
    let (desk, began) = (desk(directory), Instant::now());
    let mut tree = take_kept(workspaces, &session, desk.clone()).await?;
    let since = (tree.version > 0).then_some(tree.version);
    let mut told = pull(errand, &session, mode, since).await?;
    if told.head.difference == Difference::Since && (since.is_none() || told.head.generation != tree.generation) {
        // Another session of the same name: what differs from it says nothing.
        told = pull(errand, &session, mode, None).await?;
        ensure!(told.head.difference == Difference::Whole, "the coordinator does not tell the whole workspace");
    }
    let overlaid = super::overlays::lay_out(workspaces, errand, std::mem::take(&mut told.overlaid)).await?;
    let mut plan = tree.plan(&told);
    check_room(&desk.root, plan.disk_bytes())?;
    let files = plan.split_off_files();
    let (removed, made) = (plan.remove.len(), plan.make.len() + files.len());
    let on = desk.clone();
    let (mut tree, opened_up) = spawn_blocking(move || {
        let opened_up = make_way(&on, &mut tree, &plan)?;
        anyhow::Ok((tree, opened_up))
    })
    .await??;
    let mut laid = lay_files(errand, &workspaces.cache, &desk, files).await?;
    laid.opened_up.extend(opened_up);
    tree.generation = told.head.generation;
    tree.version = told.head.version;
    tree.drift.clear();
    let tree = spawn_blocking(move || {
        finish(&desk, &mut tree, laid)?;
        anyhow::Ok(tree)
    })
    .await??;
    let (version, ms) = (tree.version, began.elapsed().as_millis());
    tracing::debug!(lease = %errand.lease, version, removed, made, "workspace laid out in {ms} ms");
    Ok(Checkout { tree, mode, overlaid, begun: (0, 0) })
}

/// The tree that is kept of the session, or an empty one.
async fn take_kept(workspaces: &Arc<Workspaces>, session: &SessionName, desk: Desk) -> anyhow::Result<Tree> {
    let (workspaces, session) = (Arc::clone(workspaces), session.clone());
    let take = move || {
        fs::DirBuilder::new().mode(0o700).create(&desk.trash)?;
        // The place where the overlays will be mounted, beside the tree.
        fs::DirBuilder::new().mode(0o755).create(desk.trash.with_file_name(OVERLAYS))?;
        match workspaces.kept.take(&session, &desk) {
            Ok(Some(tree)) => return Ok(tree),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%session, "the tree that was kept is laid out anew: {error:#}");
                clear(&desk)?;
            }
        }
        Ok(Tree::empty(session))
    };
    spawn_blocking(take).await?
}

/// Empties a tree, whatever is in it.
fn clear(desk: &Desk) -> anyhow::Result<()> {
    if fs::symlink_metadata(&desk.root).is_ok() {
        crate::directory::remove(&desk.root)?;
    }
    fs::DirBuilder::new().mode(0o700).create(&desk.root)?;
    chown(&desk.root, desk.owner, desk.owner)?;
    Ok(())
}

async fn pull(
    errand: &Errand,
    session: &SessionName,
    mode: SessionMode,
    since: Option<u64>,
) -> anyhow::Result<Manifest> {
    let pulled = errand.patiently(|| errand.unless_halted(pull_once(errand, session, mode, since)));
    pulled.await.context("cannot fetch the manifest of the workspace")
}

async fn pull_once(
    errand: &Errand,
    session: &SessionName,
    mode: SessionMode,
    since: Option<u64>,
) -> anyhow::Result<Manifest> {
    let mut download = errand.client.manifest(errand.lease, since).await?;
    let mut reader = Reader::new(session.clone(), mode);
    while let Some(piece) = download.next().await? {
        reader.take(&piece)?;
    }
    reader.finish()
}

/// The room that stays free on the disk is not for workspaces either.
fn check_room(root: &FilePath, bytes: u64) -> anyhow::Result<()> {
    let disk = rustix::fs::statvfs(root)?;
    let free = disk.f_bavail * disk.f_frsize;
    let is_room = disk.f_blocks == 0 || free >= bytes.saturating_add(SPARE_BYTES);
    ensure!(
        is_room,
        "the workspace needs {} MiB, and the worker's disk has {} MiB free, of which {} stay so: free some space",
        bytes.div_ceil(1 << 20),
        free >> 20,
        SPARE_BYTES >> 20,
    );
    Ok(())
}

/// Removes what goes, and makes directories and links.
fn make_way(desk: &Desk, tree: &mut Tree, plan: &Plan) -> anyhow::Result<Vec<String>> {
    let mut hands = desk.hands()?;
    for path in &plan.remove {
        hands.remove(path).with_context(|| format!("cannot remove `{path}`"))?;
    }
    tree.removed(&plan.remove);
    for (path, entry) in &plan.make {
        let mark = hands.make(path, entry)?;
        tree.laid.insert(path.clone(), Laid { entry: entry.clone(), mark });
    }
    let mut opened_up = hands.root.take_opened_up();
    for (path, entry) in &plan.fix {
        // A directory comes last, because files may still come into it.
        if !entry.what.is_directory() {
            let mark = hands.fix(path, entry)?;
            tree.laid.insert(path.clone(), Laid { entry: entry.clone(), mark });
        }
    }
    let made = plan.make.iter().chain(&plan.fix);
    for (path, entry) in made.filter(|(_, entry)| entry.what.is_directory()) {
        if let Some(laid) = tree.laid.get_mut(path) {
            laid.entry = entry.clone();
        }
        opened_up.push(path.to_string());
    }
    Ok(opened_up)
}

/// Takes note of the files, gives directories their modes, and makes the places of the overlays.
fn finish(desk: &Desk, tree: &mut Tree, laid: LaidFiles) -> anyhow::Result<()> {
    for LaidFile { path, entry, mark } in laid.files {
        tree.laid.insert(path, Laid { entry, mark });
    }
    let mut hands = desk.hands()?;
    let mut directories = laid.opened_up;
    directories.sort_unstable();
    directories.dedup();
    // Those below first: who is not root cannot come to them through one that is closed.
    for path in directories.iter().rev() {
        let Some(Entry { what: What::Directory { .. }, .. }) = tree.laid.get(path.as_str()).map(|laid| &laid.entry)
        else {
            continue;
        };
        if let Some(laid) = tree.laid.get_mut(path.as_str()) {
            laid.mark = hands.fix(path, &laid.entry)?;
        }
    }
    hands.root.forget();
    for overlay in Overlay::ALL {
        let place = desk.root.join(overlay.as_str());
        match fs::DirBuilder::new().mode(0o755).create(&place) {
            Ok(()) => fs::set_permissions(&place, fs::Permissions::from_mode(0o755))?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot make {}", place.display())),
        }
    }
    Ok(())
}
