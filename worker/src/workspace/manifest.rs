//! Reads a manifest as it comes: lines that must be well-formed, in their places, as many as the last one says, and about the
//! task's own session.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use protocol::SessionName;
use protocol::spec::SessionMode;
use protocol::workspace::{Difference, Head, MAX_SESSION_ENTRIES, ManifestLine};

use super::entry::{self, Entry, Path};

/// Bytes of a line at most: the longest path and the longest target, escaped.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Lines at most: a session with both overlays, and paths that are gone.
const MAX_LINES: u64 = 2 * MAX_SESSION_ENTRIES;

/// What should stand.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) head: Head,
    /// By path; none is gone.
    pub(super) entries: BTreeMap<Path, Option<Entry>>,
    /// What the overlays hold.
    pub(super) overlaid: BTreeMap<Path, Entry>,
}

/// A manifest of which not all has come.
pub(super) struct Reader {
    session: SessionName,
    mode: SessionMode,
    rest: Vec<u8>,
    manifest: Option<Manifest>,
    lines: u64,
    is_over: bool,
}

impl Reader {
    pub(super) const fn new(session: SessionName, mode: SessionMode) -> Self {
        Self { session, mode, rest: Vec::new(), manifest: None, lines: 0, is_over: false }
    }

    /// Takes the next bytes.
    pub(super) fn take(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        let mut piece = piece;
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&piece[..end], &piece[end + 1..]);
            if self.rest.is_empty() {
                self.line(line)?;
            } else {
                let mut whole = std::mem::take(&mut self.rest);
                whole.extend_from_slice(line);
                self.line(&whole)?;
            }
            piece = after;
        }
        self.rest.extend_from_slice(piece);
        ensure!(self.rest.len() <= MAX_LINE_BYTES, "a line of it is over {MAX_LINE_BYTES} bytes");
        Ok(())
    }

    /// The whole of it.
    pub(super) fn finish(self) -> anyhow::Result<Manifest> {
        ensure!(self.is_over && self.rest.is_empty(), "it was cut off");
        self.manifest.context("it has no head")
    }

    fn line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        ensure!(!self.is_over, "it goes on after its end");
        let line = serde_json::from_slice(line).context("a line of it is not understood")?;
        match (&mut self.manifest, line) {
            (None, ManifestLine::Head(head)) => {
                ensure!(head.session == self.session, "it is about session {}", head.session);
                ensure!(head.mode == self.mode, "it is for another mode than the task's");
                self.manifest = Some(Manifest { head, entries: BTreeMap::new(), overlaid: BTreeMap::new() });
            }
            (None, _) => bail!("it does not begin with its head"),
            (Some(_), ManifestLine::Head(_)) => bail!("it has two heads"),
            (Some(manifest), ManifestLine::Entry(told)) => {
                self.lines += 1;
                let path = entry::path(&told.path, told.overlay)?;
                let entry = Entry::new(&told).with_context(|| format!("`{path}`"))?;
                let is_new = if told.overlay {
                    manifest.overlaid.insert(path, entry).is_none()
                } else {
                    manifest.entries.insert(path, Some(entry)).is_none()
                };
                ensure!(is_new, "`{}` comes twice", told.path);
            }
            (Some(manifest), ManifestLine::Removed { path }) => {
                self.lines += 1;
                ensure!(manifest.head.difference == Difference::Since, "`{path}` is gone, in a whole manifest");
                let is_new = manifest.entries.insert(entry::path(&path, false)?, None).is_none();
                ensure!(is_new, "`{path}` comes twice");
            }
            (Some(_), ManifestLine::End { lines }) => {
                ensure!(lines == self.lines, "its end counts {lines} lines, and there were {}", self.lines);
                self.is_over = true;
            }
        }
        ensure!(self.lines <= MAX_LINES, "it has over {MAX_LINES} lines");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
