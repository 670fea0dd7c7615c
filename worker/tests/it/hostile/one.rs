//! Pid 1, which watches over the task and has the same user for the kernel.

use super::*;

#[test]
fn a_task_cannot_signal_pid_1_by_any_call() {
    let ground = Ground::new(&[]);
    let seen = ground.tries(
        r#"
import threading
info = ctypes.create_string_buffer(128)
info[8:12] = (-1).to_bytes(4, "little", signed=True)
for number in (9, 15, 17, 19, 10):
    attempt(f"kill {number}", lambda: os.kill(1, number))
    attempt(f"tkill {number}", lambda: call("tkill", 1, number))
    attempt(f"tgkill {number}", lambda: call("tgkill", 1, 1, number))
    attempt(f"queue {number}", lambda: call("rt_sigqueueinfo", 1, number, info))
    attempt(f"queue to thread {number}", lambda: call("rt_tgsigqueueinfo", 1, 1, number, info))
def by_descriptor():
    signal.pidfd_send_signal(call("pidfd_open", 1, 0), 9)
attempt("by a descriptor", by_descriptor)
import fcntl
near, far = socket.socketpair()
for owner in (1, -1):
    attempt(f"owner of a file {owner}", lambda: fcntl.fcntl(near, fcntl.F_SETOWN, owner))
attempt("owner by a pointer", lambda: fcntl.fcntl(near, 15, (1).to_bytes(4, "little") * 2))
attempt("owner by ioctl", lambda: fcntl.ioctl(near, 0x8901, (1).to_bytes(4, "little")))
attempt("owner of a socket by ioctl", lambda: fcntl.ioctl(near, 0x8902, (1).to_bytes(4, "little")))
attempt("its group", lambda: os.setpgid(0, 1))
"#,
        &[],
    );
    all_are(&seen, "EPERM", 32);
}

#[test]
fn a_task_cannot_change_what_pid_1_may_use() {
    let ground = Ground::new(&[]);
    let seen = ground.tries(
        r#"
import resource
limits = lambda: read("/proc/1/limits") if os.path.exists("/proc/1/limits") else b""
def looked_at():
    return [os.getpriority(os.PRIO_PROCESS, 1), sorted(os.sched_getaffinity(1)), os.sched_getscheduler(1), limits()]
before = looked_at()
for kind in range(16):
    attempt(f"limit {kind}", lambda: resource.prlimit(1, kind, (0, 0)))
attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt("nice of its group", lambda: os.setpriority(os.PRIO_PGRP, 1, 19))
attempt("nice of the user", lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt("nice of user 1000", lambda: os.setpriority(os.PRIO_USER, 1000, 19))
attempt("one processor", lambda: os.sched_setaffinity(1, {0}))
attempt("idle", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
attempt("parameters", lambda: os.sched_setparam(1, os.sched_param(0)))
attempt("attributes", lambda: call("sched_setattr", 1, ctypes.create_string_buffer(b"\x30\0\0\0\5", 48), 0))
for which in (1, 2, 3):
    attempt(f"idle disk {which}", lambda: call("ioprio_set", which, 1, 3 << 13))
attempt("idle disk of the user", lambda: call("ioprio_set", 3, 0, 3 << 13))
assert looked_at() == before, (before, looked_at())
"#,
        &[],
    );
    all_are(&seen, "EPERM", 28);
}

#[test]
fn pid_1_is_not_in_the_tasks_group_or_session() {
    let ground = Ground::new(&[]);
    let token = token();
    let code = r#"
print(os.getpgid(0) != os.getpgid(1) and os.getsid(0) != os.getsid(1), flush=True)
before = os.getpriority(os.PRIO_PROCESS, 1)
os.setpriority(os.PRIO_PGRP, 0, 19)
print(os.getpriority(os.PRIO_PROCESS, 1) - before, flush=True)
subprocess.Popen(["setsid", "sleep", sys.argv[1]])
os.killpg(0, signal.SIGKILL)
"#;
    let lease = ground.send(code, &[&token]);
    let outcome = ground.peer.report(&lease)["outcome"].clone();
    assert_eq!(outcome, json!({"signalled": {"signal": 9}}), "{}", ground.peer.stderr(&lease));
    assert_eq!(ground.peer.stdout(&lease), "True\n0\n", "{}", ground.peer.stderr(&lease));
    assert!(!ground.peer.stderr(&lease).contains("watched over"), "pid 1 was killed with it");
    assert_eq!(crate::run::processes(&token), [0; 0]);
}

#[test]
fn a_signal_to_everybody_reaches_only_the_task_itself() {
    let ground = Ground::new(&[]);
    let token = token();
    let code = r#"
sleeper = subprocess.Popen(["setsid", "sleep", sys.argv[1]])
if os.fork() == 0:
    os.setsid()
    for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGUSR1):
        os.kill(-1, number)
    os._exit(0)
signal.pause()
"#;
    let lease = ground.send(code, &[&token]);
    // Pid 1 is well, or it could not tell how its task ended.
    assert_eq!(ground.peer.report(&lease)["outcome"], json!({"signalled": {"signal": 10}}));
    assert_eq!(crate::run::processes(&token), [0; 0]);
    assert!(!ground.peer.stderr(&lease).contains("watched over"), "{}", ground.peer.stderr(&lease));
}

#[test]
fn a_task_cannot_trace_follow_or_write_to_pid_1() {
    let seen = Ground::new(&[]).tries(
        r#"
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
space = ctypes.create_string_buffer(64)
ours = Vector(ctypes.addressof(space), 64)
theirs = Vector(0x400000, 64)
for name in ("mem", "stack", "syscall", "pagemap"):
    attempt(name, lambda: read(f"/proc/1/{name}"))
for name in ("root", "cwd", "map_files", "root/workspace", "cwd/.."):
    attempt(f"list {name}", lambda: os.listdir(f"/proc/1/{name}"))
attempt("read its memory", lambda: call("process_vm_readv", 1, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0))
attempt("write its memory", lambda: call("process_vm_writev", 1, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0))
attempt("attach", lambda: call("ptrace", 16, 1, 0, 0))
attempt("seize", lambda: call("ptrace", 0x4206, 1, 0, 0))
attempt("be traced", lambda: call("ptrace", 0, 0, 0, 0))
attempt("take its files", lambda: call("pidfd_getfd", 0, 0, 0))
# Inside gVisor its name can be written, and a number that nothing reads: nobody is ended there for want of memory.
for name in ("coredump_filter", "timerslack_ns", "autogroup", "clear_refs", "setgroups", "mem") + (() if GVISOR else ("comm", "oom_score_adj")):
    attempt(f"write {name}", lambda: written(f"/proc/1/{name}"))
def mapped(name):
    with open(f"/proc/1/{name}", "w") as file:
        file.write("0 0 1")
attempt("map users", lambda: mapped("uid_map"))
attempt("map groups", lambda: mapped("gid_map"))
"#,
        &[],
    );
    all_fail(&seen, 23);
    for call in ["read its memory", "write its memory", "attach", "seize", "be traced", "take its files"] {
        assert_eq!(seen[call], "EPERM", "{call}");
    }
}

/// Linux closes all this, because pid 1 is not dumpable; gVisor does not, and then it must hold nothing.
#[test]
fn a_task_finds_no_secret_and_no_socket_in_pid_1() {
    let ground = Ground::new(&[]);
    let lease = ground.send(
        r#"
def shown(name):
    try:
        with open(f"/proc/1/{name}", "rb") as file:
            return file.read(1 << 16).decode(errors="replace")
    except OSError:
        return ""
opened = []
# Its look at the task's own processes and files takes files, too.
own = {os.stat(place).st_dev for place in ("/proc", "/workspace", "/tmp", "/home/task")}
for number in range(256):
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        try:
            file = os.open(f"/proc/1/fd/{number}", flags | os.O_NONBLOCK)
        except OSError:
            continue
        kind = os.fstat(file)
        if stat.S_IFMT(kind.st_mode) in (stat.S_IFREG, stat.S_IFDIR) and kind.st_dev in own:
            continue
        if not stat.S_ISFIFO(kind.st_mode) and not (stat.S_ISCHR(kind.st_mode) and kind.st_rdev == os.stat("/dev/null").st_rdev):
            opened.append(f"{number}: {oct(kind.st_mode)}")
print(json.dumps({"environ": shown("environ").replace("\0", ""), "opened": str(opened), "maps": str("worker/attempts" in shown("maps")),
                  "cmdline": shown("cmdline").replace("\0", " ")}))
"#,
        &[],
    );
    let seen = ground.seen(&lease);
    assert!(["", "PWD=/workspace"].contains(&seen["environ"].as_str()), "{seen:?}");
    assert_eq!((seen["opened"].as_str(), seen["maps"].as_str()), ("[]", "False"), "{seen:?}");
    assert_eq!(seen["cmdline"], "/run/cw/init init ");
}

#[test]
fn a_task_may_still_tend_its_own_processes() {
    let seen = Ground::new(&[]).tries(
        r#"
import fcntl, resource
child = subprocess.Popen(["sleep", "600"])
attempt("its own nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, 19))
attempt("a child's nice", lambda: os.setpriority(os.PRIO_PROCESS, child.pid, 19))
attempt("its group's nice", lambda: os.setpriority(os.PRIO_PGRP, 0, 19))
attempt("its own processors", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))
attempt("its own limits", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
attempt("a file's signals", lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid()))
attempt("end a child", lambda: child.kill())
attempt("wait for it", lambda: child.wait(10))
"#,
        &[],
    );
    assert!(seen.values().all(|came| came.starts_with("ok")), "{seen:?}");
    assert_eq!(seen["wait for it"], "ok: -9");
}
