//! Finding files by pattern and lines by expression. Both are linear in what they read, and what they read is bounded.

use globset::{GlobBuilder, GlobMatcher};
use protocol::path::VirtualPath;
use protocol::workspace::{FileKind, GlobMatches, GrepMatches, Line, MAX_GREP_MATCHES, MAX_PAGE_ENTRIES};
use regex::bytes::{Regex, RegexBuilder};

use super::read::{Found, View};
use crate::queue::Queue;
use crate::store::StoreError;

/// Bytes of one file that are searched; the rest of a larger one is not.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// Bytes of all files that one search reads.
const MAX_READ_BYTES: u64 = 256 << 20;
/// Paths that one search looks at.
const MAX_PATHS: u64 = 1_000_000;
/// Bytes at the beginning of a file in which a NUL says that it is no text.
const PROBE_BYTES: usize = 8 << 10;
/// Bytes of a found line that are shown.
const LINE_BYTES: usize = 500;
/// Bytes of a compiled expression.
const EXPRESSION_BYTES: usize = 1 << 20;

/// Why nothing was searched.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// See there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The pattern of paths is not one.
    #[error("not a pattern: {0}")]
    Glob(#[from] globset::Error),
    /// The expression is not one.
    #[error("not a regular expression: {0}; add literal=true to search for the text itself")]
    Expression(#[from] regex::Error),
}

/// What a search is for.
pub struct Grep {
    /// The expression, or the text itself.
    pub pattern: String,
    /// Whether it is the text itself.
    pub literal: bool,
    /// Whether letters are the same in both cases.
    pub ignore_case: bool,
    /// Only files that fit this pattern.
    pub include: Option<String>,
    /// Only below this directory, or in this file.
    pub path: VirtualPath,
    /// Lines at most.
    pub limit: u32,
}

/// A pattern of paths: `*` and `?` stay within a name, `**` does not. One without a slash fits a name anywhere.
fn matcher(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    let pattern = pattern.strip_prefix("/workspace/").unwrap_or(pattern);
    let pattern = pattern.strip_prefix('/').or_else(|| pattern.strip_prefix("./")).unwrap_or(pattern);
    Ok(GlobBuilder::new(pattern).literal_separator(true).build()?.compile_matcher())
}

impl Queue {
    /// What fits a pattern of paths, relative to a directory, by path.
    ///
    /// # Errors
    /// See `SearchError`.
    pub async fn glob(&self, view: &View, path: &VirtualPath, pattern: &str) -> Result<GlobMatches, SearchError> {
        let matcher = matcher(pattern)?;
        let below = path.as_str();
        let mut paths = Paths::new(self, view, below);
        let mut entries = Vec::new();
        while let Some(found) = paths.next().await? {
            let relative = found.entry.path.get(below.len()..).unwrap_or_default().trim_start_matches('/');
            if matcher.is_match(relative) {
                entries.push(found.view());
            }
            if entries.len() > MAX_PAGE_ENTRIES as usize {
                break;
            }
        }
        let truncated = entries.len() > MAX_PAGE_ENTRIES as usize || paths.is_cut;
        entries.truncate(MAX_PAGE_ENTRIES as usize);
        Ok(GlobMatches { pattern: pattern.to_owned(), total: entries.len() as u64, entries, truncated })
    }

    /// The lines of text files that fit an expression, by path and line.
    ///
    /// # Errors
    /// See `SearchError`.
    pub async fn grep(&self, view: &View, wanted: Grep) -> Result<GrepMatches, SearchError> {
        let text = if wanted.literal { regex::escape(&wanted.pattern) } else { wanted.pattern.clone() };
        let expression =
            RegexBuilder::new(&text).case_insensitive(wanted.ignore_case).size_limit(EXPRESSION_BYTES).build()?;
        let include = wanted.include.as_deref().map(included).transpose()?;
        let limit = wanted.limit.min(MAX_GREP_MATCHES) as usize;
        let mut paths = Paths::new(self, view, wanted.path.as_str());
        let (mut matches, mut read, mut truncated) = (Vec::new(), 0, false);
        while let Some(found) = paths.next().await? {
            let path = found.entry.path.clone();
            let size = found.entry.content.size();
            if found.entry.content.kind() != FileKind::File
                || include.as_ref().is_some_and(|include| !include.is_match(&path))
            {
                continue;
            }
            read += size.min(MAX_FILE_BYTES);
            if read > MAX_READ_BYTES {
                truncated = true;
                break;
            }
            truncated |= size > MAX_FILE_BYTES;
            let bytes = self.beginning(&found).await?;
            let expression = expression.clone();
            let room = limit + 1 - matches.len();
            let lines = tokio::task::spawn_blocking(move || lines(&path, &bytes, &expression, room)).await;
            matches.extend(lines.map_err(|error| StoreError::Objects(error.into()))?);
            if matches.len() > limit {
                break;
            }
        }
        truncated |= matches.len() > limit || paths.is_cut;
        matches.truncate(limit);
        Ok(GrepMatches { pattern: wanted.pattern, total: matches.len() as u64, matches, truncated })
    }

    /// As much of a file as is searched.
    async fn beginning(&self, found: &Found) -> Result<Vec<u8>, StoreError> {
        let mut reading = self.open(found, 0..found.entry.content.size().min(MAX_FILE_BYTES)).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = reading.next().await? {
            bytes.extend_from_slice(&piece);
            if is_binary(&bytes) {
                return Ok(Vec::new());
            }
        }
        Ok(bytes)
    }
}

/// A pattern of files to search: without a slash it is for names in every directory.
fn included(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    if pattern.contains('/') { matcher(pattern) } else { matcher(&format!("**/{pattern}")) }
}

fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(PROBE_BYTES)].contains(&0)
}

fn lines(path: &str, bytes: &[u8], expression: &Regex, room: usize) -> Vec<Line> {
    let found = bytes.split(|byte| *byte == b'\n').zip(1..).filter(|(line, _)| expression.is_match(line));
    let line = |(line, number): (&[u8], u64)| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let shown = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES)]).into_owned();
        Line { file: path.to_owned(), line: number, content: shown }
    };
    // What comes after the last line's end is no line.
    let count =
        bytes.iter().filter(|byte| **byte == b'\n').count() + usize::from(bytes.last().is_some_and(|b| *b != b'\n'));
    found.filter(|(_, number)| *number <= count as u64).take(room).map(line).collect()
}

/// Everything below a path with the overlays, by path, a page at a time; a file is all that is below itself.
struct Paths<'queue> {
    queue: &'queue Queue,
    view: View,
    below: String,
    page: std::collections::VecDeque<Found>,
    after: String,
    left: u64,
    state: Left,
    is_cut: bool,
}

enum Left {
    Own,
    Stored,
    Overlaid,
    Nothing,
}

impl<'queue> Paths<'queue> {
    fn new(queue: &'queue Queue, view: &View, below: &str) -> Self {
        Self {
            queue,
            view: view.clone(),
            below: below.to_owned(),
            page: std::collections::VecDeque::new(),
            after: String::new(),
            left: MAX_PATHS,
            state: Left::Own,
            is_cut: false,
        }
    }

    async fn next(&mut self) -> Result<Option<Found>, StoreError> {
        while self.page.is_empty() {
            match self.state {
                Left::Own => {
                    self.state = Left::Stored;
                    if let Ok(path) = self.below.parse() {
                        let own = self.queue.look(&self.view, &path).await?;
                        self.page.extend((own.entry.content.kind() != FileKind::Directory).then_some(own));
                    }
                }
                Left::Stored => {
                    let page = self.queue.page(self.view.tree, &self.below, &self.after).await?;
                    match page.last() {
                        Some(last) => self.after.clone_from(&last.path),
                        None => self.state = Left::Overlaid,
                    }
                    self.page.extend(page.into_iter().map(Found::stored));
                }
                Left::Overlaid => {
                    self.state = Left::Nothing;
                    self.page.extend(self.queue.overlaid(&self.below).await?.into_iter().map(Found::overlaid));
                }
                Left::Nothing => return Ok(None),
            }
        }
        if self.left == 0 {
            self.is_cut = true;
            return Ok(None);
        }
        self.left -= 1;
        Ok(self.page.pop_front())
    }
}
