//! The same inside gVisor: spawn to exit measured by this program in there, submit to result with a worker in there that
//! reaches the coordinator by a Unix socket of the host. What runs has no network.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::results::{self, Results, Where};
use super::starts::Starts;
use super::walls::{fetched, runsc};
use super::worker::wait_until_listed;
use crate::coordinator::programs::Programs;
use crate::coordinator::{Coordinator, REPO};
use crate::disk::Disk;
use crate::process::Process;

/// Where what is written inside stands: memory that is gone with the sandbox.
const ROOM: &str = "/var/lib/bench";

/// What a container engine leaves root.
const CAPABILITIES: [&str; 14] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
];

/// What was measured in there.
#[derive(Debug, Serialize)]
pub(crate) struct Gvisor {
    pub(super) starts: Vec<Starts>,
    pub(super) results: Results,
}

/// Measures both, in sandboxes of their own.
pub(super) async fn measure(programs: &Programs, disk: &Disk, rounds: u16) -> Result<Gvisor> {
    let sandbox = Sandbox { runsc: runsc()?, rootfs: fetched("rootfs")?, room: disk.room("gvisor")? };
    Ok(Gvisor {
        starts: starts(&sandbox, programs, rounds).await.context("spawn to exit")?,
        results: answers(&sandbox, programs, disk, rounds).await.context("submit to result")?,
    })
}

async fn starts(sandbox: &Sandbox, programs: &Programs, rounds: u16) -> Result<Vec<Starts>> {
    let bench = std::env::current_exe()?;
    // Both programs are built beside each other.
    let mounts = [directory_of(&bench)?];
    let argv = [&bench.display().to_string(), "part", "starts", &programs.worker.display().to_string(), ROOM];
    let argv = argv.iter().map(|&word| word.to_owned()).chain([rounds.to_string()]).collect();
    let command = sandbox.command("starts", &Inside { argv, mounts: &mounts, environment: Vec::new() })?;
    let mut command = tokio::process::Command::from(command);
    let output = command.kill_on_drop(true).output().await.context("running gVisor")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "gVisor ended with {}: {}", output.status, said.trim());
    serde_json::from_slice(&output.stdout).context("reading what was measured")
}

async fn answers(sandbox: &Sandbox, programs: &Programs, disk: &Disk, rounds: u16) -> Result<Results> {
    let shared = disk.room("shared")?;
    let socket = format!("unix:{}", shared.path().join("workers.sock").display());
    let state = disk.room("coordinator")?;
    let coordinator = Coordinator::start_for_workers_at(programs, disk, state.path(), &socket).await?;
    let key_file = shared.path().join("key");
    std::fs::write(&key_file, &coordinator.keys.worker)?;
    let mut mounts = vec![directory_of(&programs.worker)?, shared.path()];
    mounts.extend(disk.library());
    let mut environment = disk.environment();
    environment.extend([
        ("CW_COORDINATOR", socket.clone()),
        ("CW_KEY_FILE", key_file.display().to_string()),
        ("CW_REPO", REPO.to_owned()),
        ("CW_STATE_DIR", ROOM.to_owned()),
    ]);
    let argv = vec![programs.worker.display().to_string(), "run".to_owned()];
    let mut command = sandbox.command("worker", &Inside { argv, mounts: &mounts, environment })?;
    let mut worker = Process::start(&mut command, &sandbox.room.path().join("log"))?.context("unshare is gone")?;
    // The first process of all of gVisor dies with this one.
    worker.ends_by = rustix::process::Signal::KILL;
    wait_until_listed(&mut worker, &coordinator, REPO).await?;
    results::measure(&coordinator, Where::InGvisor, rounds.into()).await
}

fn directory_of(program: &Path) -> Result<&Path> {
    program.parent().with_context(|| format!("{} has no directory", program.display()))
}

/// gVisor, and what it runs on.
struct Sandbox {
    runsc: PathBuf,
    rootfs: PathBuf,
    room: TempDir,
}

/// What runs in there.
struct Inside<'inside> {
    argv: Vec<String>,
    /// Directories that it sees at their own paths.
    mounts: &'inside [&'inside Path],
    environment: Vec<(&'static str, String)>,
}

impl Sandbox {
    /// In a process namespace whose first process dies with whoever is told to end, so no interruption leaves any of it.
    fn command(&self, name: &str, inside: &Inside<'_>) -> Result<std::process::Command> {
        let bundle = self.room.path().join(name);
        std::fs::create_dir(&bundle)?;
        std::fs::write(bundle.join("config.json"), self.config(inside).to_string())?;
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]).arg(&self.runsc);
        command.arg(format!("--root={}", bundle.join("state").display())).arg("--ignore-cgroups");
        command.args(["--network=none", "--platform=systrap", "--host-uds=open", "run"]);
        command.arg(format!("--bundle={}", bundle.display())).arg(format!("bench-{name}"));
        command.stdin(std::process::Stdio::null());
        Ok(command)
    }

    fn config(&self, inside: &Inside<'_>) -> Value {
        let mount = |place: &str, kind: &str, options: &[&str]| json!({"destination": place, "type": kind, "source": kind, "options": options});
        let bind =
            |path: &&Path| json!({"destination": path, "type": "bind", "source": path, "options": ["rbind", "ro"]});
        let mut mounts = vec![
            mount("/proc", "proc", &[]),
            mount("/dev", "tmpfs", &[]),
            mount("/dev/pts", "devpts", &[]),
            mount("/dev/shm", "tmpfs", &["mode=1777"]),
            mount("/sys", "sysfs", &["ro"]),
            mount("/tmp", "tmpfs", &["mode=1777"]),
            mount("/var/lib", "tmpfs", &["mode=1777"]),
        ];
        mounts.extend(inside.mounts.iter().map(bind));
        let environment = inside.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let usual = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp"].map(str::to_owned);
        let namespaces = ["pid", "ipc", "uts", "mount", "network"].map(|kind| json!({"type": kind}));
        json!({
            "ociVersion": "1.0.0",
            "hostname": "gvisor",
            "root": {"path": self.rootfs, "readonly": true},
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": inside.argv,
                "cwd": "/tmp",
                "env": usual.into_iter().chain(environment).collect::<Vec<_>>(),
                "capabilities": {"bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES},
                "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 65536, "soft": 65536}],
            },
            "mounts": mounts,
            "linux": {"namespaces": namespaces},
        })
    }
}
