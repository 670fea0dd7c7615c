//! The private directory of one attempt: `work` is where the task runs, beside it are its home, its temporary files, its
//! code and its input. Removing it copes with whatever a task leaves: closed directories, any depth, links.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use protocol::Spec;

use crate::random;

/// A directory that nobody else can look into. It stays until `remove`.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Makes one with a name that cannot be guessed, and lays out what the spec brings along.
    pub(crate) fn create(attempts: &Path, spec: &Spec) -> anyhow::Result<Self> {
        let path = attempts.join(format!("{:032x}", random::bits()?));
        let directory = Self { path };
        directory.lay_out(spec).with_context(|| format!("cannot prepare {}", directory.path.display()))?;
        Ok(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the task works.
    pub(crate) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// The task's input, if it has any.
    pub(crate) fn stdin(&self) -> PathBuf {
        self.path.join("stdin")
    }

    /// Writes the task's code; says where.
    pub(crate) fn write_code(&self, name: &str, code: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        write_new(&path, code.as_bytes())?;
        Ok(path)
    }

    fn lay_out(&self, spec: &Spec) -> anyhow::Result<()> {
        for directory in [self.path.clone(), self.work(), self.home(), self.temporary()] {
            fs::DirBuilder::new().mode(0o700).create(directory)?;
        }
        for (path, content) in &spec.files {
            let target = self.work().join(path.as_str());
            target.parent().map(fs::create_dir_all).transpose()?;
            write_new(&target, &content.bytes()?).with_context(|| format!("file {path}"))?;
        }
        match &spec.stdin {
            Some(content) => write_new(&self.stdin(), &content.bytes()?).context("stdin"),
            None => Ok(()),
        }
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
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
