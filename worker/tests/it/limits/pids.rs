//! Processes and threads.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{each_way, each_way_with};
use crate::peer::Peer;
use crate::run::{Bench, Running, is_gvisor, processes, token};

/// Inside gVisor the kernel's limit counts all of a user's processes: where that is the worker's own user, it cannot hold a
/// task's, and a look ends the task that has too many.
fn are_ended() -> bool {
    is_gvisor() && !rustix::process::getuid().is_root()
}

fn end_of_a_bomb() -> Value {
    if are_ended() { json!({"signalled": {"signal": 9}}) } else { json!("timeout") }
}

/// Time for a bomb that is held, or more than enough for a look.
fn time_of_a_bomb(seconds: u32) -> u32 {
    if are_ended() { 60 } else { seconds }
}

#[test]
fn a_fork_bomb_is_held_and_ends_with_its_deadline_while_the_machine_stays_usable() {
    each_way_with(&["--slots", "2", "--grace", "200ms"], |world| {
        let token = token();
        let code = format!(
            "
print('up')
while True:
    try:
        if os.fork() == 0: name = '{token}'
    except OSError: pass
"
        );
        let bomb = world.begin(&code, &json!({"pids": 24}), time_of_a_bomb(3));
        world.peer.wait_for_output(&bomb, "up");
        if are_ended() {
            assert_eq!(world.end(&bomb).report["outcome"], end_of_a_bomb());
        }
        let beside = world.passes("for _ in range(20): subprocess.run(['/bin/true'], check=True)", &json!({"pids": 8}));
        assert_eq!(beside.stderr, "");
        assert_eq!(world.end(&bomb).report["outcome"], end_of_a_bomb(), "--cgroup {}", world.way);
        assert_eq!(processes(&token), [0; 0]);
        world.passes("pass", &json!({}));
    });
}

#[test]
fn a_fork_bomb_in_one_slot_leaves_the_other_all_of_its_processes() {
    let bomb = "
print('up')
while True:
    try:
        if os.fork() == 0: time.sleep(600)
    except OSError: time.sleep(0.01)
";
    let beside = "
children = []
for _ in range(50):
    child = os.fork()
    if child == 0: time.sleep(600)
    children.append(child)
for child in children: os.kill(child, 9)
print(len(children))
";
    each_way_with(&["--slots", "2", "--grace", "200ms"], |world| {
        let lease = world.begin(bomb, &json!({"pids": 60}), time_of_a_bomb(4));
        world.peer.wait_for_output(&lease, "up");
        // Until the look, the other may start less.
        if are_ended() {
            assert_eq!(world.end(&lease).report["outcome"], end_of_a_bomb());
        }
        assert_eq!(world.passes(beside, &json!({"pids": 60})).stdout, "50\n", "--cgroup {}", world.way);
        assert_eq!(world.end(&lease).report["outcome"], end_of_a_bomb());
    });
}

#[test]
fn a_worker_that_itself_has_less_gives_its_tasks_no_more_and_says_so() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.command(&peer.url(), &[]);
    let mut command = Command::new("prlimit");
    command.args(["--nproc=400:400", "--nofile=300:300", "--fsize=100000000:100000000"]).arg(worker.get_program());
    command.args(worker.get_args()).env_clear();
    command.envs(worker.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let worker = Running::start({
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    });
    let lease = peer.shell("ulimit -n; echo");
    assert_eq!(peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}), "{}", worker.log());
    assert_eq!(peer.stdout(&lease).trim(), "300");
    let is_warned = worker.log().contains("this user may have 400 processes (ulimit -u)");
    assert_eq!(is_warned, !rustix::process::getuid().is_root(), "{}", worker.log());
}

#[test]
fn processes_and_threads_count_alike() {
    // As many as are started, or refused.
    let start = |count: u32| {
        format!(
            "
started = 0
for number in range({count}):
    try:
        if number % 2 == 0:
            if os.fork() == 0: time.sleep(600)
        else: threading.Thread(target=time.sleep, args=[600], daemon=True).start()
        started += 1
    except (OSError, RuntimeError): break
print(started, flush=True)
"
        )
    };
    let limits = json!({"pids": 16});
    each_way(|world| {
        let some = world.passes(&(start(12) + "time.sleep(0.6)\nos._exit(0)"), &limits);
        assert_eq!(some.stdout, "12\n");
        if are_ended() {
            let ended = world.ends_as(&end_of_a_bomb(), &start(20), &limits);
            assert!(ended.stderr.contains("more processes and threads than a task may have"), "{}", ended.stderr);
        } else {
            let most = world.passes(&(start(200) + "os._exit(0)"), &limits);
            let started: u32 = most.stdout.trim().parse().unwrap();
            assert!((12..=17).contains(&started), "--cgroup {}: {started}", world.way);
        }
    });
}
