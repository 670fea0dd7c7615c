//! Where the measured programs keep their data, and how long an fsync takes there. On a memory file system every fsync
//! is made to take one millisecond by a preloaded library, so that figures are comparable from run to run.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;

use crate::options::Kind;
use crate::process::Process;

/// How long every fsync takes on a memory file system.
const FSYNC_US: &str = "1000";

const LIBRARY: &str = "slow_fsync.so";
const SOURCE: &str = include_str!("../preload/slow_fsync.c");

/// What `statfs` says of a memory file system.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A directory for the data of this run; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Disk {
    root: TempDir,
    preload: Option<TempDir>,
}

impl Disk {
    /// Makes a directory below `parent`, or below the usual place of that kind of disk.
    pub(crate) fn open(kind: Kind, parent: Option<&Path>) -> Result<Self> {
        let parent = match (parent, kind) {
            (Some(parent), _) => parent.to_owned(),
            (None, Kind::Tmpfs) => PathBuf::from("/dev/shm"),
            (None, Kind::Real) => std::env::current_exe()?.parent().context("no directory of this program")?.to_owned(),
        };
        if kind == Kind::Tmpfs {
            check_tmpfs(&parent)?;
        }
        let preload = if kind == Kind::Tmpfs { Some(compile_preload()?) } else { None };
        let root = readable(tempfile::Builder::new().prefix("cw-bench-").tempdir_in(&parent))
            .with_context(|| format!("making a directory in {}", parent.display()))?;
        Ok(Self { root, preload })
    }

    /// A new directory for one program.
    pub(crate) fn room(&self, name: &str) -> Result<TempDir> {
        readable(tempfile::Builder::new().prefix(name).tempdir_in(&self.root)).context("making a data directory")
    }

    /// A program that will keep its data on this disk.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment());
        command
    }

    /// What a program needs in its environment for the slow fsync.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let library = self.library().map(|directory| directory.join(LIBRARY).display().to_string());
        library.map_or(Vec::new(), |library| vec![("LD_PRELOAD", library), ("CW_FSYNC_US", FSYNC_US.to_owned())])
    }

    /// The directory of the preloaded library.
    pub(crate) fn library(&self) -> Option<&Path> {
        self.preload.as_ref().map(TempDir::path)
    }

    /// Refuses to measure a program in which the slow fsync is not in force.
    pub(crate) fn check(&self, process: &Process) -> Result<()> {
        let is_slow = self.preload.is_none() || process.maps(LIBRARY)?;
        ensure!(is_slow, "the preloaded {LIBRARY} is not in force: is the program static, or cannot it read /tmp?");
        Ok(())
    }

    /// What a reader of the figures must know of this disk.
    pub(crate) fn describe(&self) -> String {
        match self.preload {
            Some(_) => format!("tmpfs, every fsync takes {FSYNC_US} µs (preloaded library)"),
            None => format!("the real disk below {}", self.root.path().parent().unwrap_or(Path::new("/")).display()),
        }
    }
}

fn check_tmpfs(parent: &Path) -> Result<()> {
    let found = rustix::fs::statfs(parent).with_context(|| format!("looking at {}", parent.display()))?;
    if found.f_type != TMPFS_MAGIC {
        bail!("{} is not a tmpfs: mount one (`mount -t tmpfs tmpfs DIR`) and give it with --dir", parent.display());
    }
    Ok(())
}

/// Lets another user in: PostgreSQL does not run as root.
fn readable(made: std::io::Result<TempDir>) -> std::io::Result<TempDir> {
    let directory = made?;
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
    Ok(directory)
}

/// Not on the memory file system itself, which is often mounted without leave to execute.
fn compile_preload() -> Result<TempDir> {
    let directory = readable(tempfile::tempdir()).context("making a directory for the preloaded library")?;
    let source = directory.path().join("slow_fsync.c");
    fs::write(&source, SOURCE)?;
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-shared", "-fPIC", "-o"])
        .arg(directory.path().join(LIBRARY))
        .arg(&source)
        .arg("-ldl")
        .output()
        .context("running cc, which makes the slow fsync: apt-get install gcc libc6-dev")?;
    ensure!(output.status.success(), "cc failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(directory)
}
