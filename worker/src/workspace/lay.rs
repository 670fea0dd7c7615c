//! The hands that change a tree on the disk: each path is reached from the root by names that are no links, what goes is
//! moved out whole, and what comes belongs to the slot's user.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::Context as _;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Uid, chmodat, chownat, fchmod, fchown, fstat, futimens, mkdirat, openat, renameat,
    statat, symlinkat, utimensat,
};

use super::cache::{Cache, NotLaid};
use super::entry::{self, Entry, Mark, What};
use super::root::Root;

/// Permission bits of a directory that is not finished.
const OPEN: Mode = Mode::RWXU;

/// A tree, and a place for what goes.
pub(super) struct Hands {
    pub(super) root: Root,
    trash: OwnedFd,
    owner: Option<u32>,
    moved: u64,
}

impl Hands {
    pub(super) fn on(root: &Path, trash: &Path, owner: Option<u32>) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self { root: Root::open(root)?, trash: openat(CWD, trash, flags, Mode::empty())?, owner, moved: 0 })
    }

    /// Moves something out, with all below it. It is removed with the trash.
    pub(super) fn remove(&mut self, path: &str) -> io::Result<()> {
        let (parent, name) = entry::split(path);
        self.remove_name(parent, std::ffi::OsStr::new(name))
    }

    /// The same for a name that may be anything.
    pub(super) fn remove_name(&mut self, parent: &str, name: &std::ffi::OsStr) -> io::Result<()> {
        let moved = loop {
            self.moved += 1;
            let name = self.moved.to_string();
            if statat(&self.trash, &name, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                break name;
            }
        };
        let parent = self.root.directory(parent)?;
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory {
            // Who moves a directory changes what is in it: its `..`.
            chmodat(parent, name, OPEN, AtFlags::empty())?;
        }
        renameat(parent, name, &self.trash, moved)?;
        self.root.forget();
        Ok(())
    }

    /// Makes a directory or a link. A directory stays open until its mode is set.
    pub(super) fn make(&mut self, path: &str, entry: &Entry) -> anyhow::Result<Mark> {
        self.try_make(path, entry).with_context(|| format!("cannot make `{path}`"))
    }

    fn try_make(&mut self, path: &str, entry: &Entry) -> io::Result<Mark> {
        let owner = self.owner;
        let (parent, name) = self.root.place(path)?;
        match &entry.what {
            What::Directory { .. } => mkdirat(parent, name, OPEN)?,
            What::Symlink { target } => symlinkat(&**target, parent, name)?,
            What::File { .. } => return Err(io::Error::other("files come from the cache")),
        }
        own(parent, name, owner)?;
        if !entry.what.is_directory() {
            utimensat(parent, name, &entry.times(), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(Mark::of(&statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Makes a file of a content.
    pub(super) fn make_file(&mut self, path: &str, entry: &Entry, cache: &Cache) -> Result<Mark, NotLaid> {
        let What::File { size, sum, mode } = &entry.what else { return Err(io::Error::other("not a file").into()) };
        let owner = self.owner;
        let (parent, name) = self.root.place(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(parent, name, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?);
        if let Err(error) = cache.lay(sum, *size, &mut file) {
            rustix::fs::unlinkat(parent, name, AtFlags::empty()).map_err(io::Error::from)?;
            return Err(error);
        }
        finish(&file, owner, *mode, entry).map_err(io::Error::from).map_err(NotLaid::from)
    }

    /// Sets the mode and the time of what is there.
    pub(super) fn fix(&mut self, path: &str, entry: &Entry) -> anyhow::Result<Mark> {
        self.try_fix(path, entry).with_context(|| format!("cannot set the mode of `{path}`"))
    }

    fn try_fix(&mut self, path: &str, entry: &Entry) -> io::Result<Mark> {
        let (parent, name) = self.root.place(path)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        match entry.what {
            // No link: what stands here is known.
            What::File { mode, .. } | What::Directory { mode } => {
                chmodat(parent, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
            }
            What::Symlink { .. } => {}
        }
        if !entry.what.is_directory() {
            utimensat(parent, name, &entry.times(), flags)?;
        }
        Ok(Mark::of(&statat(parent, name, flags)?))
    }

    /// Gives something that is there to the slot's user; its mark is another then.
    pub(super) fn give(&mut self, path: &str) -> io::Result<Mark> {
        let owner = self.owner;
        let (parent, name) = self.root.place(path)?;
        own(parent, name, owner)?;
        Ok(Mark::of(&statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// The last time that the file system gives to a change, once that is later than another: nothing that happens from
    /// then on can have the other's time. None when its clock stands still.
    pub(super) fn later_than(&self, time: (i64, i64)) -> io::Result<Option<(i64, i64)>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let tick = openat(&self.trash, "tick", flags, Mode::RUSR | Mode::WUSR)?;
        for _ in 0..200 {
            fchmod(&tick, Mode::RUSR | Mode::WUSR)?;
            let now = Mark::of(&fstat(&tick)?).changed;
            if now > time {
                return Ok(Some(now));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(None)
    }
}

fn own(parent: &OwnedFd, name: &str, owner: Option<u32>) -> rustix::io::Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    chownat(parent, name, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)), AtFlags::SYMLINK_NOFOLLOW)
}

fn finish(file: &File, owner: Option<u32>, mode: u32, entry: &Entry) -> rustix::io::Result<Mark> {
    if let Some(owner) = owner {
        fchown(file, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))?;
    }
    fchmod(file, Mode::from_raw_mode(mode))?;
    futimens(file, &entry.times())?;
    Ok(Mark::of(&fstat(file)?))
}
