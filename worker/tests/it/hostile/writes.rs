//! Where a task must not write, and the ways round about.

use super::*;

#[test]
fn a_task_can_make_files_in_no_directory_but_its_own() {
    let ground = Ground::new(&[]);
    let name = format!("cw-written-{}", token());
    let code = r#"
own = ("/workspace", "/tmp", "/home/task", "/dev/shm", "/dev/mqueue", "/dev/pts")
made_in, tried = [], 0
for directory, below, _ in os.walk("/"):
    if directory.count("/") > 4:
        below.clear()
    below[:] = [name for name in below if os.path.join(directory, name) not in own and name != "proc"]
    tried += 1
    try:
        made(os.path.join(directory, sys.argv[1]))
        made_in.append(directory)
    except OSError:
        pass
for place in own[:4]:
    made(os.path.join(place, sys.argv[1]))
print(json.dumps({"made": str(made_in), "tried": str(tried)}))
"#;
    let seen = ground.seen(&ground.send(code, &[&name]));
    assert_eq!(seen["made"], "[]");
    assert!(seen["tried"].parse::<u32>().unwrap() > 200, "{seen:?}");
    for place in ["/", "/usr", "/tmp", "/dev/shm", "/etc", "/home"] {
        assert!(!Path::new(place).join(&name).exists(), "{place} of the host");
    }
}

#[test]
fn a_task_can_open_no_file_for_writing_but_its_own() {
    let ground = Ground::new(&[]);
    let before = std::fs::read_to_string("/proc/sys/kernel/core_pattern").ok();
    let code = r#"
devices = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "ptmx", "pts", "shm", "stdin", "stdout", "stderr", "fd", "mqueue"}
opened, tried = [], 0
for top in ("/etc", "/task", "/run", "/dev", "/proc/sys", "/usr/bin", "/usr/lib/python3", *sys.argv[1:]):
    for directory, below, names in os.walk(top):
        if top == "/dev":
            below.clear()
        for name in names:
            if top == "/dev" and name in devices:
                continue
            tried += 1
            path = os.path.join(directory, name)
            # What is of its own namespaces has its own times, too.
            changes = {"write": written, "cut": lambda path: os.truncate(path, 0), "open-up": lambda path: os.chmod(path, 0o777),
                       "remove": os.unlink, "rename": lambda path: os.rename(path, path + "x")}
            changes |= {} if top == "/proc/sys" else {"touch": lambda path: os.utime(path)}
            for what, change in changes.items():
                try:
                    change(path)
                    opened.append(f"{what} {path}")
                except OSError:
                    pass
print(json.dumps({"opened": json.dumps(opened), "tried": str(tried)}))
"#;
    let shared = ground.bench.home.path().join("shared");
    std::fs::write(shared.join("file"), "read only").unwrap();
    let seen = ground.seen(&ground.send(code, &[&shared.display().to_string()]));
    let mut opened: Vec<String> = serde_json::from_str(&seen["opened"]).unwrap();
    if is_gvisor() && !rustix::process::getuid().is_root() {
        // gVisor lets the owner of a file change its mode and times through a read-only mount. Those that the worker owns
        // are the attempt's own, but for what --ro-mount shows: docs/security.md says whose that should be.
        let own = [Path::new("/etc"), Path::new("/task"), Path::new("/run/cw"), &shared];
        opened.retain(|done| {
            let (change, path) = done.split_once(' ').unwrap();
            !["open-up", "touch"].contains(&change) || !own.iter().any(|own| Path::new(path).starts_with(own))
        });
    }
    assert_eq!(std::fs::read_to_string(shared.join("file")).unwrap(), "read only");
    assert_eq!(opened, [""; 0]);
    assert!(seen["tried"].parse::<u32>().unwrap() > 100, "{seen:?}");
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/core_pattern").ok(), before);
    assert_eq!(ground.peer.report(&ground.peer.shell("exit 0"))["outcome"], json!({"exited": {"code": 0}}));
}

#[test]
fn a_task_cannot_change_settings_of_the_kernel_or_its_files_below_sys() {
    let seen = Ground::new(&[]).tries(
        r#"
for name in ("core_pattern", "modprobe", "hotplug", "sysrq", "hostname", "randomize_va_space", "ns_last_pid", "panic",
             "unprivileged_bpf_disabled", "perf_event_paranoid"):
    attempt(name, lambda: written(f"/proc/sys/kernel/{name}"))
    attempt(f"shell {name}", lambda: subprocess.run(["sh", "-c", f"echo x > /proc/sys/kernel/{name}"], check=True, stderr=subprocess.DEVNULL))
for path in ("/proc/sys/fs/binfmt_misc/register", "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory",
             "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger", "/proc/kcore",
             "/proc/kmem", "/proc/acpi/wakeup", "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/scsi/scsi",
             "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/release_agent",
             "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/debug", "/sys/firmware"):
    attempt(path, lambda: written(path))
attempt("list /sys", lambda: os.listdir("/sys"))
attempt("a cgroup", lambda: os.mkdir("/sys/fs/cgroup/x"))
"#,
        &[],
    );
    all_fail(&seen, 40);
}

#[test]
fn a_task_cannot_write_round_about_through_links_below_proc() {
    let ground = Ground::new(&[]);
    let (name, bait) = (token(), Bait::lay(ground.bench.home.path(), "as it was").unwrap());
    let seen = ground.tries(
        r#"
name, bait = sys.argv[1:]
child = subprocess.Popen(["sleep", "600"])
for pid in ("self", "thread-self", "1", str(child.pid), *map(str, pids())):
    for way in ("root", "cwd/..", "root/..", "cwd/../../../.."):
        for place in ("", "/usr", "/etc", "/root", "/home", "/var", "/task", "/run/cw"):
            attempt(f"{pid} {way} {place}", lambda: made(f"/proc/{pid}/{way}{place}/{name}"))
        attempt(f"{pid} {way} bait", lambda: written(f"/proc/{pid}/{way}{bait}"))
attempt("its program", lambda: written("/proc/self/exe"))
attempt("pid 1's program", lambda: written("/run/cw/init"))
attempt("pid 1's program by a process of it", lambda: written(f"/proc/{subprocess.Popen(['/run/cw/init', 'enter'], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL).pid}/exe"))
child.kill()
"#,
        &[&name, &bait.path()],
    );
    all_fail(&seen, 150);
    assert_eq!(std::fs::read_to_string(&bait.0).unwrap(), "as it was");
    let init = std::fs::read(ground.bench.state().join("init")).unwrap();
    assert!(init == std::fs::read(env!("CARGO_BIN_EXE_cw-worker")).unwrap(), "the program of every pid 1 was changed");
}

#[test]
fn a_task_cannot_make_device_nodes_or_open_the_machines_devices() {
    let seen = Ground::new(&[]).tries(
        r#"
for name, kind, device in (("null", stat.S_IFCHR, (1, 3)), ("memory", stat.S_IFCHR, (1, 1)), ("disk", stat.S_IFBLK, (8, 0)),
                           ("log", stat.S_IFCHR, (1, 11)), ("loop", stat.S_IFBLK, (7, 0))):
    for place in ("/workspace", "/tmp", "/dev/shm", "/dev"):
        attempt(f"{place}/{name}", lambda: os.mknod(f"{place}/{name}", kind | 0o666, os.makedev(*device)))
for name in ("mem", "kmem", "port", "kvm", "sda", "vda", "nvme0n1", "loop0", "loop-control", "fuse", "net/tun", "kmsg", "mapper/control",
             "vhost-vsock", "vsock", "uinput", "input/event0", "snapshot", "hpet", "rtc", "watchdog", "ttyS0", "tty1", "vcs", "autofs"):
    attempt(name, lambda: read(f"/dev/{name}"))
"#,
        &[],
    );
    all_fail(&seen, 40);
}

#[test]
fn a_task_gains_nothing_by_setuid_programs_or_capabilities_of_files() {
    let ground = Ground::new(&[]);
    let seen = ground.tries(
        r#"
import shutil
own = "/workspace/id"
shutil.copy("/usr/bin/id", own)
attempt("give it to root", lambda: os.chown(own, 0, 0))
attempt("be root", lambda: os.setuid(0))
attempt("be root in effect", lambda: os.setresuid(0, 0, 0))
attempt("be another", lambda: os.setuid(60601))
attempt("groups", lambda: os.setgroups([0]))
attempt("capabilities of a file", lambda: os.setxattr(own, "security.capability", bytes.fromhex("0100000200000400000000000000000000000000")))
def said(program):
    done = subprocess.run(program, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
    if done.returncode != 0 or done.stdout.strip() != "0":
        raise OSError(f"code {done.returncode}, {done.stdout[:50]!r}")
os.chmod(own, 0o6755)
attempt("its own setuid program", lambda: said([own, "-u"]))
attempt("su", lambda: said(["su", "-c", "id -u"]))
attempt("sudo", lambda: said(["sudo", "-n", "id", "-u"]) if shutil.which("sudo") else os.stat("/no sudo"))
attempt("newgrp", lambda: said(["sg", "root", "-c", "id -g"]) if shutil.which("sg") else os.stat("/no sg"))
attempt("mount", lambda: subprocess.run(["mount", "-t", "tmpfs", "x", "/tmp"], check=True, capture_output=True))
status = open("/proc/self/status").read()
attempt("capabilities", lambda: None if "CapEff:\t0000000000000000" not in status else os.stat("/none"))
attempt("a way to gain some", lambda: None if libc.prctl(39, 0, 0, 0, 0) != 1 else os.stat("/none"))
"#,
        &[],
    );
    all_fail(&seen, 12);
    eventually_empty(&ground);
}

fn eventually_empty(ground: &Ground) {
    crate::run::eventually("attempts are removed", || ground.bench.attempts() == 0);
}
