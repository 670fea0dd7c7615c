//! Where a fetched file goes. Below a directory every part of the path is made or entered by its name and no link is
//! followed, so that no file lands outside; nothing is replaced unless it was asked for.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use protocol::path::RelativePath;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, mkdirat, openat, renameat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::exit::Exit;
use crate::failure::{Failure, Result};

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// The permission bits of a new file before the umask.
pub(crate) const NEW_FILE: u32 = 0o666;

/// A name in an open directory.
pub(crate) struct Place {
    directory: OwnedFd,
    name: String,
    shown: String,
    force: bool,
}

impl Place {
    /// A file that was named by who runs this.
    pub(crate) fn file(path: &Path, force: bool) -> Result<Self> {
        let shown = path.display().to_string();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Failure::usage(format!("`{shown}` is not a file's name")))?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = openat(CWD, parent, DIRECTORY, Mode::empty())
            .map_err(|error| Failure::file("open", parent.display(), &error.into()))?;
        Ok(Self { directory, name, shown, force })
    }

    /// A path that a task chose, below a directory that was named.
    pub(crate) fn below(root: &Path, path: &RelativePath, force: bool) -> Result<Self> {
        let shown = root.join(path.as_str()).display().to_string();
        let bad = |error: io::Error| Failure::file("write", &shown, &error);
        std::fs::create_dir_all(root).map_err(bad)?;
        let mut here = openat(CWD, root, DIRECTORY, Mode::empty()).map_err(|error| bad(error.into()))?;
        let (parents, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
        for part in parents.split('/').filter(|part| !part.is_empty()) {
            match mkdirat(&here, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(bad(error.into())),
            }
            here =
                openat(&here, part, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).map_err(|error| bad(error.into()))?;
        }
        Ok(Self { directory: here, name: name.to_owned(), shown, force })
    }

    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Refuses to replace what is there, before anything is fetched.
    pub(crate) fn check_free(&self) -> Result<()> {
        let is_there = statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if is_there && !self.force { Err(self.taken()) } else { Ok(()) }
    }

    fn taken(&self) -> Failure {
        let message = format!("{} is there already", self.shown);
        Failure::new(Exit::CONFLICT, "exists", message).next("give --force to replace it")
    }

    /// Makes a directory; one that is there stays as it is, but nothing else may stand there.
    pub(crate) fn make_directory(&self) -> Result<()> {
        let made = match mkdirat(&self.directory, &self.name, Mode::from_raw_mode(0o777)) {
            Err(Errno::EXIST) => {
                openat(&self.directory, &self.name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).map(drop)
            }
            made => made,
        };
        made.map_err(|error| self.unwritable(&error.into()))
    }

    /// Makes a link that says what it is given; nobody follows it here.
    pub(crate) fn make_link(&self, target: &str) -> Result<()> {
        self.check_free()?;
        let name = self.partial_name()?;
        symlinkat(target, &self.directory, &name).map_err(|error| self.unwritable(&error.into()))?;
        let named = self.take_name(&name);
        // Once it has its name there is nothing left under this one.
        let _ = unlinkat(&self.directory, &name, AtFlags::empty());
        named
    }

    /// Begins a file beside the place, under a name of its own. It gets these permission bits, less the umask.
    pub(crate) fn begin(&self, mode: u32) -> Result<Partial<'_>> {
        let name = self.partial_name()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.directory, &name, flags, Mode::from_raw_mode(mode));
        let file = File::from(file.map_err(|error| self.unwritable(&error.into()))?);
        Ok(Partial { place: self, name, file })
    }

    fn partial_name(&self) -> Result<String> {
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(|error| self.unwritable(&io::Error::other(error)))?;
        Ok(format!(".cw-{:016x}.partial", u64::from_be_bytes(random)))
    }

    fn take_name(&self, from: &str) -> Result<()> {
        let (directory, name) = (&self.directory, &self.name);
        let named = if self.force {
            renameat(directory, from, directory, name)
        } else {
            match renameat_with(directory, from, directory, name, RenameFlags::NOREPLACE) {
                // Not every file system can; it was free a moment ago.
                Err(Errno::INVAL | Errno::NOSYS) => renameat(directory, from, directory, name),
                named => named,
            }
        };
        match named {
            Err(Errno::EXIST) => Err(self.taken()),
            named => named.map_err(|error| self.unwritable(&error.into())),
        }
    }

    fn unwritable(&self, error: &io::Error) -> Failure {
        Failure::file("write", &self.shown, error)
    }
}

/// A file that is being fetched. Dropped, it leaves nothing behind.
pub(crate) struct Partial<'place> {
    place: &'place Place,
    name: String,
    file: File,
}

impl Partial<'_> {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| self.place.unwritable(&error))
    }

    /// Gives it its name.
    pub(crate) fn finish(self) -> Result<()> {
        self.place.take_name(&self.name)
    }
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        // Once it has its name there is nothing left under this one.
        let _ = unlinkat(&self.place.directory, &self.name, AtFlags::empty());
    }
}
