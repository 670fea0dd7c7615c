//! What this coordinator remembers of its bucket on its own disk: the mark by which it knows its prefix, and uploads in
//! parts that it has begun.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::objects::directory::random;

/// A directory of notes.
#[derive(Clone)]
pub(super) struct Notes(PathBuf);

/// An upload that a crash left: the name of its note, its key and its id.
pub(super) type Left = (String, String, String);

impl Notes {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let notes = Self(root.join("s3"));
        DirBuilder::new().recursive(true).mode(0o700).create(notes.uploads())?;
        Ok(notes)
    }

    fn uploads(&self) -> PathBuf {
        self.0.join("uploads")
    }

    /// Our mark; made at the first call.
    pub(super) fn mark(&self) -> io::Result<String> {
        let path = self.0.join("owner");
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mark = random()?;
                write(&path, &mark)?;
                Ok(mark)
            }
            read => read,
        }
    }

    /// Notes an upload, and says under which name.
    pub(super) fn upload(&self, key: &str, id: &str) -> io::Result<String> {
        let name = random()?;
        write(&self.uploads().join(&name), &format!("{key}\n{id}"))?;
        Ok(name)
    }

    pub(super) fn forget(&self, upload: &str) {
        // One that stays by mistake is aborted once more, which changes nothing.
        let _ = fs::remove_file(self.uploads().join(upload));
    }

    pub(super) fn left(&self) -> io::Result<Vec<Left>> {
        let mut left = Vec::new();
        for entry in fs::read_dir(self.uploads())? {
            let entry = entry?;
            let text = fs::read_to_string(entry.path())?;
            if let (Ok(name), Some((key, id))) = (entry.file_name().into_string(), text.split_once('\n')) {
                left.push((name, key.to_owned(), id.to_owned()));
            }
        }
        Ok(left)
    }
}

/// The file appears whole or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    let parent = path.parent().map(File::open).transpose()?;
    parent.map_or(Ok(()), |parent| parent.sync_all())
}
