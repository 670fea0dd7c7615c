//! What is below a root, opened one name at a time and never through a link. A task may have closed a directory even to its
//! owner: who is not root opens it up for a moment.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, chmodat, fchmod, fstat, openat, statat};
use rustix::io::Errno;

use super::entry::split;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);
/// Never waits for the other end of a pipe.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A directory and what is below it.
pub(super) struct Root {
    fd: OwnedFd,
    /// The directory that was last asked for: who goes through a tree asks for it again and again.
    last: Option<(String, OwnedFd)>,
    /// Directories that were closed, with the modes that they had.
    opened_up: Vec<(String, u32)>,
    is_privileged: bool,
}

impl Root {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let is_privileged = rustix::process::geteuid().is_root();
        let mode = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
        if !is_privileged && mode & 0o700 != 0o700 {
            // A task may close even the root; its mode is no part of a workspace.
            chmodat(CWD, path, Mode::RWXU, AtFlags::empty())?;
        }
        let fd = openat(CWD, path, DIRECTORY, Mode::empty())?;
        Ok(Self { fd, last: None, opened_up: Vec::new(), is_privileged })
    }

    /// The directory at this path; an empty one is the root itself.
    pub(super) fn directory(&mut self, path: &str) -> io::Result<&OwnedFd> {
        if path.is_empty() {
            return Ok(&self.fd);
        }
        if self.last.as_ref().is_none_or(|(last, _)| last != path) {
            let opened = self.walk(path)?;
            self.last = Some((path.to_owned(), opened));
        }
        // cannot fail: it was just put there
        self.last.as_ref().map(|(_, fd)| fd).ok_or_else(|| Errno::NOENT.into())
    }

    /// The directory that a path is in, and the name there.
    pub(super) fn place<'path>(&mut self, path: &'path str) -> io::Result<(&OwnedFd, &'path str)> {
        let (parent, name) = split(path);
        Ok((self.directory(parent)?, name))
    }

    /// Opens a file to read it; what is none is refused.
    pub(super) fn file(&mut self, path: &str) -> io::Result<std::fs::File> {
        let (parent, name) = self.place(path)?;
        let file = match openat(parent, name, FILE, Mode::empty()) {
            Err(Errno::ACCESS) => open_closed_file(parent, name)?,
            opened => opened?,
        };
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is not a file"));
        }
        Ok(file.into())
    }

    /// Forgets the directory that was last asked for: it may be another one now.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// What was opened up, for somebody else to close.
    pub(super) fn take_opened_up(&mut self) -> Vec<String> {
        std::mem::take(&mut self.opened_up).into_iter().map(|(path, _)| path).collect()
    }

    /// Closes again what was opened up.
    pub(super) fn close_down(&mut self) -> io::Result<()> {
        self.forget();
        for (path, mode) in std::mem::take(&mut self.opened_up).into_iter().rev() {
            let (parent, name) = self.place(&path)?;
            match chmodat(parent, name, Mode::from_raw_mode(mode), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn walk(&mut self, path: &str) -> io::Result<OwnedFd> {
        let (mut here, mut done) = match &self.last {
            Some((last, fd)) if path.strip_prefix(last.as_str()).is_some_and(|rest| rest.starts_with('/')) => {
                (fd.try_clone()?, last.len() + 1)
            }
            Some(_) | None => (self.fd.try_clone()?, 0),
        };
        while done <= path.len() {
            let end = path[done..].find('/').map_or(path.len(), |length| done + length);
            here = self.step(&here, &path[done..end], &path[..end])?;
            done = end + 1;
        }
        Ok(here)
    }

    fn step(&mut self, here: &OwnedFd, name: &str, path: &str) -> io::Result<OwnedFd> {
        if self.is_privileged {
            return Ok(openat(here, name, DIRECTORY, Mode::empty())?);
        }
        match openat(here, name, DIRECTORY, Mode::empty()) {
            Err(Errno::ACCESS) => {
                let mode = statat(here, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode & 0o7777;
                chmodat(here, name, Mode::from_raw_mode(mode | 0o700), AtFlags::empty())?;
                self.opened_up.push((path.to_owned(), mode));
                Ok(openat(here, name, DIRECTORY, Mode::empty())?)
            }
            opened => {
                let opened = opened?;
                let mode = fstat(&opened)?.st_mode & 0o7777;
                if mode & 0o700 != 0o700 {
                    fchmod(&opened, Mode::from_raw_mode(mode | 0o700))?;
                    self.opened_up.push((path.to_owned(), mode));
                }
                Ok(opened)
            }
        }
    }
}

/// Opens a file that its mode closes even to its owner, and closes it again at once.
fn open_closed_file(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::ACCESS.into());
    }
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    chmodat(parent, name, mode | Mode::RUSR, AtFlags::empty())?;
    let opened = openat(parent, name, FILE, Mode::empty());
    chmodat(parent, name, mode, AtFlags::empty())?;
    Ok(opened?)
}
