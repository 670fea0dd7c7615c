//! The directory in which everything is kept: made private, and held by one coordinator at a time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// The directory, as long as this coordinator holds it.
pub struct StateDir {
    path: PathBuf,
    lock: File,
}

impl StateDir {
    /// Makes the directory if need be, and takes it.
    ///
    /// # Errors
    /// When it cannot be made or written, or when another coordinator holds it: then it says which.
    pub fn take(path: &Path) -> anyhow::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).with_context(|| {
            format!("making the state directory {}; choose another with CW_STATE_DIR", path.display())
        })?;
        let file = path.join("coordinator.json");
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&file)
            .with_context(|| {
                format!("the state directory {} cannot be written; check its owner and mode, or choose another with CW_STATE_DIR", path.display())
            })?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), lock }),
            Err(std::fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder);
                bail!("another coordinator holds {}: {}", path.display(), described(&holder));
            }
            Err(std::fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("locking {}", file.display()))
            }
        }
    }

    /// Says, for other programs, who runs here and where it listens.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn announce(&mut self, listen: &str, worker_listen: Option<&str>) -> anyhow::Result<()> {
        let holder = serde_json::json!({"pid": std::process::id(), "listen": listen, "worker_listen": worker_listen});
        let write = |lock: &mut File| {
            lock.rewind()?;
            lock.set_len(0)?;
            writeln!(lock, "{holder}")
        };
        write(&mut self.lock).with_context(|| format!("writing {}", self.path.join("coordinator.json").display()))
    }

    /// Says, for other programs, that nobody runs here any more.
    pub fn leave(self) {
        // A file that is left says what a crash would have left; nobody trusts it without the lock.
        let _ = self.lock.set_len(0);
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        database(&self.path)
    }

    /// The files of tasks.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.path.join("objects")
    }

    /// The admin's key.
    #[must_use]
    pub fn admin_key(&self) -> PathBuf {
        self.path.join("admin.key")
    }
}

/// Where the database is.
#[must_use]
pub fn database(state_dir: &Path) -> PathBuf {
    state_dir.join("queue.db")
}

fn described(holder: &str) -> String {
    let Ok(holder) = serde_json::from_str::<serde_json::Value>(holder) else {
        return "it has only just started".into();
    };
    let listen = holder["listen"].as_str().unwrap_or("an unknown address");
    format!("pid {}, listening on {listen}. Stop it first, or choose another CW_STATE_DIR", holder["pid"])
}

/// Writes a secret into a file that only its owner can read; the file appears whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub fn write_secret(path: &Path, secret: &str) -> anyhow::Result<()> {
    let partial = path.with_extension("partial");
    let _ = std::fs::remove_file(&partial);
    let write = || {
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&partial)?;
        writeln!(file, "{secret}")?;
        file.sync_all()?;
        std::fs::rename(&partial, path)
    };
    write().with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests;
