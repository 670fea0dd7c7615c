//! Tries the walls from inside, as the task that a probe runs: every line says what was tried and what came of it.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, getuid};
use serde::{Deserialize, Serialize};

use super::{Inside, apply};

mod bare;

/// One wall, and whether it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tried {
    /// Its name.
    pub(crate) layer: String,
    /// Whether it stands.
    pub(crate) holds: bool,
    /// What was seen.
    pub(crate) seen: String,
}

/// What is tried, and what must come of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sight {
    /// From inside of namespaces; an address outside that must not answer.
    Inside(SocketAddr),
    /// Without them.
    Bare(Bare),
}

/// A place without namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bare {
    /// An address that must not answer.
    pub(crate) bait: SocketAddr,
    /// What is the task's own.
    pub(crate) inside: Inside,
    /// The user that is the task's alone, if there is one.
    pub(crate) uid: Option<u32>,
    /// Directories that must be closed to it.
    pub(crate) closed: Vec<String>,
    /// Files of the worker's whose modes it must not change.
    pub(crate) changeable: Vec<String>,
}

/// Tries all walls of a place. Prints JSON.
#[allow(clippy::print_stdout, reason = "this is what the probe reads")]
pub(crate) fn run(sight: &str) -> ExitCode {
    let Ok(sight) = serde_json::from_str(sight) else {
        eprintln!("cw-worker: this is started by `cw-worker doctor`, not by hand");
        return ExitCode::FAILURE;
    };
    let tried = match sight {
        Sight::Inside(bait) => inside(bait),
        Sight::Bare(bare) => bare::all(&bare),
    };
    match serde_json::to_string(&tried) {
        Ok(json) => println!("{json}"),
        Err(_) => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}

fn inside(bait: SocketAddr) -> Vec<Tried> {
    vec![uid(), processes(), capabilities(), seccomp(&REFUSED), landlock(), rlimits(), files(), network(bait)]
}

fn tried(layer: &str, holds: bool, seen: impl Into<String>) -> Tried {
    Tried { layer: layer.into(), holds, seen: seen.into() }
}

fn uid() -> Tried {
    let uid = getuid().as_raw();
    tried("uid", uid == 1000, format!("the task is user {uid} inside"))
}

fn processes() -> Tried {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let count = pids.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).count();
    let reads_init = File::open("/proc/1/mem").is_ok();
    tried("namespaces", count == 2 && !reads_init, format!("it sees {count} processes, one its own"))
}

fn capabilities() -> Tried {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or("");
    let none = field("CapEff:").trim_start_matches('0').is_empty();
    // Where /proc does not say (gVisor), the call itself does.
    let fixed = rustix::thread::no_new_privs().unwrap_or(false);
    tried("privileges", none && fixed, format!("capabilities {}, no-new-privs {fixed}", field("CapEff:")))
}

/// A call, and how it is refused.
type Call = (&'static str, libc::c_long, Errno);

/// Calls that a kernel without our filter does, or refuses in other words.
const REFUSED: [Call; 6] = [
    ("io_uring", libc::SYS_io_uring_setup, Errno::PERM),
    ("bpf", libc::SYS_bpf, Errno::PERM),
    ("keyctl", libc::SYS_keyctl, Errno::PERM),
    ("userfaultfd", libc::SYS_userfaultfd, Errno::PERM),
    ("ptrace", libc::SYS_ptrace, Errno::PERM),
    ("clone3", libc::SYS_clone3, Errno::NOSYS),
];

fn seccomp(calls: &[Call]) -> Tried {
    let is_open = |(_, number, expected): &&Call| {
        apply::try_call(*number).err().and_then(|error| Errno::from_io_error(&error)) != Some(*expected)
    };
    let mut open: Vec<&str> = calls.iter().filter(is_open).map(|(name, ..)| *name).collect();
    if unshare(CloneFlags::CLONE_NEWUSER) != Err(nix::errno::Errno::EPERM) {
        open.push("unshare");
    }
    let tried_names = calls.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
    let seen = match open.as_slice() {
        [] => format!("refused: new user namespace, {tried_names}"),
        open => format!("not refused: {}", open.join(", ")),
    };
    tried("seccomp", open.is_empty(), seen)
}

/// The one thing that nothing else forbids: a process may write its own name, unless /proc is closed for writing.
fn landlock() -> Tried {
    let written = File::options().write(true).open("/proc/self/comm");
    let is_refused = written.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
    let seen = if is_refused { "writing below /proc is refused" } else { "the kernel has none, or it is off" };
    tried("landlock", is_refused, seen)
}

fn rlimits() -> Tried {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let mut open = Vec::new();
    while open.len() < 4096 {
        match File::open("/dev/null") {
            Ok(file) => open.push(file),
            Err(_) => break,
        }
    }
    let count = open.len() as u64;
    tried("rlimits", count < limit, format!("{count} files opened of {limit}"))
}

fn files() -> Tried {
    let writes: Vec<&str> = ["/x", "/usr/x", "/etc/x", "/task/x", "/proc/sys/kernel/core_pattern", "/sys/x"]
        .into_iter()
        .filter(can_write)
        .collect();
    let own = ["/workspace/x", "/tmp/x", "/home/task/x"].iter().all(can_write);
    let shadow = File::open("/etc/shadow").is_ok();
    let seen = if writes.is_empty() { "only its own directories are writable".to_owned() } else { writes.join(", ") };
    tried("files", writes.is_empty() && own && !shadow, seen)
}

fn can_write(path: &&str) -> bool {
    File::options().write(true).create(!path.starts_with("/proc")).truncate(false).open(path).is_ok()
}

fn network(bait: SocketAddr) -> Tried {
    let answers = TcpStream::connect_timeout(&bait, Duration::from_millis(300)).is_ok();
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default().lines().skip(1).count();
    let seen = format!("{routes} routes, the host's loopback {}", if answers { "answers" } else { "does not answer" });
    tried("network", !answers && routes == 0, seen)
}
