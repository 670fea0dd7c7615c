//! Changing files of a session, and reading them as text.

use protocol::path::WorkspacePath;
use protocol::workspace::{Edit, FileContent, MAX_TEXT_BYTES, language};
use protocol::{KeyId, SessionName};

use super::read::Found;
use crate::objects::Incoming;
use crate::queue::Queue;
use crate::store::{Changed, Condition, FileChange, StoreError, Tag, What, WorkspaceError};

/// How often an edit begins anew because somebody else was faster.
const EDIT_TRIES: u32 = 5;

/// Why a file could not be read as text, or an edit not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// See there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It has more bytes than are read as JSON.
    #[error("the file has {0} bytes, at most 2 MiB are read as text; fetch it by files/raw")]
    TooLarge(u64),
    /// It is not UTF-8, or has a NUL byte.
    #[error("the file is not text; fetch it by files/raw")]
    NotText,
    /// What was to be replaced is not there.
    #[error("edit {0}: the file does not have this text")]
    NoMatch(usize),
    /// What was to be replaced is there more than once.
    #[error("edit {number}: the file has this text {count} times; give more of what is around it, or set `all`")]
    AmbiguousMatch {
        /// Which edit, from 1.
        number: usize,
        /// How often.
        count: usize,
    },
}

/// Which lines of a file are read.
#[derive(Debug, Clone, Copy)]
pub struct Read {
    /// The first, from 0.
    pub offset: u64,
    /// How many; all when it is left out.
    pub limit: Option<u64>,
}

/// What is to be edited.
pub(crate) struct Editing {
    pub(crate) session: SessionName,
    pub(crate) path: WorkspacePath,
    pub(crate) edits: Vec<Edit>,
    pub(crate) condition: Condition,
    pub(crate) by: KeyId,
}

/// What an edit left behind.
pub(crate) struct EditDone {
    pub(crate) replaced: u64,
    pub(crate) size: u64,
    pub(crate) tag: String,
    pub(crate) version: u64,
}

impl Queue {
    /// Makes a change of files.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn change_files(&self, change: FileChange) -> Result<Changed, StoreError> {
        self.store.change_files(change, self.rules.clone(), self.clock.now()).await
    }

    /// Puts what arrived at a path; gives its tag and the version. Not to be dropped half-way: the row might name a blob that
    /// went with it.
    ///
    /// # Errors
    /// See `StoreError`; nothing is left behind.
    pub async fn write_file(
        &self,
        change: impl FnOnce(What) -> FileChange,
        (path, mode, condition): (WorkspacePath, Option<u32>, Condition),
        incoming: Incoming,
    ) -> Result<(String, u64), StoreError> {
        let kept = incoming.keep().await?;
        let (blob, size, sha256) = (kept.name.clone(), kept.size, kept.sha256.clone());
        let what = What::Write { path, blob, size, sha256: sha256.clone(), mode, condition };
        let changed = self.change_files(change(what)).await?;
        // Who wrote what is there already left a blob that nobody names: it is swept.
        kept.is_named();
        Ok((format!("\"{sha256}\""), changed.version))
    }

    /// A file as text.
    ///
    /// # Errors
    /// See `ReadError`.
    pub async fn read_text(&self, found: &Found, wanted: Read) -> Result<FileContent, ReadError> {
        let text = self.text(found).await?;
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let first = usize::try_from(wanted.offset).unwrap_or(usize::MAX).min(lines.len());
        let count = wanted.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let end = first.saturating_add(count).min(lines.len());
        let view = found.view();
        Ok(FileContent {
            language: language(&view.name).to_owned(),
            mime_type: protocol::artifact::media_type_of(&view.path).to_owned(),
            content: lines[first..end].concat(),
            size: view.size,
            etag: view.etag.unwrap_or_default(),
            offset: first as u64,
            total_lines: lines.len() as u64,
            truncated: end < lines.len(),
            path: view.path,
            name: view.name,
        })
    }

    async fn text(&self, found: &Found) -> Result<String, ReadError> {
        let size = found.entry.content.size();
        if size > MAX_TEXT_BYTES {
            return Err(ReadError::TooLarge(size));
        }
        let text = String::from_utf8(self.whole(found).await?).map_err(|_| ReadError::NotText)?;
        if text.contains('\0') { Err(ReadError::NotText) } else { Ok(text) }
    }

    /// Replaces text in a file. Somebody else's change in between is never lost: the edit begins anew on it.
    ///
    /// # Errors
    /// See `ReadError`.
    pub(crate) async fn edit_file(&self, wanted: &Editing) -> Result<EditDone, ReadError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let newest = self.view(wanted.session.clone(), None).await?;
            let found = self.look(&newest, &wanted.path).await?.file().map_err(StoreError::from)?;
            let (text, replaced) = replace(self.text(&found).await?, &wanted.edits)?;
            let unchanged = found.tag().map(|tag| Tag::Content(tag.trim_matches('"').to_owned()));
            if unchanged.as_ref().is_some_and(|tag| !admits(&wanted.condition, tag)) {
                return Err(StoreError::from(WorkspaceError::Precondition).into());
            }
            let condition = Condition { is_one_of: unchanged.into_iter().collect(), ..wanted.condition.clone() };
            let mut incoming = self.objects.begin();
            incoming.write(text.as_bytes()).await.map_err(StoreError::from)?;
            let change = |what| FileChange { session: wanted.session.clone(), repo: None, by: wanted.by, what };
            match self.write_file(change, (wanted.path.clone(), None, condition), incoming).await {
                Ok((tag, version)) => return Ok(EditDone { replaced, size: text.len() as u64, tag, version }),
                Err(StoreError::Workspace(WorkspaceError::Precondition)) if tries < EDIT_TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether a client's condition admits a file of this content.
fn admits(condition: &Condition, tag: &Tag) -> bool {
    condition.is_one_of.is_empty() || condition.is_one_of.iter().any(|wanted| *wanted == Tag::Any || wanted == tag)
}

/// All edits, one after another; says how many occurrences were replaced.
fn replace(mut text: String, edits: &[Edit]) -> Result<(String, u64), ReadError> {
    let mut replaced = 0;
    for (place, edit) in edits.iter().enumerate() {
        let number = place + 1;
        match text.matches(&edit.old).count() {
            0 => return Err(ReadError::NoMatch(number)),
            count if count > 1 && !edit.all => return Err(ReadError::AmbiguousMatch { number, count }),
            count => replaced += count as u64,
        }
        text = text.replace(&edit.old, &edit.new);
        if text.len() as u64 > MAX_TEXT_BYTES {
            return Err(ReadError::TooLarge(text.len() as u64));
        }
    }
    Ok((text, replaced))
}
