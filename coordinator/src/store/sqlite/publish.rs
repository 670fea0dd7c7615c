//! Publishes the stage that a report names: a new version of the session, or a snapshot when a client changed the same files
//! meanwhile or there is no room. Part of the report's own transaction.

use std::collections::{BTreeMap, HashSet};

use protocol::workspace::{FileKind, MAX_NAMED, Published};
use protocol::{Outcome, Report, TaskId, Timestamp};
use rusqlite::Connection;

use super::draft::Draft;
use super::row::Stored;
use super::workspaces::{self, SessionRow};
use super::{stages, tree};
use crate::clock::Now;
use crate::lifecycle::{Files, Holder};
use crate::store::types::{Content, SessionRules, StoreError, Tree, WorkspaceError};

type Rows = BTreeMap<String, Option<Content>>;

/// A stage on its way into a session.
pub(super) struct Publishing {
    session: SessionRow,
    base: u64,
    rows: Rows,
    task: TaskId,
    at: Timestamp,
}

/// What would become of a stage.
pub(super) enum Verdict {
    /// It is the newest version.
    Fits(Published),
    /// A client changed these paths meanwhile.
    Conflict(Vec<String>),
    /// There is no room for it.
    OverQuota {
        /// Bytes that the session would have.
        used: u64,
        /// Bytes that it may have.
        allowed: u64,
    },
}

impl Verdict {
    /// What the rules need to know of it.
    pub(super) const fn files(&self) -> Files {
        match self {
            Self::Fits(_) => Files::Fine,
            Self::Conflict(_) => Files::Conflict,
            Self::OverQuota { .. } => Files::OverQuota,
        }
    }
}

/// The stage that a report publishes, if it names one and ended in a way that keeps it.
pub(super) fn find(
    db: &Connection,
    stored: &Stored,
    (holder, report): (Holder, &Report),
    now: Now,
) -> Result<Option<Publishing>, StoreError> {
    let Some(stage) = report.stage else { return Ok(None) };
    let found = stages::named(db, holder, stage)?;
    let keeps = report.outcome.has_run() && (!stored.on_success || report.outcome == Outcome::Exited { code: 0 });
    if !keeps || stored.task.cancel_requested_at.is_some() {
        return Ok(None);
    }
    let session = stages::session_of(db, &found, stored)?;
    let rows = stages::rows(db, holder)?.into_iter().collect();
    Ok(Some(Publishing { session, base: found.base, rows, task: stored.id, at: now.at }))
}

impl Publishing {
    /// Makes the newest version of it, if it fits. Else the caller takes back whatever was written.
    pub(super) fn attempt(&self, db: &Connection, rules: &SessionRules) -> Result<Verdict, StoreError> {
        let conflicts = self.conflicts(db)?;
        if !conflicts.is_empty() {
            return Ok(Verdict::Conflict(conflicts));
        }
        let mut draft = Draft::begin(db, &self.session, self.at);
        self.apply(&mut draft)?;
        let allowed = self.session.allowed(rules);
        match draft.finish(&self.task.to_string(), allowed) {
            Ok(version) => {
                let tally = draft.tally;
                Ok(Verdict::Fits(Published {
                    version: Some(version),
                    added: tally.added,
                    changed: tally.changed,
                    deleted: tally.deleted,
                    bytes: tally.bytes,
                    ..Published::default()
                }))
            }
            Err(StoreError::Workspace(WorkspaceError::Quota { .. } | WorkspaceError::TooManyEntries)) => {
                Ok(Verdict::OverQuota { used: draft.used_bytes(), allowed })
            }
            Err(error) => Err(error),
        }
    }

    /// The paths that a client changed since the base, and to something else than the task did.
    fn conflicts(&self, db: &Connection) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        let mut looked_above = HashSet::new();
        for (path, staged) in &self.rows {
            if self.differs(db, path, staged.as_ref())? {
                found.push(path.clone());
            }
            if staged.as_ref().is_none_or(|staged| staged.kind() != FileKind::Directory) {
                for live in tree::live_below(db, self.session.place, path)? {
                    let below = &live.entry.path;
                    if live.from > self.base && !self.rows.contains_key(below) && self.differs(db, below, None)? {
                        found.push(below.clone());
                    }
                }
            }
            if staged.is_some() {
                self.look_above(db, path, &mut looked_above, &mut found)?;
            }
            if found.len() >= MAX_NAMED {
                break;
            }
        }
        found.truncate(MAX_NAMED);
        Ok(found)
    }

    /// Whether what stands at a path came after the base, and is not what the task makes of it.
    fn differs(&self, db: &Connection, path: &str, staged: Option<&Content>) -> Result<bool, StoreError> {
        let now = tree::live(db, self.session.place, path)?;
        if now.as_ref().is_some_and(|now| now.from <= self.base) {
            return Ok(false);
        }
        let base = tree::at(db, Tree { session: self.session.place, version: self.base }, path)?;
        let now = now.map(|now| now.entry.content);
        let is_same = |one: Option<&Content>| match (one, &now) {
            (Some(one), Some(now)) => one.is_same(now),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        Ok(!is_same(base.as_ref().map(|base| &base.content)) && !is_same(staged))
    }

    /// A client may have put a file where the task has a directory.
    fn look_above(
        &self,
        db: &Connection,
        path: &str,
        looked: &mut HashSet<String>,
        found: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        for (end, _) in path.match_indices('/') {
            let above = &path[..end];
            if self.rows.contains_key(above) || !looked.insert(above.to_owned()) {
                continue;
            }
            let live = tree::live(db, self.session.place, above)?;
            if live.is_some_and(|live| live.entry.content.kind() != FileKind::Directory) {
                found.push(above.to_owned());
            }
        }
        Ok(())
    }

    /// Lays the stage over a draft. What is in its way goes.
    fn apply(&self, draft: &mut Draft<'_>) -> Result<(), StoreError> {
        for (path, staged) in &self.rows {
            let Some(content) = staged else {
                draft.remove_all(path)?;
                continue;
            };
            for (end, _) in path.match_indices('/') {
                clear_for(draft, &path[..end], FileKind::Directory)?;
            }
            clear_for(draft, path, content.kind())?;
            draft.make_parents(path)?;
            draft.put(path, content.clone())?;
        }
        Ok(())
    }

    /// Keeps the base with the stage as a snapshot that is called as the task: one version that has them, one that is as
    /// before.
    pub(super) fn keep_as_snapshot(
        &self,
        db: &Connection,
        verdict: Verdict,
        now: Now,
    ) -> Result<Published, StoreError> {
        let by = self.task.to_string();
        let mut kept = Draft::begin(db, &self.session, self.at).unmirrored();
        kept.become_version(self.base)?;
        self.apply(&mut kept)?;
        kept.save(&by)?;
        let with_stage = workspaces::existing(db, &self.session.name)?;
        workspaces::keep(db, &with_stage, &by, now)?;
        let mut back = Draft::begin(db, &with_stage, self.at).unmirrored();
        back.become_version(self.session.version)?;
        back.save(&by)?;
        let nothing = Published { snapshot: Some(by), ..Published::default() };
        Ok(match verdict {
            Verdict::Fits(published) => published,
            Verdict::Conflict(conflicts) => Published { conflicts, ..nothing },
            Verdict::OverQuota { used, allowed } => {
                Published { used_bytes: Some(used), allowed_bytes: Some(allowed), ..nothing }
            }
        })
    }
}

/// Removes what is of another kind than what comes to a path.
fn clear_for(draft: &mut Draft<'_>, path: &str, kind: FileKind) -> Result<(), StoreError> {
    let Some(live) = draft.live(path)? else { return Ok(()) };
    let is_directory = live.entry.content.kind() == FileKind::Directory;
    if is_directory == (kind == FileKind::Directory) { Ok(()) } else { draft.remove_all(path) }
}
