//! The private directory of one attempt. Inside its confinement the task finds `work` at /workspace, `home` and `tmp` as
//! its own, `task` (its code and input) read-only; without mounts it finds them where they are. It is made before the task
//! is known and hidden until the task moves in. Removing it copes with whatever a task leaves: closed directories, any depth, links.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use protocol::Spec;

use crate::confinement::inside::Inside;
use crate::confinement::{etc, gvisor, mounts::HOSTS};
use crate::random;
use crate::workspace::lay_on_top;

/// A directory that nobody else can look into. It stays until `remove`.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Whom the task's own files belong to, when it is not the worker.
    owner: Option<u32>,
    is_mounted: bool,
}

/// Where attempts have their directories, and the program that is each one's pid 1.
pub(crate) struct Place<'state> {
    pub(crate) attempts: &'state Path,
    pub(crate) init: &'state Path,
    /// The slot's user, when the worker is root.
    pub(crate) owner: Option<u32>,
    /// Whether the task finds it by mounts of its own.
    pub(crate) is_mounted: bool,
}

impl Directory {
    /// Makes one with a name that cannot be guessed.
    pub(crate) fn create(place: &Place<'_>) -> anyhow::Result<Self> {
        let path = place.attempts.join(format!(".{:032x}", random::bits()?));
        let directory = Self { path, owner: place.owner, is_mounted: place.is_mounted };
        directory.furnish(place).with_context(|| format!("cannot prepare {}", directory.path.display()))?;
        Ok(directory)
    }

    /// Lays out what the spec brings along, and the names that the task can look up, as /etc/hosts has them.
    pub(crate) fn move_in(&mut self, spec: &Spec, hosts: &str) -> anyhow::Result<()> {
        let path = self.path.with_file_name(self.name());
        fs::rename(&self.path, &path).with_context(|| format!("cannot rename {}", self.path.display()))?;
        self.path = path;
        self.lay_out(spec, hosts).with_context(|| format!("cannot prepare {}", self.path.display()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whom the task's own files belong to, when it is not the worker.
    pub(crate) const fn owner(&self) -> Option<u32> {
        self.owner
    }

    /// A name that no other attempt has.
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix('.').unwrap_or(&name).to_owned()
    }

    /// Where the task works, seen from outside.
    pub(crate) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// Where the task finds what is in it, from when it has moved in.
    pub(crate) fn inside(&self) -> Inside {
        if self.is_mounted { Inside::mounted() } else { Inside::bare(&self.path) }
    }

    /// Writes a file for the task to read; says where the task finds it.
    pub(crate) fn write_code(&self, name: &str, text: &str) -> io::Result<String> {
        write_new(&self.path.join("task").join(name), text.as_bytes(), 0o644)?;
        Ok(format!("{}/{name}", self.inside().task))
    }

    fn furnish(&self, place: &Place<'_>) -> anyhow::Result<()> {
        // Others cannot look into it; the slot's user comes in by its group, to what it knows the name of.
        make(&self.path, if self.owner.is_some() { 0o710 } else { 0o700 })?;
        chown(&self.path, None, self.owner)?;
        for name in ["task", "etc"] {
            make(&self.path.join(name), 0o755)?;
        }
        for name in ["work", "home", "tmp"] {
            make(&self.path.join(name), 0o700)?;
            self.give(&self.path.join(name))?;
        }
        write_new(&self.path.join("hosts"), HOSTS.as_bytes(), 0o644)?;
        let init = self.path.join("init");
        if self.may_share() {
            return fs::hard_link(place.init, init).context("cannot link the program");
        }
        fs::copy(place.init, init).context("cannot copy the program")?;
        etc::make(&self.path.join("etc")).context("cannot make its /etc")
    }

    /// Whether its task can do nothing to files of the worker's that it is shown, so that all tasks are shown the same.
    pub(crate) fn may_share(&self) -> bool {
        self.owner.is_some() || !gvisor::is_kernel()
    }

    /// Whether the kernel counts the processes of its task with those of the worker's user, in spite of a user namespace.
    pub(crate) fn is_counted_with_worker(&self) -> bool {
        self.is_mounted && self.owner.is_none() && gvisor::is_kernel()
    }

    fn lay_out(&self, spec: &Spec, hosts: &str) -> anyhow::Result<()> {
        if hosts != HOSTS {
            // In place: this very file is mounted already.
            fs::write(self.path.join("hosts"), hosts)?;
        }
        for (path, content) in &spec.files {
            lay_on_top(&self.work(), path.as_str(), &content.bytes()?, self.owner)
                .with_context(|| format!("file {path}"))?;
        }
        match &spec.stdin {
            Some(content) => write_new(&self.path.join("task/stdin"), &content.bytes()?, 0o644).context("stdin"),
            None => Ok(()),
        }
    }

    /// Lets a file or directory be the task's own.
    fn give(&self, path: &Path) -> io::Result<()> {
        self.owner.map_or(Ok(()), |owner| chown(path, Some(owner), Some(owner)))
    }
}

fn make(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().mode(mode).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)
}

/// Removes a directory once nothing runs in it any more.
///
/// Directories below are moved up to one level before they are emptied, so that no depth can exhaust the stack, the
/// descriptors or the length of a path.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    let mut names = 0u64;
    let mut full = vec![path.to_path_buf()];
    while let Some(directory) = full.pop() {
        open_up(&directory)?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
                continue;
            }
            open_up(&entry.path())?;
            let up = loop {
                names += 1;
                let name = path.with_extension(format!("old{names}"));
                if !name.try_exists()? {
                    break name;
                }
            };
            fs::rename(entry.path(), &up)?;
            full.push(up);
        }
        match fs::remove_dir(&directory) {
            // A listing may miss what moves while it is read: look again.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => full.push(directory),
            removed => removed?,
        }
    }
    Ok(())
}

/// A task can close a directory even to its owner.
fn open_up(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests;
