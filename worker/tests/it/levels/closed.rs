//! What a task without namespaces cannot reach.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use super::*;
use crate::peer::KEY;
use crate::run::{eventually, token};

/// Tries to read, to write and to list, as its arguments say; prints what was not refused.
const FILES: &str = r#"
import os, sys
for word in sys.argv[1:]:
    what, path = word.split(":", 1)
    try:
        if what == "read":
            open(path, "rb").read(1)
        elif what == "list":
            os.listdir(path)
        elif what == "write":
            os.close(os.open(path, os.O_WRONLY))
        elif what == "make":
            open(os.path.join(path, "made-by-a-task"), "w").close()
        elif what == "remove":
            os.rename(path, path + ".gone")
        print("OPEN", word)
    except OSError as error:
        assert error.errno in (1, 2, 13, 18, 26, 30), (word, error)
print("tried", len(sys.argv) - 1)
"#;

/// Runs `FILES`; nothing may be open to it where the kernel has Landlock.
fn finds_closed(place: &Place, words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = place.python(FILES, &words);
    if place.has_landlock() {
        assert_eq!(said, format!("tried {}\n", words.len()));
    } else {
        assert!(!place.proved().iter().any(|word| word == "files"), "it says that files are closed");
    }
}

#[test]
fn the_key_the_spool_and_the_workers_memory_are_closed_to_a_task() {
    let place = Place::lower(&[]);
    let (home, state) = (place.bench.home.path().display(), place.bench.state().display().to_string());
    let pid = place.worker.pid().as_raw_nonzero();
    let mut words: Vec<String> = [
        format!("read:{home}/key"),
        format!("list:{home}"),
        format!("read:{state}/lock"),
        format!("write:{state}/lock"),
        format!("remove:{state}/lock"),
    ]
    .into();
    words.extend(["", "/spool", "/attempts"].map(|part| format!("list:{state}{part}")));
    words.extend(["", "/spool", "/attempts"].map(|part| format!("make:{state}{part}")));
    words.extend(["environ", "mem", "maps", "cmdline", "status"].map(|file| format!("read:/proc/{pid}/{file}")));
    words.extend(["fd", "task"].map(|directory| format!("list:/proc/{pid}/{directory}")));
    finds_closed(&place, &words);
    // What a task did say goes through the worker's own output; the key never does.
    assert!(!place.worker.log().contains(KEY));
}

#[test]
fn a_task_writes_nowhere_but_in_its_own_directories() {
    let place = Place::lower(&[]);
    let home = place.bench.home.path();
    std::fs::set_permissions(home.join("shared"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut words: Vec<String> =
        ["/", "/tmp", "/var/tmp", "/dev/shm", "/etc", "/usr", "/run"].map(|place| format!("make:{place}")).into();
    words.push(format!("make:{}", home.join("shared").display()));
    words.push("make:..".into());
    words.push("make:../task".into());
    words.extend(
        ["../init", "../hosts", "/proc/self/comm", "/proc/sys/kernel/core_pattern"].map(|at| format!("write:{at}")),
    );
    words.extend(["../task/main.py", "../work", "../init"].map(|at| format!("remove:{at}")));
    words.extend(["/etc/shadow", "/etc/machine-id", "/etc/gshadow"].map(|at| format!("read:{at}")));
    words.extend(["/", "/root", "/home", "/tmp", "/proc", "/run", "/var"].map(|at| format!("list:{at}")));
    finds_closed(&place, &words);
    for left in ["/tmp", "/var/tmp", "/dev/shm"] {
        let left = std::path::Path::new(left).join("made-by-a-task");
        assert!(!place.has_landlock() || !left.exists(), "{}", left.display());
    }
}

#[test]
fn the_files_of_another_slot_are_closed_to_a_task() {
    let place = Place::lower(&["--slots", "2"]);
    let gate = place.bench.gate();
    let code = format!("echo secret > secret; pwd; while ! [ -e {} ]; do sleep 0.02; done", gate.display());
    let first = place.peer.shell(&code);
    place.peer.wait_for_output(&first, "/work\n");
    let work = place.peer.stdout(&first).trim().to_owned();
    assert!(work.starts_with(&place.bench.state().display().to_string()), "{work}");
    let words = [
        format!("read:{work}/secret"),
        format!("list:{work}"),
        format!("make:{work}"),
        format!("read:{work}/../task/main.sh"),
        format!("list:{work}/../tmp"),
    ];
    finds_closed(&place, &words);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(place.peer.report(&first)["outcome"], json!({"exited": {"code": 0}}));
}

#[test]
fn a_task_can_neither_signal_nor_slow_the_worker() {
    let place = Place::lower(&[]);
    let code = r#"
import ctypes, os, resource, sys
worker = int(sys.argv[1])
for pid in (worker, os.getppid()):
    try:
        os.kill(pid, 0)
        print("SIGNALS", pid == worker)
    except PermissionError:
        pass
    try:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))
        print("LIMITS", pid == worker)
    except PermissionError:
        pass
    for change in (lambda: os.setpriority(os.PRIO_PROCESS, pid, 19), lambda: os.sched_setaffinity(pid, {0})):
        try:
            change()
            print("SLOWS", pid == worker)
        except PermissionError:
            pass
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, pid, None, None) == 0:
        print("TRACES", pid == worker)
child = os.fork()
if child == 0:
    os.execvp("sleep", ["sleep", "60"])
os.kill(child, 9)
print("its own child:", os.waitpid(child, 0)[1])
"#;
    let pid = place.worker.pid().as_raw_nonzero().to_string();
    let said = place.python(code, &[&pid]);
    if place.has_landlock() {
        assert_eq!(said, "its own child: 9\n");
    } else {
        assert!(!["LIMITS", "SLOWS", "TRACES"].iter().any(|word| said.contains(word)), "{said}");
        assert!(!is_root() || !said.contains("SIGNALS True"), "{said}");
    }
}

/// Tries every way to somebody else by a socket or by memory that is shared; prints what was not refused.
const REACH: &str = r#"
import ctypes, os, socket, sys
tcp, udp, path, name = sys.argv[1:]
def stream(family, address):
    def attempt():
        made = socket.socket(family, socket.SOCK_STREAM)
        made.connect(address)
    return attempt
def datagram(family, address):
    return lambda: socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", address)
def pair():
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.sendto(b"x", path + ".datagrams")
def call(name, *arguments):
    def attempt():
        libc = ctypes.CDLL(None, use_errno=True)
        if getattr(libc, name)(*arguments) == -1:
            raise OSError(ctypes.get_errno(), name)
    return attempt
ways = {
    "tcp": stream(socket.AF_INET, ("127.0.0.1", int(tcp))),
    "tcp6": stream(socket.AF_INET6, ("::1", int(tcp))),
    "udp": datagram(socket.AF_INET, ("127.0.0.1", int(udp))),
    "unix": stream(socket.AF_UNIX, path),
    "abstract": stream(socket.AF_UNIX, "\0" + name),
    "unix datagram": datagram(socket.AF_UNIX, path + ".datagrams"),
    "datagram pair": pair,
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "vsock": lambda: socket.socket(40, socket.SOCK_STREAM),
    "listen": lambda: socket.create_server(("127.0.0.1", 0)),
    "shared memory": call("shmget", 0, 4096, 0o1600),
    "semaphores": call("semget", 0, 1, 0o1600),
    "queues": call("msgget", 0, 0o1600),
    "named queues": call("mq_open", b"/cw-test", 0o102, 0o600, None),
}
for way, attempt in ways.items():
    try:
        attempt()
        print("OPEN", way)
    except OSError as error:
        if error.errno != 1:
            print(way, error)
ours, theirs = socket.socketpair()
ours.sendall(b"a pair")
print(theirs.recv(6).decode(), "works")
"#;

#[test]
fn a_task_reaches_no_network_and_no_service_of_the_machine() {
    let place = Place::lower(&[]);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let path = place.bench.home.path().join("shared/socket");
    let _unix = UnixListener::bind(&path).unwrap();
    let datagrams_at = place.bench.home.path().join("shared/socket.datagrams");
    let datagrams = UnixDatagram::bind(&datagrams_at).unwrap();
    for open in [&path, &datagrams_at] {
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let name = format!("cw-bait-{}", token());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let ports = [tcp.local_addr().unwrap(), udp.local_addr().unwrap()].map(|address| address.port().to_string());
    let said = place.python(REACH, &[&ports[0], &ports[1], path.to_str().unwrap(), &name]);
    assert_eq!(said, "a pair works\n");
    for silent in [tcp.set_nonblocking(true), udp.set_nonblocking(true), datagrams.set_nonblocking(true)] {
        silent.unwrap();
    }
    assert!(tcp.accept().is_err() && udp.recv(&mut [0]).is_err() && datagrams.recv(&mut [0]).is_err());
    eventually("attempts are removed", || place.bench.attempts() == 0);
}

#[test]
fn a_task_has_no_rights_beyond_its_users() {
    let place = Place::lower(&[]);
    let said = place.python(
        "import os\nprint(os.getuid(), os.getgroups())\nfor line in open('/proc/self/status'):\n \
         if line.startswith(('Cap', 'NoNewPrivs')): print(*line.split())",
        &[],
    );
    let uid = rustix::process::getuid().as_raw();
    let (user, rights) = said.split_once('\n').unwrap();
    if is_root() {
        assert!(user.ends_with(" []") && !user.starts_with("0 "), "{said}");
    } else {
        assert!(user.starts_with(&format!("{uid} ")), "{said}");
    }
    for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(rights.contains(&format!("{name}: 0000000000000000\n")), "{said}");
    }
    assert!(rights.contains("NoNewPrivs: 1"), "{said}");
}
