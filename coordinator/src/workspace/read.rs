//! Reading a session at one version, with the overlays: what stands at a path, what is in a directory, and the bytes of it.

use std::io;
use std::ops::Range;

use protocol::SessionName;
use protocol::path::{Overlay, VirtualPath, WorkspacePath};
use protocol::workspace::{Entry, FileKind, FileList, SessionView};

use super::overlay::top;
use crate::objects::Reading;
use crate::queue::Queue;
use crate::store::{Content, StoreError, StoredEntry, Tree, WorkspaceError};

type Result<T> = std::result::Result<T, StoreError>;

/// Entries that are read from the store at once.
pub(super) const ROWS_AT_ONCE: u32 = 1000;

/// A session as it is read: everything of one answer is of one version.
#[derive(Debug, Clone)]
pub struct View {
    /// The session.
    pub session: SessionView,
    /// The version that is read.
    pub tree: Tree,
}

/// What stands at a path, and where its bytes are.
#[derive(Debug, Clone)]
pub struct Found {
    /// The entry.
    pub entry: StoredEntry,
    /// Where its bytes are.
    pub place: Place,
}

/// Where bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the object store.
    Stored,
    /// In a directory of the operator.
    Overlay,
}

impl Found {
    pub(super) const fn stored(entry: StoredEntry) -> Self {
        Self { entry, place: Place::Stored }
    }

    pub(super) const fn overlaid(entry: StoredEntry) -> Self {
        Self { entry, place: Place::Overlay }
    }

    /// What a client sees of it.
    #[must_use]
    pub fn view(&self) -> Entry {
        let entry = &self.entry;
        let target = match &entry.content {
            Content::Symlink { target } => Some(target.clone()),
            Content::File { .. } | Content::Directory { .. } => None,
        };
        Entry {
            name: entry.path.rsplit('/').next().unwrap_or_default().to_owned(),
            path: entry.path.clone(),
            kind: entry.content.kind(),
            size: entry.content.size(),
            modified_at: entry.modified_at,
            etag: self.tag(),
            mode: entry.content.mode(),
            target,
            read_only: self.place == Place::Overlay,
        }
    }

    /// What `If-Match` compares, as it stands in a header.
    #[must_use]
    pub fn tag(&self) -> Option<String> {
        match &self.entry.content {
            Content::File { sha256, .. } => Some(format!("\"{sha256}\"")),
            Content::Directory { .. } | Content::Symlink { .. } => None,
        }
    }

    /// The file, if it is one.
    ///
    /// # Errors
    /// `IsADirectory`, `IsASymlink`.
    pub fn file(self) -> std::result::Result<Self, WorkspaceError> {
        let path = self.entry.path.clone();
        match &self.entry.content {
            Content::File { .. } => Ok(self),
            Content::Directory { .. } => Err(WorkspaceError::IsADirectory(path)),
            Content::Symlink { target } => Err(WorkspaceError::IsASymlink { path, target: target.clone() }),
        }
    }
}

impl Queue {
    /// A session at its newest version, or as a snapshot of it was.
    ///
    /// # Errors
    /// `NoSession`, `NoSnapshot`, or see `StoreError`.
    pub async fn view(&self, name: SessionName, snapshot: Option<String>) -> Result<View> {
        let found = self.store.session(name.clone(), self.rules.clone()).await?.ok_or(WorkspaceError::NoSession)?;
        self.sessions_used.note(&name, self.clock.now().at);
        let newest = Tree { session: found.place, version: found.view.version };
        let tree = match snapshot {
            Some(snapshot) => self.store.snapshot_tree(name, snapshot).await?,
            None => newest,
        };
        Ok(View { session: found.view, tree })
    }

    /// What stands at a path.
    ///
    /// # Errors
    /// `NoEntry`, or see `StoreError`.
    pub async fn look(&self, view: &View, path: &WorkspacePath) -> Result<Found> {
        let found = match path.overlay() {
            Some(overlay) => self.overlays.entry(overlay, path).await?.map(Found::overlaid),
            None => self.store.entry(view.tree, path.as_str().to_owned()).await?.map(Found::stored),
        };
        Ok(found.ok_or_else(|| WorkspaceError::NoEntry(path.as_str().to_owned()))?)
    }

    /// A page of a directory, from behind a cursor on.
    ///
    /// # Errors
    /// `NoEntry`, `NotADirectory`, or see `StoreError`.
    pub async fn list(&self, view: &View, path: &VirtualPath, cursor: Option<&str>, limit: usize) -> Result<FileList> {
        let mut found = self.children(view, path).await?;
        found.sort_by_cached_key(|found| order(&found.entry));
        if let Some(cursor) = cursor {
            let behind = cursor_order(cursor);
            found.retain(|found| order(&found.entry) > behind);
        }
        let truncated = found.len() > limit;
        found.truncate(limit);
        let next_cursor = found.last().filter(|_| truncated).map(|last| cursor_of(&last.entry));
        let entries = found.iter().map(Found::view).collect();
        Ok(FileList { path: path.as_str().to_owned(), version: view.tree.version, entries, truncated, next_cursor })
    }

    async fn children(&self, view: &View, path: &VirtualPath) -> Result<Vec<Found>> {
        let VirtualPath::Below(below) = path else {
            let stored = self.store.children(view.tree, String::new()).await?;
            let mut all: Vec<Found> = stored.into_iter().map(Found::stored).collect();
            all.extend(Overlay::ALL.map(|overlay| Found::overlaid(top(overlay))));
            return Ok(all);
        };
        let found = self.look(view, below).await?;
        if found.entry.content.kind() != FileKind::Directory {
            return Err(WorkspaceError::NotADirectory(below.as_str().to_owned()).into());
        }
        let Some(overlay) = below.overlay() else {
            let stored = self.store.children(view.tree, below.as_str().to_owned()).await?;
            return Ok(stored.into_iter().map(Found::stored).collect());
        };
        let is_child = |entry: &StoredEntry| entry.path.rsplit_once('/').is_some_and(|(up, _)| up == below.as_str());
        Ok(self.overlays.entries(overlay).await?.into_iter().filter(is_child).map(Found::overlaid).collect())
    }

    /// Begins to read a part of a file.
    ///
    /// # Errors
    /// `IsADirectory`, `IsASymlink`, or when its bytes cannot be read.
    pub async fn open(&self, found: &Found, part: Range<u64>) -> Result<Reading> {
        let file = found.clone().file()?;
        match (&file.entry.content, file.place) {
            (Content::File { blob, .. }, Place::Stored) => Ok(self.objects.read(blob, part).await?),
            _ => Ok(Reading::of_file(self.overlays.file(file.entry.path).await?, part).await?),
        }
    }

    /// A whole file that is known to be small.
    ///
    /// # Errors
    /// See `open`.
    pub async fn whole(&self, found: &Found) -> Result<Vec<u8>> {
        let mut reading = self.open(found, 0..found.entry.content.size()).await?;
        let mut whole = Vec::new();
        while let Some(piece) = reading.next().await.map_err(io::Error::other)? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }

    /// The next entries below a directory, by path; those of the session, without the overlays.
    pub(super) async fn page(&self, tree: Tree, below: &str, after: &str) -> Result<Vec<StoredEntry>> {
        self.store.walk(tree, below.to_owned(), after.to_owned(), ROWS_AT_ONCE).await
    }

    /// Everything of the overlays below a directory, by path.
    pub(super) async fn overlaid(&self, below: &str) -> Result<Vec<StoredEntry>> {
        let mut all = Vec::new();
        for overlay in Overlay::ALL {
            all.extend(self.overlays.entries(overlay).await?);
        }
        let is_below =
            |path: &str| below.is_empty() || path.strip_prefix(below).is_some_and(|rest| rest.starts_with('/'));
        all.retain(|entry| is_below(&entry.path));
        Ok(all)
    }
}

/// Directories first, then by name without regard to case.
fn order(entry: &StoredEntry) -> (bool, String, String) {
    let name = entry.path.rsplit('/').next().unwrap_or_default();
    (entry.content.kind() != FileKind::Directory, name.to_lowercase(), name.to_owned())
}

fn cursor_of(entry: &StoredEntry) -> String {
    let (is_file, _, name) = order(entry);
    format!("{}{name}", if is_file { 'f' } else { 'd' })
}

fn cursor_order(cursor: &str) -> (bool, String, String) {
    let (kind, name) = cursor.split_at(cursor.chars().next().map_or(0, char::len_utf8));
    (kind != "d", name.to_lowercase(), name.to_owned())
}
