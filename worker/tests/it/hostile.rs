//! Tasks that try to get out, to look in, to stay or to lie. Each test is one sentence about what a task cannot do: a real
//! program tries it behind the real walls and says what came of every attempt; where it matters, the host is looked at too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::peer::Peer;
use crate::run::{Bench, Running, is_gvisor, token};

mod disk;
mod kernel;
mod leftovers;
mod lies;
mod one;
mod others;
mod secrets;
mod sockets;
mod writes;

/// What came of each attempt: `ok` and what it gave, or the name of the error.
type Seen = BTreeMap<String, String>;

/// Stands before every hostile program in Python: `attempt` notes what came of something, `call` makes any system call.
const PRELUDE: &str = r#"
import ctypes, errno, json, os, signal, socket, stat, subprocess, sys, time

# Inside gVisor some walls stand elsewhere; every Linux has this file.
GVISOR = not os.path.exists("/proc/self/setgroups")
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
seen = {}

def attempt(what, do):
    try:
        got = do()
        seen[what] = "ok" if got is None else f"ok: {got!r}"[:300]
    except OSError as error:
        seen[what] = errno.errorcode.get(error.errno, str(error))
    except subprocess.SubprocessError as error:
        seen[what] = f"failed: {error}"

def call(name, *arguments):
    plain = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = libc.syscall(ctypes.c_long(CALLS[name]), *plain)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

def written(path, flags=os.O_WRONLY):
    os.close(os.open(path, flags))

def made(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

def read(path):
    with open(path, "rb") as file:
        return file.read(100)

def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
"#;

/// The numbers of system calls, which Python does not know.
const CALLS: &[(&str, libc::c_long)] = &[
    ("acct", libc::SYS_acct),
    ("add_key", libc::SYS_add_key),
    ("adjtimex", libc::SYS_adjtimex),
    ("bpf", libc::SYS_bpf),
    ("chroot", libc::SYS_chroot),
    ("clock_settime", libc::SYS_clock_settime),
    ("clone", libc::SYS_clone),
    ("clone3", libc::SYS_clone3),
    ("delete_module", libc::SYS_delete_module),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("finit_module", libc::SYS_finit_module),
    ("fsmount", libc::SYS_fsmount),
    ("fsopen", libc::SYS_fsopen),
    ("init_module", libc::SYS_init_module),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_setup", libc::SYS_io_setup),
    ("ioprio_set", libc::SYS_ioprio_set),
    ("kcmp", libc::SYS_kcmp),
    ("kexec_file_load", libc::SYS_kexec_file_load),
    ("kexec_load", libc::SYS_kexec_load),
    ("keyctl", libc::SYS_keyctl),
    ("mount", libc::SYS_mount),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("move_mount", libc::SYS_move_mount),
    ("name_to_handle_at", libc::SYS_name_to_handle_at),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("open_tree", libc::SYS_open_tree),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("pivot_root", libc::SYS_pivot_root),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("prlimit64", libc::SYS_prlimit64),
    ("ptrace", libc::SYS_ptrace),
    ("quotactl", libc::SYS_quotactl),
    ("reboot", libc::SYS_reboot),
    ("request_key", libc::SYS_request_key),
    ("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo),
    ("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo),
    ("sched_setattr", libc::SYS_sched_setattr),
    ("setdomainname", libc::SYS_setdomainname),
    ("sethostname", libc::SYS_sethostname),
    ("setns", libc::SYS_setns),
    ("setrlimit", libc::SYS_setrlimit),
    ("settimeofday", libc::SYS_settimeofday),
    ("shmat", libc::SYS_shmat),
    ("shmget", libc::SYS_shmget),
    ("swapoff", libc::SYS_swapoff),
    ("swapon", libc::SYS_swapon),
    ("syslog", libc::SYS_syslog),
    ("tgkill", libc::SYS_tgkill),
    ("tkill", libc::SYS_tkill),
    ("umount2", libc::SYS_umount2),
    ("unshare", libc::SYS_unshare),
    ("userfaultfd", libc::SYS_userfaultfd),
];

/// A worker, and tasks for it.
struct Ground {
    /// The first to go: it must not work on where there is nothing any more.
    worker: Running,
    bench: Bench,
    peer: Peer,
}

impl Ground {
    fn new(args: &[&str]) -> Self {
        let (bench, peer) = (Bench::new(), Peer::start());
        let worker = bench.worker(&peer, args);
        Self { worker, bench, peer }
    }

    /// Where nothing is prepared for tasks to come: whatever is found is of this one.
    fn bare(args: &[&str]) -> Self {
        Self::new(&[args, &["--ready", "0"]].concat())
    }

    /// Queues a hostile program.
    fn send(&self, code: &str, args: &[&str]) -> String {
        self.peer.task(json!({"run": {"kind": "python", "code": program(code)}, "args": args, "timeout_s": 60}))
    }

    /// Runs a hostile program to its end; says what came of its attempts.
    fn tries(&self, code: &str, args: &[&str]) -> Seen {
        self.seen(&self.send(&format!("{code}\nprint(json.dumps(seen))"), args))
    }

    /// What the program of this lease printed, once it ended well.
    fn seen(&self, lease: &str) -> Seen {
        let report = self.peer.report(lease);
        let (said, complaint) = (self.peer.stdout(lease), self.peer.stderr(lease));
        assert_eq!(report["outcome"], json!({"exited": {"code": 0}}), "{said}\n{complaint}");
        let last = said.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {said}\n{complaint}"))
    }
}

fn program(code: &str) -> String {
    let calls: Value = CALLS.iter().map(|(name, number)| (name.to_string(), json!(number))).collect();
    format!("CALLS = {calls}\n{PRELUDE}\n{code}")
}

/// Every attempt failed, and there were that many of them.
fn all_fail(seen: &Seen, count: usize) {
    let done: Vec<_> = seen.iter().filter(|(_, came)| came.starts_with("ok")).collect();
    assert!(done.is_empty(), "done: {done:?}");
    assert!(seen.len() >= count, "only {} attempts: {seen:?}", seen.len());
}

/// Every attempt came out like this, and there were that many of them.
fn all_are(seen: &Seen, expected: &str, count: usize) {
    let other: Vec<_> = seen.iter().filter(|(_, came)| *came != expected).collect();
    assert!(other.is_empty(), "not {expected}: {other:?}");
    assert!(seen.len() >= count, "only {} attempts: {seen:?}", seen.len());
}

/// A file of the host that everybody could read, were it not for the walls; gone with this.
struct Bait(PathBuf);

impl Bait {
    /// None where this user cannot write.
    fn lay(directory: &Path, text: &str) -> Option<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = directory.join(format!("cw-bait-{}", token()));
        std::fs::write(&path, text).ok()?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).ok()?;
        Some(Self(path))
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Bait {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
