//! The host's processes, the worker, and tasks in other slots or before on the same one.

use super::*;
use crate::run::{processes, wait_for_processes};

/// Hides a secret wherever a task can have one, and waits.
const VICTIM: &str = r#"
import mmap
secret = sys.argv[1].encode()
for path in ("/workspace/secret", "/tmp/secret", "/home/task/secret", "/dev/shm/secret"):
    with open(path, "wb") as file:
        file.write(secret)
    os.chmod(path, 0o666)
for path in ("/workspace", "/tmp", "/home/task"):
    os.chmod(path, 0o777)
segment = call("shmget", 0x5ec4e7, 4096, 0o1666)
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\0cw-secret")
abstract.listen()
named = socket.socket(socket.AF_UNIX)
named.bind("/tmp/socket")
named.listen()
loopback = socket.create_server(("127.0.0.1", 7777))
sleeper = subprocess.Popen(["sleep", sys.argv[3]], env={"SECRET": sys.argv[1]})
nice = os.nice(0)
print("up", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
print(json.dumps({"sleeper": str(sleeper.poll()), "slower": str(os.nice(0) - nice)}))
"#;

/// Looks for it. The secret comes in turned round, so that the search does not find itself.
const THIEF: &str = r#"
import re
secret = sys.argv[1][::-1].encode()
found = []
def look(path):
    try:
        with open(path, "rb") as file:
            if secret in file.read(1 << 20):
                found.append(path)
    except OSError:
        pass
for top in ("/workspace", "/tmp", "/home", "/dev/shm", "/run", "/etc", "/task", "/var", "/root", "/mnt", "/srv", "/opt"):
    for directory, _, names in os.walk(top):
        for name in names:
            look(os.path.join(directory, name))
for pid in pids():
    for name in ("environ", "cmdline", "mem"):
        look(f"/proc/{pid}/{name}")
    for inside in ("tmp/secret", "workspace/secret", "home/task/secret", "dev/shm/secret"):
        look(os.path.join(f"/proc/{pid}/root", inside))
attempt("files", lambda: found if found else (_ for _ in ()).throw(FileNotFoundError(2, "")))
attempt("shared memory", lambda: call("shmget", 0x5ec4e7, 4096, 0o666))
def called(family, address):
    with socket.socket(family) as made:
        made.connect(address)
attempt("abstract socket", lambda: called(socket.AF_UNIX, "\0cw-secret"))
attempt("named socket", lambda: called(socket.AF_UNIX, "/tmp/socket"))
attempt("loopback", lambda: called(socket.AF_INET, ("127.0.0.1", 7777)))
"#;

fn turned(text: &str) -> String {
    text.chars().rev().collect()
}

#[test]
fn a_task_cannot_read_or_reach_a_task_that_runs_in_another_slot() {
    let ground = Ground::new(&["--slots", "2"]);
    let (secret, sleeper) = (format!("secret-{}", token()), token());
    let gate = ground.bench.gate();
    let victim = ground.send(VICTIM, &[&secret, &gate.display().to_string(), &sleeper]);
    ground.peer.wait_for_output(&victim, "up\n");
    let seen = ground.tries(THIEF, &[&turned(&secret)]);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(ground.seen(&victim)["sleeper"], "None");
    all_fail(&seen, 5);
}

#[test]
fn a_task_finds_nothing_of_the_one_before_it_on_its_slot() {
    let ground = Ground::new(&["--slots", "1"]);
    let (secret, sleeper) = (format!("secret-{}", token()), token());
    let gate = ground.bench.gate();
    std::fs::write(&gate, "").unwrap();
    let victim = ground.send(VICTIM, &[&secret, &gate.display().to_string(), &sleeper]);
    ground.seen(&victim);
    all_fail(&ground.tries(THIEF, &[&turned(&secret)]), 5);
    assert_eq!(processes(&sleeper), [0; 0]);
}

#[test]
fn a_search_of_this_kind_does_find_what_a_task_has_itself() {
    let ground = Ground::new(&[]);
    let secret = format!("secret-{}", token());
    let code = format!("open('/tmp/own', 'w').write(sys.argv[1][::-1])\n{THIEF}");
    let seen = ground.tries(&code, &[&turned(&secret)]);
    assert!(seen["files"].contains("/tmp/own"), "{seen:?}");
}

#[test]
fn a_task_sees_and_signals_no_process_but_its_own() {
    let ground = Ground::new(&["--slots", "2"]);
    let (victim_token, gate) = (token(), ground.bench.gate());
    let secret = format!("secret-{}", token());
    let victim = ground.send(VICTIM, &[&secret, &gate.display().to_string(), &victim_token]);
    ground.peer.wait_for_output(&victim, "up\n");
    wait_for_processes(&victim_token, 2);
    let mut outside = processes(&victim_token);
    outside.push(ground.worker.pid().as_raw_nonzero().get());
    outside.push(std::process::id().cast_signed());
    let outside: Vec<String> = outside.iter().map(ToString::to_string).collect();
    let code = r#"
own = {1, os.getpid()}
attempt("listed", lambda: None if set(pids()) - own else os.stat("/nothing else is listed"))
# Inside gVisor the host's numbers are small, too: whoever has one here is one of ours, or nobody.
for pid in map(int, sys.argv[1:]):
    if pid not in own:
        attempt(f"signal {pid}", lambda: os.kill(pid, 0))
        attempt(f"look at {pid}", lambda: os.stat(f"/proc/{pid}"))
        attempt(f"limit {pid}", lambda: call("prlimit64", pid, 7, 0, ctypes.create_string_buffer(16)))
        attempt(f"slow down {pid}", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
reached = []
for pid in range(2, 40000):
    if pid != os.getpid():
        try:
            os.kill(pid, 0)
            reached.append(pid)
        except ProcessLookupError:
            pass
attempt("anybody", lambda: reached if reached else os.stat("/nobody"))
if os.fork() == 0:
    os.setsid()
    os.kill(-1, signal.SIGSTOP)
    os.kill(-1, signal.SIGCONT)
    os._exit(0)
os.wait()
"#;
    let arguments: Vec<&str> = outside.iter().map(String::as_str).collect();
    let seen = ground.tries(code, &arguments);
    all_fail(&seen, 6);
    std::fs::write(&gate, "").unwrap();
    let victim = ground.seen(&victim);
    assert_eq!((victim["sleeper"].as_str(), victim["slower"].as_str()), ("None", "0"));
    assert_eq!(ground.peer.report(&ground.peer.shell("exit 0"))["outcome"], json!({"exited": {"code": 0}}));
}

#[test]
fn two_attempts_get_processes_files_and_names_of_their_own() {
    let ground = Ground::new(&["--slots", "2"]);
    let gate = ground.bench.gate();
    let code = "print(json.dumps({name: os.readlink(f'/proc/self/ns/{name}') for name in ('mnt', 'net', 'pid', 'ipc', 'uts')}), flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)";
    let leases = [(); 2].map(|()| ground.send(code, &[&gate.display().to_string()]));
    for lease in &leases {
        ground.peer.wait_for_output(lease, "}\n");
    }
    std::fs::write(&gate, "").unwrap();
    let [one, other] = leases.map(|lease| ground.seen(&lease));
    let mut shared: Vec<_> = one.iter().filter(|(name, inode)| other[*name] == **inode).collect();
    shared.extend(one.iter().filter(|(name, inode)| {
        std::fs::read_link(format!("/proc/self/ns/{name}")).is_ok_and(|outer| outer.to_string_lossy() == inode.as_str())
    }));
    assert!(shared.is_empty(), "{shared:?}");
    assert_eq!(one.len(), 5);
}
