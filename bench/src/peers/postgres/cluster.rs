//! A PostgreSQL cluster of our own, with its files on the measured disk and the settings that Debian gives it.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio_postgres::{Config, NoTls};

use crate::disk::Disk;
use crate::peers::version;
use crate::process::{Process, free_address};

const USER: &str = "bench";

/// A running cluster.
pub(super) struct Cluster {
    pub(super) version: String,
    pub(super) config: Config,
    _process: Process,
    _data: TempDir,
}

impl Cluster {
    /// Makes and starts a cluster; `None` when PostgreSQL is not installed.
    pub(super) async fn start(disk: &Disk) -> Result<Option<Self>> {
        let Some((programs, version)) = find_programs()? else { return Ok(None) };
        let (data, address) = (disk.room("postgres")?, free_address()?);
        let owner = unprivileged_user()?;
        if let Some((uid, gid)) = owner {
            chown(data.path(), Some(uid), Some(gid)).context("giving the directory to an unprivileged user")?;
        }
        let files = data.path().join("files");
        initialise(&programs, &files, owner)?;
        let mut command = disk.command(programs.join("postgres"));
        run_as(&mut command, owner).arg("-D").arg(&files).arg("-k").arg(data.path());
        command.args(["-c", "listen_addresses=127.0.0.1", "-p"]).arg(address.port().to_string());
        let mut process =
            Process::start(&mut command, &data.path().join("log"))?.context("PostgreSQL is no longer installed")?;
        // Its word for "end now, without waiting for clients".
        process.ends_by = Signal::INT;
        let mut config = Config::new();
        config.host(address.ip().to_string()).port(address.port()).user(USER).dbname("postgres");
        // It takes connections before it is ready to do anything with them.
        process.wait_for("it was ready", async || config.connect(NoTls).await.ok().map(drop)).await?;
        disk.check(&process)?;
        Ok(Some(Self { version, config, _process: process, _data: data }))
    }
}

/// The directory of the newest installed version's programs, and that version. Debian keeps them out of PATH.
fn find_programs() -> Result<Option<(PathBuf, String)>> {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect())
        .unwrap_or_default();
    found.sort();
    found.push(PathBuf::new());
    for directory in found.into_iter().rev() {
        if let Some(line) = version(&directory.join("postgres").to_string_lossy(), "--version")? {
            let number = line.split(' ').nth(2).unwrap_or_default().to_owned();
            return Ok(Some((directory, number)));
        }
    }
    Ok(None)
}

fn initialise(programs: &Path, files: &Path, owner: Option<(u32, u32)>) -> Result<()> {
    let mut command = Command::new(programs.join("initdb"));
    run_as(&mut command, owner).args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", USER, "-D"]);
    let output = command.arg(files).output().context("running initdb")?;
    ensure!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

fn run_as(command: &mut Command, owner: Option<(u32, u32)>) -> &mut Command {
    if let Some((uid, gid)) = owner {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/")
}

/// Whom PostgreSQL runs as when we are root, which it refuses to be.
fn unprivileged_user() -> Result<Option<(u32, u32)>> {
    if !rustix::process::getuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").context("looking for an unprivileged user")?;
    let ids = |name: &str| {
        let fields: Vec<&str> = users.lines().map(|line| line.split(':').collect()).find(|f: &Vec<_>| f[0] == name)?;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    let found = ids("postgres").or_else(|| ids("nobody")).context("neither user postgres nor nobody exists")?;
    Ok(Some(found))
}
