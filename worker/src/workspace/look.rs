//! What a task left of its tree, compared with what was laid out: a walk that follows no link, when all processes are gone.
//! What could not be kept is named, and where it stands, so that no later task sees it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path as FilePath;

use anyhow::{Context as _, ensure};
use protocol::path::{Overlay, PathRefusal, WorkspacePath};
use protocol::workspace::{MAX_SESSION_ENTRIES, MAX_STAGE_ENTRIES, MAX_TARGET_BYTES};
use rustix::fs::{AtFlags, Dir, FileType, flistxattr, readlinkat, statat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::entry::{Entries, Laid, Mark, Path, Sum, What, ancestors};
use super::errand::Errand;
use super::root::Root;

const PIECE_BYTES: usize = 64 << 10;
/// What is looked at in all: a session, and as much again that cannot be kept.
const MAX_ENTRIES: u64 = 2 * MAX_SESSION_ENTRIES;

/// A path that is another than it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: Path,
    pub(super) to: To,
}

/// What it became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum To {
    File(Mark),
    Directory { mode: u32 },
    Symlink { target: Box<str>, mark: Mark },
    Nothing,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By path.
    pub(super) changes: Vec<Change>,
    /// Files that hold what they held, and were touched all the same.
    pub(super) touched: Vec<(Path, Mark)>,
    /// What cannot be kept: how it is written, and why.
    pub(super) skipped: Vec<(String, String)>,
    /// Where it stands: a directory, and the name there.
    pub(super) strays: Vec<(String, OsString)>,
    /// Whether something is left that no walk takes away: attributes, special bits, a file with two names.
    pub(super) is_strange: bool,
}

/// Walks a tree that was laid out at a time before `begun`.
pub(super) fn look(
    root: &FilePath,
    laid: &Entries,
    begun: (i64, i64),
    errand: Option<&Errand>,
) -> anyhow::Result<Found> {
    let root = Root::open(root)?;
    let mut look = Look { root, laid, begun, seen: HashSet::new(), count: 0, found: Found::default() };
    let mut pending = vec![String::new()];
    while let Some(directory) = pending.pop() {
        ensure!(errand.is_none_or(Errand::is_open), "the attempt ended meanwhile");
        look.directory(&directory, &mut pending)
            .with_context(|| format!("cannot read the directory `{}`", shown(directory.as_bytes())))?;
    }
    look.root.close_down()?;
    look.finish()
}

struct Look<'tree> {
    root: Root,
    laid: &'tree Entries,
    begun: (i64, i64),
    seen: HashSet<&'tree str>,
    count: u64,
    found: Found,
}

impl<'tree> Look<'tree> {
    fn directory(&mut self, directory: &str, pending: &mut Vec<String>) -> anyhow::Result<()> {
        let here = self.root.directory(directory)?;
        let own = Mark::of(&rustix::fs::fstat(here)?);
        self.found.is_strange |= own.changed >= self.begun && has_attributes(here);
        let names: Vec<OsString> = Dir::read_from(here)?
            .map(|entry| entry.map(|entry| std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()).to_owned()))
            .filter(|name| !name.as_ref().is_ok_and(|name| name == "." || name == ".."))
            .collect::<Result<_, _>>()?;
        for name in names {
            self.count += 1;
            ensure!(self.count <= MAX_ENTRIES, "there are over {MAX_ENTRIES} files; remove some");
            if let Some(below) = self.entry(directory, name)? {
                pending.push(below);
            }
        }
        Ok(())
    }

    /// Looks at one name; says the directory that it is.
    fn entry(&mut self, directory: &str, name: OsString) -> anyhow::Result<Option<String>> {
        let stat = statat(self.root.directory(directory)?, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let (mark, kind) = (Mark::of(&stat), FileType::from_raw_mode(stat.st_mode));
        let is_overlay = directory.is_empty() && Overlay::ALL.iter().any(|overlay| name == overlay.as_str());
        if is_overlay && kind == FileType::Directory {
            return Ok(None);
        }
        let path = match keepable(directory, &name, kind) {
            Ok(path) => path,
            Err(why) => {
                self.skip(directory, name, why);
                return Ok(None);
            }
        };
        let laid = self.laid.get_key_value(&*path);
        self.found.is_strange |= mark.is_special();
        match kind {
            FileType::Directory => return Ok(Some(self.below(path, laid, mark.permissions()))),
            FileType::Symlink => self.link((directory, name), path, laid, mark)?,
            FileType::RegularFile
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {
                self.seen.extend(laid.map(|(path, _)| &**path));
                self.file(path, laid.map(|(_, laid)| laid), mark, stat.st_nlink > 1)?;
            }
        }
        Ok(None)
    }

    fn below(&mut self, path: Path, laid: Option<(&'tree Path, &'tree Laid)>, mode: u32) -> String {
        self.seen.extend(laid.map(|(path, _)| &**path));
        if laid.is_none_or(|(_, laid)| laid.entry.what != What::Directory { mode }) {
            self.change(path.clone(), To::Directory { mode });
        }
        path.into()
    }

    fn link(
        &mut self,
        (directory, name): (&str, OsString),
        path: Path,
        laid: Option<(&'tree Path, &'tree Laid)>,
        mark: Mark,
    ) -> anyhow::Result<()> {
        let target = readlinkat(self.root.directory(directory)?, &name, Vec::new())?;
        let target = match target.to_str() {
            Ok(target) if target.len() <= MAX_TARGET_BYTES => Box::from(target),
            Ok(_) => {
                self.skip(directory, name, "where it points is too long");
                return Ok(());
            }
            Err(_) => {
                self.skip(directory, name, "where it points is not UTF-8");
                return Ok(());
            }
        };
        self.seen.extend(laid.map(|(path, _)| &**path));
        let is_same = |what: &What| matches!(what, What::Symlink { target: old } if *old == target);
        match laid {
            Some((_, laid)) if is_same(&laid.entry.what) => self.touched(path, laid, mark),
            Some(_) | None => self.change(path, To::Symlink { target, mark }),
        }
        Ok(())
    }

    fn file(&mut self, path: Path, laid: Option<&Laid>, mark: Mark, is_linked: bool) -> anyhow::Result<()> {
        if laid.is_some_and(|laid| laid.mark == mark) {
            return Ok(());
        }
        let mut file = self.root.file(&path).with_context(|| format!("cannot read `{path}`"))?;
        // Who had to open it up has changed a time of it.
        let now = Mark { changed: Mark::of(&rustix::fs::fstat(&file)?).changed, ..mark };
        self.found.is_strange |= is_linked || has_attributes(&file);
        let old = laid.and_then(|laid| match laid.entry.what {
            What::File { size, sum, mode } if size == mark.size => Some((laid, sum, mode)),
            What::File { .. } | What::Directory { .. } | What::Symlink { .. } => None,
        });
        match old {
            Some((laid, old, mode)) if sum(&mut file)? == old && mode == mark.permissions() => {
                self.touched(path, laid, now)
            }
            Some(_) | None => self.change(path, To::File(now)),
        }
        Ok(())
    }

    fn touched(&mut self, path: Path, laid: &Laid, mark: Mark) {
        if laid.mark != mark {
            self.found.touched.push((path, mark));
        }
    }

    fn change(&mut self, path: Path, to: To) {
        self.found.changes.push(Change { path, to });
    }

    fn skip(&mut self, directory: &str, name: OsString, why: impl Into<String>) {
        let separator = if directory.is_empty() { "" } else { "/" };
        self.found
            .skipped
            .push((shown(&[directory.as_bytes(), separator.as_bytes(), name.as_bytes()].concat()), why.into()));
        self.found.strays.push((directory.to_owned(), name));
    }

    fn finish(mut self) -> anyhow::Result<Found> {
        let gone: Vec<&Path> = self.laid.keys().filter(|path| !self.seen.contains(&***path)).collect();
        let known: HashSet<&str> = gone.iter().map(|path| &***path).collect();
        // With a directory goes what is below it.
        let topmost = gone.iter().filter(|path| !ancestors(path).any(|above| known.contains(above)));
        self.found.changes.extend(topmost.map(|path| Change { path: (*path).clone(), to: To::Nothing }));
        self.found.changes.sort_by(|one, other| one.path.cmp(&other.path));
        let count = self.found.changes.len() as u64;
        ensure!(
            count <= MAX_STAGE_ENTRIES,
            "{count} paths were changed, and {MAX_STAGE_ENTRIES} are taken: make one file of many, or use several tasks"
        );
        Ok(self.found)
    }
}

/// The path, if a workspace can keep it.
fn keepable(directory: &str, name: &OsString, kind: FileType) -> Result<Path, String> {
    let name = name.to_str().ok_or("its name is not UTF-8")?;
    let separator = if directory.is_empty() { "" } else { "/" };
    let path = WorkspacePath::from_relative(&format!("{directory}{separator}{name}")).and_then(WorkspacePath::writable);
    let path = path.map_err(|refusal| match refusal {
        PathRefusal::Unsafe(why) => why.to_owned(),
        PathRefusal::Sensitive(_) => "it has the name of a file with credentials".to_owned(),
        PathRefusal::ReadOnly(overlay) => format!("it looks like `{overlay}`, which is the operator's"),
    })?;
    match kind {
        FileType::RegularFile | FileType::Directory | FileType::Symlink => Ok(path.as_str().into()),
        FileType::Fifo => Err("a pipe".into()),
        FileType::Socket => Err("a socket".into()),
        FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => Err("a device".into()),
    }
}

/// Whether it has attributes beside its mode: labels of the machine do not count.
fn has_attributes(file: impl std::os::fd::AsFd) -> bool {
    let mut names = [0_u8; 4096];
    match flistxattr(&file, &mut names[..]) {
        Ok(length) => {
            let names = names[..length].split(|byte| *byte == 0);
            names.into_iter().any(|name| !name.is_empty() && !name.starts_with(b"security."))
        }
        Err(error) => error == Errno::RANGE,
    }
}

pub(super) fn sum(file: &mut File) -> io::Result<Sum> {
    let mut sum = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(sum.finalize().into()),
            length => sum.update(&piece[..length]),
        }
    }
}

/// A path as far as it can be written.
fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().filter(|c| !c.is_control()).take(256).collect()
}

#[cfg(test)]
mod tests;
