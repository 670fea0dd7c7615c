//! A mount namespace of its own, held by a process that does nothing: disks can be made small, full or read-only there, and
//! nothing of it is left on the machine when the test ends, however it ends.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A namespace with one directory on which something may be mounted.
pub struct Mounts {
    _room: TempDir,
    directory: PathBuf,
    holder: Child,
}

impl Mounts {
    /// Makes the namespace and runs a script in it, in which `$1` is the directory.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub async fn make(script: &str) -> anyhow::Result<Self> {
        let room = tempfile::tempdir()?;
        let directory = room.path().join("disk");
        std::fs::create_dir(&directory)?;
        let kind = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
        let script = format!("set -e; {script}; echo ready; exec sleep 3600");
        let mut command = Command::new("unshare");
        command.args([kind, "sh", "-c", &script, "sh"]).arg(&directory).stdout(Stdio::piped()).kill_on_drop(true);
        let mut holder = command.spawn().context("starting unshare (of the package util-linux)")?;
        let said = holder.stdout.take().context("unshare has no output")?;
        let ready = BufReader::new(said).lines().next_line().await?;
        ensure!(ready.as_deref() == Some("ready"), "mounting needs root or user namespaces: `{script}` failed");
        Ok(Self { _room: room, directory, holder })
    }

    /// A disk in memory with room for that many MiB, which `free` frees the rest of.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub async fn small_disk(megabytes: u32) -> anyhow::Result<Self> {
        let filler = 64 - megabytes;
        let mount = "mount -t tmpfs -o size=64m none \"$1\"";
        Self::make(&format!("{mount}; head -c {filler}M /dev/zero > \"$1\"/filler")).await
    }

    /// Takes the last byte of the disk.
    ///
    /// # Errors
    /// When there is room all the same.
    pub async fn fill(&self) -> anyhow::Result<()> {
        self.run("if cat /dev/zero > \"$1\"/filler-2; then exit 1; fi 2>/dev/null").await
    }

    /// Makes room again.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn free(&self) -> anyhow::Result<()> {
        self.run("rm -f \"$1\"/filler*").await
    }

    /// The directory, as it is called inside.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How to reach a path of the inside from the outside.
    #[must_use]
    pub fn seen(&self, inside: &Path) -> PathBuf {
        let root = format!("/proc/{}/root", self.pid());
        Path::new(&root).join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// What stands before a command that is to run inside; it keeps its pid.
    #[must_use]
    pub fn launcher(&self) -> Vec<String> {
        let mut words = vec!["nsenter".to_owned(), "-t".into(), self.pid().to_string(), "-m".into()];
        if !rustix::process::geteuid().is_root() {
            words.extend(["-U".into(), "--preserve-credentials".into()]);
        }
        words
    }

    /// Runs a script inside, in which `$1` is the directory.
    ///
    /// # Errors
    /// When it fails.
    pub async fn run(&self, script: &str) -> anyhow::Result<()> {
        let launcher = self.launcher();
        let mut command = Command::new(&launcher[0]);
        command.args(&launcher[1..]).args(["sh", "-ec", script, "sh"]).arg(&self.directory);
        let status = command.status().await?;
        ensure!(status.success(), "`{script}` failed: {status}");
        Ok(())
    }

    fn pid(&self) -> u32 {
        self.holder.id().unwrap_or_default()
    }
}
