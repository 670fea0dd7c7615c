//! What is there after hostile tasks: nothing.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::run::{eventually, processes, wait_for_processes};

/// Leaves whatever is hard to remove; the token stands in names and command lines.
const MESS: &str = r#"
token, deep = sys.argv[1], int(sys.argv[2])
def mess(place):
    os.chdir(place)
    os.mkdir("deep")
    os.chdir("deep")
    for level in range(deep):
        os.mkdir("d" * (255 if level == 0 else 1))
        os.chdir("d" * (255 if level == 0 else 1))
    open("bottom", "w").close()
    os.chdir(place)
    for name in ("new\nline", "n" * 255, "é" * 127, "-rf", " ", "\x01\x1b[2J", "*", "\\", "'\"", "a\tb", "..."):
        os.mkdir(name)
        open(os.path.join(name, name), "w").close()
    os.mkfifo("fifo")
    socket.socket(socket.AF_UNIX).bind("socket")
    os.symlink("/", "root")
    os.symlink("loop", "loop")
    os.symlink("/proc/self/cwd", "here")
    open("linked", "w").close()
    for number in range(500):
        os.link("linked", f"link{number}")
    os.mkdir("setgid", 0o2777)
    os.mkdir("closed")
    os.mkdir("closed/closed")
    open("closed/closed/file", "w").close()
    for path in ("closed/closed/file", "closed/closed", "closed", "setgid", "linked"):
        os.chmod(path, 0)
for place in ("/workspace", "/tmp", "/home/task"):
    mess(place)
open(f"/dev/shm/{token}", "w").write("x" * 100000)
call("shmget", 0x1e4f, 1 << 20, 0o1666)
os.chdir("/")
for place in ("/workspace", "/tmp", "/home/task"):
    os.chmod(place, 0)
if os.fork() == 0:
    os.setsid()
    for number in range(1, 32):
        if number not in (9, 19):
            signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", token])
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
sleeper = subprocess.Popen(["sleep", token], start_new_session=True)
os.kill(sleeper.pid, signal.SIGSTOP)
while len([pid for pid in pids() if token in open(f"/proc/{pid}/cmdline").read()]) < 3:
    time.sleep(0.01)
print(open("/proc/self/cgroup").read().strip().splitlines()[-1:], flush=True)
print("done", flush=True)
"#;

/// What could be left of tasks with this token and this state directory.
fn leftovers(ground_state: &Path, token: &str, attempts: &[String]) -> Vec<String> {
    let mut found: Vec<String> = processes(token).iter().map(|pid| format!("process {pid}")).collect();
    let state = ground_state.display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(&state)).map(|line| format!("mount {line}")));
    let is_ours = |name: &str| name.contains(token) || attempts.iter().any(|attempt| name.contains(attempt));
    for place in ["/tmp", "/var/tmp", "/dev/shm", "/mnt", "/srv"] {
        found.extend(
            names(Path::new(place)).into_iter().filter(|name| is_ours(name)).map(|name| format!("{place}/{name}")),
        );
    }
    found.extend(cgroups().into_iter().filter(|path| is_ours(path)));
    found.extend(attempts_in(ground_state).into_iter().map(|name| format!("attempt {name}")));
    found
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// All cgroups of attempts, wherever they are.
fn cgroups() -> Vec<String> {
    let mut found = Vec::new();
    let mut full = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = full.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with("cw-") {
                    found.push(entry.path().display().to_string());
                }
                full.push(entry.path());
            }
        }
    }
    found
}

fn attempts(ground: &Ground) -> Vec<String> {
    attempts_in(&ground.bench.state())
}

/// Beside them stands what all of them share.
fn attempts_in(state: &Path) -> Vec<String> {
    names(&state.join("attempts")).into_iter().filter(|name| name != ".etc").collect()
}

#[test]
fn a_batch_of_nasty_tasks_leaves_no_process_file_mount_or_cgroup() {
    let ground = Ground::bare(&["--slots", "2", "--grace", "300ms"]);
    let (token, gate) = (token(), ground.bench.gate());
    // The way to the gate leads through what the task closes.
    let wait = format!(
        "shared = os.open(sys.argv[3], os.O_RDONLY)\n{MESS}\nwhile 'gate' not in os.listdir(shared): time.sleep(0.02)"
    );
    let shared = gate.parent().unwrap().display().to_string();
    let leases = [(); 2].map(|()| ground.send(&wait, &[&token, "1500", &shared]));
    let ends = ["os.kill(os.getpid(), 9)", "sys.exit(1)", "time.sleep(600)"];
    for lease in &leases {
        ground.peer.wait_for_output(lease, "done\n");
    }
    let attempts = attempts(&ground);
    assert_eq!(attempts.len(), 2);
    std::fs::write(&gate, "").unwrap();
    let later = ends.map(|end| {
        let code = program(&format!("{MESS}\n{end}"));
        ground.peer.task(json!({"run": {"kind": "python", "code": code}, "args": [token, "100"], "timeout_s": 8}))
    });
    for lease in leases.iter().chain(&later) {
        ground.peer.report(lease);
        assert!(ground.peer.stdout(lease).ends_with("done\n"), "{}", ground.peer.stderr(lease));
    }
    eventually("nothing is left", || leftovers(&ground.bench.state(), &token, &attempts).is_empty());
}

#[test]
fn a_tree_of_five_thousand_levels_is_removed() {
    let ground = Ground::bare(&["--grace", "300ms"]);
    let token = token();
    let lease = ground.send(&format!("{MESS}\nos.kill(os.getpid(), 9)"), &[&token, "5000"]);
    // What is too deep to be counted is over the limit.
    let outcome = ground.peer.report(&lease)["outcome"].clone();
    let ends = [json!("disk_limit"), json!({"signalled": {"signal": 9}})];
    assert!(ends.contains(&outcome), "{outcome} {}", ground.peer.stderr(&lease));
    eventually("nothing is left", || leftovers(&ground.bench.state(), &token, &[]).is_empty());
}

#[test]
fn a_task_does_not_outlive_its_lease() {
    let ground = Ground::bare(&["--grace", "300ms"]);
    let token = token();
    let lease = ground.send(&format!("{MESS}\ntime.sleep(600)"), &[&token, "100"]);
    ground.peer.wait_for_output(&lease, "done\n");
    let attempts = attempts(&ground);
    eventually("all of them are seen", || processes(&token).len() >= 4);
    ground.peer.lose(&lease);
    eventually("nothing is left", || leftovers(&ground.bench.state(), &token, &attempts).is_empty());
    assert!(!ground.peer.is_reported(&lease));
}

#[test]
fn a_task_does_not_outlive_a_lease_that_nobody_renews() {
    let ground = Ground::bare(&["--grace", "300ms"]);
    let token = token();
    ground.peer.ttl_s(2);
    let lease = ground.send(&format!("{MESS}\ntime.sleep(600)"), &[&token, "100"]);
    ground.peer.wait_for_output(&lease, "done\n");
    ground.peer.fault("/renew", usize::MAX, crate::peer::Fault::Answer(503, crate::peer::problem(503, "unavailable")));
    wait_for_processes(&token, 0);
    assert!(!ground.peer.is_reported(&lease));
}

#[test]
fn a_worker_that_is_killed_leaves_no_process_and_the_next_one_removes_the_rest() {
    let mut ground = Ground::bare(&["--grace", "300ms"]);
    let token = token();
    let lease = ground.send(&format!("{MESS}\ntime.sleep(600)"), &[&token, "1500"]);
    ground.peer.wait_for_output(&lease, "done\n");
    let attempts = attempts(&ground);
    ground.worker.kill();
    wait_for_processes(&token, 0);
    ground.worker = ground.bench.worker(&ground.peer, &["--ready", "0"]);
    eventually("nothing is left", || leftovers(&ground.bench.state(), &token, &attempts).is_empty());
    assert_eq!(ground.peer.report(&ground.peer.shell("exit 0"))["outcome"], json!({"exited": {"code": 0}}));
}

#[test]
fn cgroups_of_a_dead_worker_are_removed_by_one_on_another_state_directory() {
    let mut ground = Ground::bare(&[]);
    let token = token();
    let lease = ground.peer.shell(&format!("echo up; sleep {token}"));
    ground.peer.wait_for_output(&lease, "up\n");
    let ours = attempts(&ground).remove(0);
    let has_cgroups = cgroups().iter().any(|path| path.contains(&ours));
    let proved = ground.peer.seen("/v1/leases", |_| true).body["worker"]["confinement"].clone();
    assert_eq!(has_cgroups, proved.as_array().unwrap().contains(&json!("cgroup")), "{proved}");
    // Another worker does not touch what a living one holds.
    let other = Ground::bare(&[]);
    other.peer.wait_for_count("/v1/leases", 1);
    assert_eq!(cgroups().iter().any(|path| path.contains(&ours)), has_cgroups);
    ground.worker.kill();
    wait_for_processes(&token, 0);
    let next = Ground::bare(&[]);
    next.peer.wait_for_count("/v1/leases", 1);
    assert!(!cgroups().iter().any(|path| path.contains(&ours)), "{:?}", cgroups());
}

#[test]
fn what_a_doctor_left_that_was_killed_midway_is_removed_by_the_next_worker() {
    let (bench, peer) = (Bench::new(), Peer::start());
    std::fs::create_dir(bench.state()).unwrap();
    let doctors = || names(&bench.state()).into_iter().filter(|name| name.starts_with("doctor-")).collect::<Vec<_>>();
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_cw-worker"));
    doctor.arg("doctor").env_clear().env("CW_STATE_DIR", bench.state()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut doctor = doctor.spawn().unwrap();
    let lock = || std::fs::read(bench.state().join(doctors().first()?).join("lock")).ok();
    eventually("the doctor works", || lock().is_some_and(|lock| !lock.is_empty()));
    kill_process(Pid::from_child(&doctor), Signal::STOP).unwrap();
    // One that lives is let alone, even when it does nothing.
    drop(worker_that_asks(&bench, &peer, 1));
    assert_eq!(doctors().len(), 1);
    doctor.kill().unwrap();
    doctor.wait().unwrap();
    let _worker = worker_that_asks(&bench, &peer, 2);
    eventually("nothing is left of it", || doctors().is_empty());
}

fn worker_that_asks(bench: &Bench, peer: &Peer, times: usize) -> Running {
    let worker = bench.worker(peer, &[]);
    peer.wait_for_count("/v1/leases", times);
    worker
}
