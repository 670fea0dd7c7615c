//! Doors into the kernel.

use super::*;

#[test]
fn a_task_cannot_make_a_call_that_administers_the_machine() {
    let seen = Ground::new(&[]).tries(
        r#"
text = b"/workspace/x"
attempt("load a module", lambda: call("init_module", text, 12, b""))
attempt("load a module from a file", lambda: call("finit_module", 0, b"", 0))
attempt("remove a module", lambda: call("delete_module", b"loop", 0))
attempt("start another kernel", lambda: call("kexec_load", 0, 0, 0, 0))
attempt("start another kernel from a file", lambda: call("kexec_file_load", 0, 0, 0, b"", 0))
attempt("reboot", lambda: call("reboot", 0xfee1dead, 672274793, 0x89abcdef, 0))
attempt("swap on", lambda: call("swapon", text, 0))
attempt("swap off", lambda: call("swapoff", text))
attempt("accounting", lambda: call("acct", text))
attempt("set the time", lambda: call("settimeofday", (ctypes.c_long * 2)(), 0))
attempt("set the clock", lambda: call("clock_settime", 0, (ctypes.c_long * 2)()))
attempt("adjust the clock", lambda: call("adjtimex", (ctypes.c_long * 64)()))
attempt("name the host", lambda: call("sethostname", b"mine", 4))
attempt("name the domain", lambda: call("setdomainname", b"mine", 4))
attempt("kernel's log", lambda: call("syslog", 3, ctypes.create_string_buffer(100), 100))
attempt("quota", lambda: call("quotactl", 0, 0, 0, 0))
"#,
        &[],
    );
    all_are(&seen, "EPERM", 16);
}

#[test]
fn a_task_cannot_use_the_parts_of_the_kernel_that_few_have_looked_at() {
    let seen = Ground::new(&[]).tries(
        r#"
zeroes = ctypes.create_string_buffer(256)
attempt("io_uring", lambda: call("io_uring_setup", 4, zeroes))
attempt("io_uring_enter", lambda: call("io_uring_enter", 0, 0, 0, 0, 0, 0))
attempt("io_uring_register", lambda: call("io_uring_register", 0, 0, 0, 0))
attempt("bpf", lambda: call("bpf", 0, zeroes, 64))
attempt("keyctl", lambda: call("keyctl", 0, -3, 0, 0, 0))
attempt("add_key", lambda: call("add_key", b"user", b"mine", b"x", 1, -3))
attempt("request_key", lambda: call("request_key", b"user", b"mine", 0, -3))
attempt("userfaultfd", lambda: call("userfaultfd", 1))
attempt("perf events", lambda: call("perf_event_open", zeroes, 0, -1, -1, 0))
attempt("fanotify", lambda: call("fanotify_init", 0, 0))
attempt("handle of a file", lambda: call("name_to_handle_at", -100, b"/", zeroes, zeroes, 0))
attempt("file of a handle", lambda: call("open_by_handle_at", -100, zeroes, 0))
attempt("kcmp", lambda: call("kcmp", os.getpid(), 1, 0, 0, 0))
"#,
        &[],
    );
    all_are(&seen, "EPERM", 13);
}

#[test]
fn a_task_cannot_make_or_enter_a_namespace() {
    let seen = Ground::new(&[]).tries(
        r#"
flags = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
         "pid": 0x20000000, "net": 0x40000000, "time": 0x80, "all": 0x7e020080}
def clone(flag):
    child = call("clone", flag | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
for name, flag in flags.items():
    attempt(f"unshare {name}", lambda: call("unshare", flag))
    attempt(f"clone {name}", lambda: clone(flag))
attempt("clone beside itself", lambda: clone(0x8000))
for name in ("user", "mnt", "net", "pid", "ipc", "uts"):
    def enter():
        opened = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
        call("setns", opened, 0)
    attempt(f"setns {name}", enter)
"#,
        &[],
    );
    all_are(&seen, "EPERM", 25);
}

#[test]
fn a_task_cannot_make_a_namespace_by_clone3_or_by_a_program() {
    let seen = Ground::new(&[]).tries(
        r#"
class Arguments(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in "flags pidfd child parent exit stack size tls set_tid n cgroup".split()]
for name, flag in {"user": 0x10000000, "mount": 0x20000, "none": 0}.items():
    attempt(f"clone3 {name}", lambda: call("clone3", ctypes.byref(Arguments(flags=flag, exit=17)), 88))
for program in (["unshare", "-Ur", "true"], ["unshare", "-m", "true"], ["bwrap", "--ro-bind", "/", "/", "true"],
                ["nsenter", "-t", "1", "-a", "true"]):
    attempt(" ".join(program), lambda: subprocess.run(program, check=True, capture_output=True))
attempt("an ordinary child", lambda: subprocess.run(["true"], check=True))
"#,
        &[],
    );
    let mut seen = seen;
    let ordinary = seen.remove("an ordinary child").unwrap();
    assert!(ordinary.starts_with("ok"), "{ordinary}");
    assert_eq!(seen["clone3 user"], "ENOSYS");
    all_fail(&seen, 7);
}

#[test]
fn a_task_cannot_mount_or_unmount_anything() {
    let seen = Ground::new(&[]).tries(
        r#"
os.mkdir("/workspace/d")
here = b"/workspace/d"
attempt("tmpfs", lambda: call("mount", b"x", here, b"tmpfs", 0, 0))
attempt("proc", lambda: call("mount", b"x", here, b"proc", 0, 0))
attempt("sysfs", lambda: call("mount", b"x", here, b"sysfs", 0, 0))
attempt("cgroup", lambda: call("mount", b"x", here, b"cgroup2", 0, 0))
attempt("overlay", lambda: call("mount", b"x", here, b"overlay", 0, b"lowerdir=/,upperdir=/tmp,workdir=/tmp"))
attempt("bind", lambda: call("mount", b"/", here, b"", 0x1000, 0))
attempt("bind all", lambda: call("mount", b"/", here, b"", 0x5000, 0))
attempt("move", lambda: call("mount", b"/tmp", here, b"", 0x2000, 0))
for place in (b"/", b"/usr", b"/proc", b"/dev", b"/task", b"/etc/passwd", b"/run/cw/init"):
    attempt(f"writable {place}", lambda: call("mount", b"none", place, b"", 0x1020, 0))
    attempt(f"unmount {place}", lambda: call("umount2", place, 2))
attempt("fsopen", lambda: call("fsopen", b"tmpfs", 0))
attempt("fsmount", lambda: call("fsmount", 0, 0, 0))
attempt("open_tree", lambda: call("open_tree", -100, b"/", 1))
attempt("move_mount", lambda: call("move_mount", -100, b"/tmp", -100, here, 0))
attempt("mount_setattr", lambda: call("mount_setattr", -100, b"/", 0, ctypes.create_string_buffer(32), 32))
attempt("chroot", lambda: call("chroot", here))
attempt("pivot_root", lambda: call("pivot_root", here, here))
"#,
        &[],
    );
    all_are(&seen, "EPERM", 29);
}

#[test]
fn a_task_cannot_type_into_a_terminal_nor_get_the_workers() {
    let mut seen = Ground::new(&[]).tries(
        r#"
import fcntl, pty
try:
    master, terminal = pty.openpty()
except OSError:
    # gVisor has none here; then what is asked of a file that is no terminal must be refused all the same.
    master, terminal = None, 0
attempt("type", lambda: fcntl.ioctl(terminal, 0x5412, b"x"))
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p]
def high():
    if libc.ioctl(terminal, 0x100005412, b"x") < 0:
        raise OSError(ctypes.get_errno(), "")
attempt("type, with bits above", high)
attempt("console", lambda: fcntl.ioctl(terminal, 0x541c, b"\x0b"))
attempt("the controlling terminal", lambda: written("/dev/tty", os.O_RDWR))
attempt("its own terminal", lambda: os.write(terminal, b"x") if master else 1)
"#,
        &[],
    );
    assert_eq!(seen.remove("its own terminal").unwrap(), "ok: 1");
    assert_eq!(seen["type"], "EPERM");
    all_fail(&seen, 4);
}

/// The filter knows the numbers of one way to call; another way must not lead around it.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_task_cannot_go_round_the_filter_by_calls_of_other_architectures() {
    let seen = Ground::new(&[]).tries(
        r#"
import mmap
def machine(code):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page))), page
def in_child(code, good):
    child = os.fork()
    if child == 0:
        function, page = machine(code)
        os._exit(0 if good(function()) else 77)
    status = os.waitpid(child, 0)[1]
    if status != 0:
        raise OSError(f"ended with {status}")
mov = lambda number: b"\xb8" + number.to_bytes(4, "little")
is_pid = lambda result: result > 0
attempt("native getpid", lambda: in_child(mov(39) + b"\x0f\x05\xc3", is_pid))
attempt("x32 getpid", lambda: in_child(mov(0x40000000 + 39) + b"\x0f\x05\xc3", is_pid))
attempt("i386 getpid", lambda: in_child(mov(20) + b"\xcd\x80\xc3", is_pid))
"#,
        &[],
    );
    let mut seen = seen;
    assert_eq!(seen.remove("native getpid").unwrap(), "ok");
    all_fail(&seen, 2);
}

/// Places for asynchronous input and output: there are so many on the whole machine, and who takes them all stops others.
#[test]
fn a_task_cannot_take_what_the_whole_machine_has_only_once() {
    let seen = Ground::new(&[]).tries(
        r#"
context = ctypes.c_ulong(0)
attempt("asynchronous input and output", lambda: call("io_setup", 1024, ctypes.byref(context)))
"#,
        &[],
    );
    all_are(&seen, "ENOSYS", 1);
}

/// At a limit of 0, the kernel runs a handler for core dumps that the machine has, as root; at 1 it does not, and for a file
/// both are too little.
#[test]
fn a_task_that_crashes_neither_leaves_a_core_nor_runs_the_machines_handler() {
    let ground = Ground::new(&[]);
    let seen = ground.tries(
        r#"
import resource
limit = lambda: resource.getrlimit(resource.RLIMIT_CORE)
def crash(do):
    child = os.fork()
    if child == 0:
        do()
        os._exit(0 if limit() == (1, 1) else 77) if sys.argv[1] == "look" else os.abort()
    return os.waitpid(child, 0)[1]
ways = {
    "as it is": lambda: None,
    "no limit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    "a lower one": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 1)),
    "by number": lambda: resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)),
    "by its own number": lambda: resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0)),
    "by another way": lambda: call("setrlimit", resource.RLIMIT_CORE, (ctypes.c_ulong * 2)(0, 0)),
    "by large numbers": lambda: call("setrlimit", (1 << 32) + resource.RLIMIT_CORE, (ctypes.c_ulong * 2)(0, 0)),
}
for name, way in ways.items():
    sys.argv[1:] = ["look"]
    attempt(f"{name}: limit", lambda: crash(way))
    sys.argv[1:] = ["crash"]
    attempt(f"{name}: core dumped", lambda: os.WCOREDUMP(crash(way)))
attempt("files", lambda: os.listdir("/workspace"))
"#,
        &[],
    );
    for (what, came) in &seen {
        let expected = match () {
            () if what.ends_with("limit") => "ok: 0",
            () if what.ends_with("dumped") => "ok: False",
            () => "ok: []",
        };
        assert_eq!(came, expected, "{what}: {seen:?}");
    }
    assert_eq!(seen.len(), 15);
}

#[test]
fn a_task_cannot_have_the_kernel_load_drivers_nor_make_volumes_that_stay() {
    let seen = Ground::new(&[]).tries(
        r#"
import fcntl, pty
try:
    terminal = pty.openpty()[1]
except OSError:
    terminal = 0
place, sock = os.open("/workspace", os.O_RDONLY), socket.socket()
for discipline in (2, 3, 13, 15, 21):
    attempt(f"discipline {discipline}", lambda: fcntl.ioctl(terminal, 0x5423, discipline.to_bytes(4, "little")))
for name, request in (("bridge", 0x8940), ("change a bridge", 0x8941), ("add a bridge", 0x89a0), ("remove a bridge", 0x89a1),
                      ("vlan", 0x8982), ("change a vlan", 0x8983)):
    attempt(name, lambda: fcntl.ioctl(sock, request, bytes(64)))
for name, request in (("volume", 0x5000940e), ("snapshot", 0x50009401), ("second snapshot", 0x50009417),
                      ("second volume", 0x50009418), ("flags", 0x4008941a)):
    attempt(name, lambda: fcntl.ioctl(place, request, bytes(1024)))
"#,
        &[],
    );
    all_are(&seen, "EPERM", 16);
}
