//! A version of a session in the making: puts and removes entries, counts as it goes, and becomes the newest version when it
//! is finished, within the quota. Until its transaction commits nobody sees any of it.

use std::collections::HashSet;

use protocol::workspace::{FileKind, MAX_SESSION_ENTRIES};
use protocol::{SessionName, Timestamp};
use rusqlite::Connection;

use super::tree::{self, Live};
use super::workspaces::SessionRow;
use crate::store::types::{Content, StoreError, StoredEntry, Tree, WorkspaceError};

/// Permission bits of directories that nobody spelled out.
const DIRECTORY_MODE: u32 = 0o755;

/// A version in the making.
pub(super) struct Draft<'db> {
    db: &'db Connection,
    name: SessionName,
    pub(super) tree: Tree,
    at: Timestamp,
    before: (u64, u64),
    used_bytes: u64,
    entries: u64,
    pub(super) tally: Tally,
    directories: HashSet<String>,
    is_mirrored: bool,
}

/// What a version changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) added: u64,
    pub(super) changed: u64,
    pub(super) deleted: u64,
    pub(super) bytes: u64,
}

impl Tally {
    pub(super) const fn paths(&self) -> u64 {
        self.added + self.changed + self.deleted
    }
}

impl<'db> Draft<'db> {
    /// Begins the version after the newest.
    pub(super) fn begin(db: &'db Connection, session: &SessionRow, at: Timestamp) -> Self {
        Self {
            db,
            name: session.name.clone(),
            tree: Tree { session: session.place, version: session.version + 1 },
            at,
            before: (session.used_bytes, session.entries),
            used_bytes: session.used_bytes,
            entries: session.entries,
            tally: Tally::default(),
            directories: HashSet::new(),
            is_mirrored: true,
        }
    }

    /// Says nothing to the published copy: what this version changes, the next takes back.
    pub(super) const fn unmirrored(mut self) -> Self {
        self.is_mirrored = false;
        self
    }

    /// What stands at a path in this version so far.
    pub(super) fn live(&self, path: &str) -> Result<Option<Live>, StoreError> {
        tree::live(self.db, self.tree.session, path)
    }

    /// What stands below a path in this version so far.
    pub(super) fn live_below(&self, path: &str) -> Result<Vec<Live>, StoreError> {
        tree::live_below(self.db, self.tree.session, path)
    }

    /// Puts something at a path, as changed now.
    pub(super) fn put(&mut self, path: &str, content: Content) -> Result<(), StoreError> {
        self.put_entry(StoredEntry { path: path.to_owned(), content, modified_at: self.at })
    }

    /// Puts an entry. What is the same already stays as it is.
    pub(super) fn put_entry(&mut self, entry: StoredEntry) -> Result<(), StoreError> {
        let old = self.live(&entry.path)?;
        if old.as_ref().is_some_and(|old| old.entry.content.is_same(&entry.content)) {
            return Ok(());
        }
        match &old {
            Some(old) => {
                tree::end(self.db, self.tree, old)?;
                self.used_bytes = self.used_bytes.saturating_sub(old.entry.content.size());
                self.tally.changed += 1;
            }
            None => {
                self.entries += 1;
                self.tally.added += 1;
            }
        }
        self.used_bytes = self.used_bytes.saturating_add(entry.content.size());
        self.tally.bytes += entry.content.size();
        tree::begin(self.db, self.tree, &entry)?;
        self.mirror(&entry.path)
    }

    /// Removes what stands at a path.
    pub(super) fn remove(&mut self, old: &Live) -> Result<(), StoreError> {
        tree::end(self.db, self.tree, old)?;
        self.used_bytes = self.used_bytes.saturating_sub(old.entry.content.size());
        self.entries = self.entries.saturating_sub(1);
        self.tally.deleted += 1;
        if old.entry.content.kind() == FileKind::Directory {
            self.directories.remove(&old.entry.path);
        }
        self.mirror(&old.entry.path)
    }

    /// Removes a path with all below it.
    pub(super) fn remove_all(&mut self, path: &str) -> Result<(), StoreError> {
        let own = self.live(path)?;
        own.iter().chain(&self.live_below(path)?).try_for_each(|old| self.remove(old))
    }

    /// Makes the directories above a path that are not there.
    pub(super) fn make_parents(&mut self, path: &str) -> Result<(), StoreError> {
        for (end, _) in path.match_indices('/') {
            self.make_directory(&path[..end], DIRECTORY_MODE)?;
        }
        Ok(())
    }

    /// Makes a directory, if nothing is there.
    pub(super) fn make_directory(&mut self, path: &str, mode: u32) -> Result<(), StoreError> {
        if self.directories.contains(path) {
            return Ok(());
        }
        match self.live(path)? {
            None => self.put(path, Content::Directory { mode })?,
            Some(old) if old.entry.content.kind() == FileKind::Directory => {}
            Some(_) => return Err(WorkspaceError::NotADirectory(path.to_owned()).into()),
        }
        self.directories.insert(path.to_owned());
        Ok(())
    }

    /// Makes this version equal to an older one, whose rows are still there.
    pub(super) fn become_version(&mut self, version: u64) -> Result<(), StoreError> {
        let old = Tree { version, ..self.tree };
        for path in tree::touched(self.db, self.tree.session, version, self.tree.version)? {
            let wanted = tree::at(self.db, old, &path)?;
            let live = self.live(&path)?;
            match (wanted, live) {
                (Some(wanted), _) => self.put_entry(wanted)?,
                (None, Some(live)) => self.remove(&live)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn mirror(&self, path: &str) -> Result<(), StoreError> {
        if self.is_mirrored {
            self.db
                .prepare_cached("INSERT OR REPLACE INTO mirror (session, path, changed) VALUES (?1, ?2, ?3)")?
                .execute((self.name.as_str(), path, self.tree.version.cast_signed()))?;
        }
        Ok(())
    }

    /// Bytes that the session would have.
    pub(super) const fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Whether the session would have too much. Whoever makes it smaller is never refused.
    pub(super) fn check_quota(&self, allowed: u64) -> Result<(), WorkspaceError> {
        let (used_before, entries_before) = self.before;
        if self.used_bytes > allowed && self.used_bytes > used_before {
            return Err(WorkspaceError::Quota { used: self.used_bytes, allowed });
        }
        if self.entries > MAX_SESSION_ENTRIES && self.entries > entries_before {
            return Err(WorkspaceError::TooManyEntries);
        }
        Ok(())
    }

    /// Makes it the newest version, even if nothing changed. The quota is for the caller to check.
    pub(super) fn save(&self, made_by: &str) -> Result<u64, StoreError> {
        let (used, entries) = (self.used_bytes.cast_signed(), self.entries.cast_signed());
        let version = self.tree.version.cast_signed();
        self.db
            .prepare_cached(
                "INSERT INTO versions (session, number, made_at, made_by, used_bytes, entries) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute((self.tree.session, version, self.at.as_ms(), made_by, used, entries))?;
        self.db
            .prepare_cached(
                "UPDATE sessions SET version = ?2, used_bytes = ?3, entries = ?4, used_at = max(used_at, ?5) WHERE id = ?1",
            )?
            .execute((self.tree.session, version, used, entries, self.at.as_ms()))?;
        Ok(self.tree.version)
    }

    /// Makes it the newest version within the quota; one that changed nothing is none.
    pub(super) fn finish(&self, made_by: &str, allowed: u64) -> Result<u64, StoreError> {
        if self.tally.paths() == 0 {
            return Ok(self.tree.version - 1);
        }
        self.check_quota(allowed)?;
        self.save(made_by)
    }
}
