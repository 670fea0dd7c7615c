//! The state directory: one worker at a time, swept at each start. An empty one is a correct start.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::confinement::etc;
use crate::confinement::limits::SPARE_BYTES;
use crate::{directory, random};

const LOCK: &str = "lock";
const DOCTOR: &str = "doctor-";

/// Beside the attempts, so that the slots' users reach it, too.
pub(crate) const ETC: &str = ".etc";

/// What to do about a state directory that cannot be used.
const OTHER: &str = "another is chosen by --state-dir or CW_STATE_DIR";

/// A state directory that is ours until this is dropped.
pub(crate) struct StateDir {
    path: PathBuf,
    _lock: File,
}

impl StateDir {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        let shown = path.display();
        builder.create(path).with_context(|| format!("cannot make state directory {shown} ({OTHER})"))?;
        let lock = lock(path)?;
        let state = Self { path: path.to_path_buf(), _lock: lock };
        builder
            .create(state.attempts())
            .with_context(|| format!("cannot write to state directory {shown} ({OTHER})"))?;
        if rustix::process::getuid().is_root() {
            // The slots' users come in here, to what they know the name of; nobody else comes this far.
            fs::set_permissions(state.attempts(), fs::Permissions::from_mode(0o711))?;
        }
        state.copy_program().with_context(|| format!("cannot copy this program to {}", path.display()))?;
        Ok(state)
    }

    /// Lets the slots' users come through to their attempts, where no mounts bring these to them. Nothing can be listed on
    /// the way, and what else is there stays closed.
    pub(crate) fn open_way(&self, whole: &Path) -> anyhow::Result<()> {
        if !rustix::process::getuid().is_root() {
            return Ok(());
        }
        for path in [whole, &self.path] {
            let mode = fs::metadata(path)?.permissions().mode();
            fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o011))
                .with_context(|| format!("cannot open state directory {} to tasks", path.display()))?;
        }
        Ok(())
    }

    /// This program as each attempt's pid 1: its own file may be replaced, or out of reach for the slot's user.
    pub(crate) fn init(&self) -> PathBuf {
        self.path.join("init")
    }

    fn copy_program(&self) -> std::io::Result<()> {
        let new = self.path.join("init.new");
        let _ = fs::remove_file(&new);
        fs::copy("/proc/self/exe", &new)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
        fs::rename(new, self.init())
    }

    /// Starts the copy, to see that programs can be run from here.
    pub(crate) fn run_program(&self) -> anyhow::Result<()> {
        let started = std::process::Command::new(self.init()).arg("--version").env_clear().output();
        started.with_context(|| format!("cannot run programs from {}", self.path.display()))?;
        Ok(())
    }

    /// Where attempts have their directories.
    pub(crate) fn attempts(&self) -> PathBuf {
        self.path.join("attempts")
    }

    /// The /etc that all tasks are shown.
    pub(crate) fn etc(&self) -> PathBuf {
        self.attempts().join(ETC)
    }

    /// Makes that /etc anew.
    pub(crate) fn make_etc(&self) -> anyhow::Result<()> {
        let place = self.etc();
        if fs::exists(&place)? {
            directory::remove(&place)?;
        }
        etc::make(&place).with_context(|| format!("cannot make {}", place.display()))
    }

    /// Writes and deletes a small file, to see that it can be done.
    pub(crate) fn probe(&self) -> std::io::Result<()> {
        let path = self.path.join("probe");
        File::create(&path)?.write_all(b"writable\n")?;
        fs::remove_file(path)
    }

    /// What is missing until the disk has the room that stays free: below that no task is taken.
    pub(crate) fn lacks_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.path).ok()?;
        // One that does not say how large it is does not say either how much is free.
        let free = (disk.f_blocks > 0).then_some(disk.f_bavail * disk.f_frsize)?;
        SPARE_BYTES.checked_sub(free).filter(|lacking| *lacking > 0)
    }

    /// Removes what attempts of an earlier start left, and doctors that were killed midway.
    pub(crate) fn sweep(&self) -> anyhow::Result<()> {
        let attempts = self.attempts();
        let entries = fs::read_dir(&attempts).with_context(|| format!("cannot read {}", attempts.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path != self.etc() {
                remove(&path);
            }
        }
        sweep_doctors(&self.path);
        Ok(())
    }
}

/// Where a doctor works: a state directory of its own below the worker's.
pub(crate) fn place_of_doctor(state: &Path) -> anyhow::Result<PathBuf> {
    Ok(state.join(format!("{DOCTOR}{:016x}", random::bits()? >> 64)))
}

/// Removes what dead doctors left below a state directory.
pub(crate) fn sweep_doctors(state: &Path) {
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    let doctors = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(DOCTOR));
    for path in doctors.map(|entry| entry.path()).filter(|path| is_abandoned(path)) {
        remove(&path);
    }
}

/// Whether somebody held it and does not any more: who holds the lock writes down who it is.
fn is_abandoned(path: &Path) -> bool {
    let lock = File::options().read(true).write(true).open(path.join(LOCK));
    lock.is_ok_and(|lock| lock.metadata().is_ok_and(|file| file.len() > 0) && lock.try_lock().is_ok())
}

fn remove(path: &Path) {
    if let Err(error) = directory::remove(path) {
        tracing::warn!("cannot remove {}: {error}", path.display());
    }
}

fn lock(path: &Path) -> anyhow::Result<File> {
    let file = path.join(LOCK);
    let mut lock = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&file)
        .with_context(|| format!("cannot write to state directory {} ({OTHER})", path.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let mut holder = String::new();
            lock.read_to_string(&mut holder).unwrap_or_default();
            let holder = holder.trim();
            bail!(
                "state directory {} is in use by a worker (pid {holder}): give each its own --state-dir",
                path.display()
            );
        }
        Err(fs::TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", file.display()));
        }
    }
    lock.set_len(0)?;
    writeln!(lock, "{}", std::process::id()).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(lock)
}
