//! Lays a task's own files into its working directory. What is there may be an earlier task's work: no link is followed.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, fchmod, fchown, mkdirat, openat, unlinkat};
use rustix::io::Errno;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Writes a file, in place of one that is there.
pub(crate) fn lay_on_top(root: &Path, path: &str, bytes: &[u8], owner: Option<u32>) -> anyhow::Result<()> {
    let mut here = openat(CWD, root, DIRECTORY, Mode::empty())?;
    let mut components = path.split('/').peekable();
    while let Some(name) = components.next() {
        if components.peek().is_none() {
            return Ok(write_new(&here, name, bytes, owner)?);
        }
        here = match below(&here, name, owner) {
            Err(Errno::NOTDIR | Errno::LOOP) => bail!("`{name}` is a file or a link there, and must be a directory"),
            opened => opened.with_context(|| format!("cannot make the directory `{name}`"))?,
        };
    }
    Ok(())
}

fn below(here: &OwnedFd, name: &str, owner: Option<u32>) -> rustix::io::Result<OwnedFd> {
    match mkdirat(here, name, Mode::RWXU) {
        Ok(()) => {
            let made = openat(here, name, DIRECTORY, Mode::empty())?;
            give(&made, owner, 0o755)?;
            Ok(made)
        }
        Err(Errno::EXIST) => openat(here, name, DIRECTORY, Mode::empty()),
        Err(error) => Err(error),
    }
}

fn write_new(here: &OwnedFd, name: &str, bytes: &[u8], owner: Option<u32>) -> io::Result<()> {
    let open = || openat(here, name, NEW, Mode::RUSR | Mode::WUSR);
    let made = match open() {
        Err(Errno::EXIST) => {
            unlinkat(here, name, AtFlags::empty())?;
            open()?
        }
        made => made?,
    };
    give(&made, owner, 0o644)?;
    std::fs::File::from(made).write_all(bytes)
}

fn give(made: &OwnedFd, owner: Option<u32>, mode: u32) -> rustix::io::Result<()> {
    if let Some(owner) = owner {
        fchown(made, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))?;
    }
    fchmod(made, Mode::from_raw_mode(mode))
}
