//! The file API as rows: one transaction for each change, which makes a version of the session.

use std::collections::BTreeMap;

use protocol::path::WorkspacePath;
use protocol::workspace::{FileKind, MODE_BITS};
use rusqlite::Connection;

use super::draft::Draft;
use super::tree::Live;
use super::workspaces;
use crate::clock::Now;
use crate::store::types::{
    Changed, Condition, Content, FileChange, SessionRules, SessionToMake, StoreError, StoredEntry, Tag, What,
    WorkspaceError,
};

/// Permission bits of files that nobody spelled out.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// Makes a change.
pub(super) fn change(
    db: &Connection,
    change: FileChange,
    rules: &SessionRules,
    now: Now,
) -> Result<Changed, StoreError> {
    let by = change.by.to_string();
    if workspaces::find(db, &change.session)?.is_none() {
        // Only a write makes a session: there is nothing to delete or to move in one that is not there.
        if !matches!(change.what, What::Write { .. } | What::MakeDirectory(_)) {
            return Err(WorkspaceError::NoSession.into());
        }
        let name = change.session.clone();
        let new = SessionToMake { name, repo: change.repo, labels: BTreeMap::new(), quota_bytes: None };
        workspaces::create(db, &new, rules, now)?;
    }
    let session = workspaces::existing(db, &change.session)?;
    let mut draft = Draft::begin(db, &session, now.at);
    match change.what {
        What::Write { path, blob, size, sha256, mode, condition } => {
            let old = draft.live(path.as_str())?;
            check(&condition, old.as_ref())?;
            let mode = mode.or_else(|| Some(file_mode(old.as_ref()?))).unwrap_or(FILE_MODE) & MODE_BITS;
            if old.is_some_and(|old| old.entry.content.kind() == FileKind::Directory) {
                return Err(WorkspaceError::IsADirectory(path.as_str().to_owned()).into());
            }
            draft.make_parents(path.as_str())?;
            draft.put(path.as_str(), Content::File { blob, size, sha256, mode })?;
        }
        What::MakeDirectory(path) => {
            draft.make_parents(path.as_str())?;
            draft.make_directory(path.as_str(), DIRECTORY_MODE)?;
        }
        What::Move { from, to } => move_all(&mut draft, &from, &to)?,
        What::Delete { path, condition } => {
            let old = draft.live(path.as_str())?;
            check(&condition, old.as_ref())?;
            old.ok_or_else(|| WorkspaceError::NoEntry(path.as_str().to_owned()))?;
            draft.remove_all(path.as_str())?;
        }
    }
    let version = draft.finish(&by, session.allowed(rules))?;
    // What was moved is gone here and new there: it counts once.
    let entries = if draft.tally.deleted > 0 { draft.tally.deleted } else { draft.tally.paths() };
    Ok(Changed { version, entries })
}

fn file_mode(old: &Live) -> u32 {
    match &old.entry.content {
        Content::File { mode, .. } => *mode,
        Content::Directory { .. } | Content::Symlink { .. } => FILE_MODE,
    }
}

fn check(condition: &Condition, old: Option<&Live>) -> Result<(), WorkspaceError> {
    let is = |tag: &Tag| match (tag, old) {
        (_, None) => false,
        (Tag::Any, Some(_)) => true,
        (Tag::Content(wanted), Some(old)) => tag_of(&old.entry).as_ref() == Some(wanted),
    };
    let fits = condition.is_one_of.is_empty() || condition.is_one_of.iter().any(is);
    if fits && !condition.is_none_of.iter().any(is) { Ok(()) } else { Err(WorkspaceError::Precondition) }
}

/// What `If-Match` compares: the sum of a file's bytes.
fn tag_of(entry: &StoredEntry) -> Option<String> {
    match &entry.content {
        Content::File { sha256, .. } => Some(sha256.clone()),
        Content::Directory { .. } | Content::Symlink { .. } => None,
    }
}

fn move_all(draft: &mut Draft<'_>, from: &WorkspacePath, to: &WorkspacePath) -> Result<(), StoreError> {
    if to.is_below(from) {
        return Err(WorkspaceError::IntoItself.into());
    }
    let old = draft.live(from.as_str())?.ok_or_else(|| WorkspaceError::NoEntry(from.as_str().to_owned()))?;
    if draft.live(to.as_str())?.is_some() {
        return Err(WorkspaceError::Exists(to.as_str().to_owned()).into());
    }
    let below = draft.live_below(from.as_str())?;
    draft.make_parents(to.as_str())?;
    for old in std::iter::once(old).chain(below) {
        let path = format!("{to}{}", &old.entry.path[from.as_str().len()..]);
        // What was short enough where it was may be too long there.
        WorkspacePath::from_relative(&path).map_err(WorkspaceError::Path)?;
        draft.put_entry(StoredEntry { path, ..old.entry.clone() })?;
        draft.remove(&old)?;
    }
    Ok(())
}
