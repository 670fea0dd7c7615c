//! Plain objects as files below `plain/`. Each is a copy, because who edits it in place must not change a blob. Links are
//! neither made nor followed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::{Directory, random};
use crate::objects::plain::Plain;

impl Directory {
    fn plain_root(&self) -> PathBuf {
        self.root.join("plain")
    }

    pub(in crate::objects) fn publish(&self, blob: &str, name: &str) -> io::Result<Plain> {
        let draft = self.root.join("incoming").join(random()?);
        let target = self.plain_root().join(name);
        let done = self.copy(blob, &draft).and_then(|()| {
            make_way(&self.plain_root(), &target)?;
            fs::rename(&draft, &target)?;
            described(&target, name.to_owned())
        });
        if done.is_err() {
            let _ = fs::remove_file(&draft);
        }
        done
    }

    fn copy(&self, blob: &str, to: &Path) -> io::Result<()> {
        let mut from = self.read(blob, 0)?;
        let mut to = OpenOptions::new().create_new(true).write(true).mode(0o600).open(to)?;
        // Where the file system can share the bytes, a copy costs nothing; elsewhere the kernel copies.
        io::copy(&mut from, &mut to).map(|_| ())
    }

    pub(in crate::objects) fn unpublish(&self, name: &str) -> io::Result<()> {
        let target = self.plain_root().join(name);
        if passes_link(&self.plain_root(), &target) {
            return Ok(());
        }
        match fs::remove_file(&target) {
            // A folder of this name has what came later.
            Err(error) if is_absent(&error) || error.kind() == io::ErrorKind::IsADirectory => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                self.remove_empty(target.parent());
                Ok(())
            }
        }
    }

    /// Folders exist only for what is in them.
    fn remove_empty(&self, mut folder: Option<&Path>) {
        while let Some(path) = folder.filter(|path| *path != self.plain_root()) {
            if fs::remove_dir(path).is_err() {
                return;
            }
            folder = path.parent();
        }
    }

    pub(in crate::objects) fn published(&self, folder: &str) -> io::Result<Vec<Plain>> {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(self.plain_root().join(&folder)) {
                Err(error) if is_absent(&error) => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                let (name, kind) = (format!("{folder}/{name}"), entry.file_type()?);
                if kind.is_dir() {
                    folders.push(name);
                } else if kind.is_file() {
                    found.push(described(&entry.path(), name)?);
                }
            }
        }
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    pub(in crate::objects) fn open_plain(&self, plain: &Plain) -> io::Result<File> {
        let path = self.plain_root().join(&plain.name);
        if passes_link(&self.plain_root(), &path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = File::open(path)?;
        if tag(&file.metadata()?) == plain.tag {
            return Ok(file);
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("somebody wrote {} meanwhile", plain.name)))
    }
}

fn described(path: &Path, name: String) -> io::Result<Plain> {
    let about = fs::symlink_metadata(path)?;
    Ok(Plain { name, size: about.len(), tag: tag(&about) })
}

fn tag(about: &fs::Metadata) -> String {
    format!("{}.{:09}-{}", about.mtime(), about.mtime_nsec(), about.ino())
}

/// Makes the folders on the way to a file. What is in the way is older than the file: the last state wins.
fn make_way(root: &Path, target: &Path) -> io::Result<()> {
    let folder = target.parent().unwrap_or(root);
    let mut way = root.to_path_buf();
    for part in folder.strip_prefix(root).map_err(io::Error::other)? {
        way.push(part);
        match fs::symlink_metadata(&way) {
            Ok(about) if !about.is_dir() => fs::remove_file(&way)?,
            Ok(_) | Err(_) => {}
        }
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    match fs::symlink_metadata(target) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(target),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether the way to a file, or the file, is a link that somebody put there.
fn passes_link(root: &Path, target: &Path) -> bool {
    let below = target.ancestors().take_while(|path| *path != root);
    below.into_iter().any(|path| fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink()))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
