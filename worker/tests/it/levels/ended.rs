//! Without a namespace whose end would be theirs, all processes of an attempt are gone at its end all the same.

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::processes::is_dead;
use crate::run::{eventually, processes, token, wait_for_processes};

/// Daemons in sessions of their own, whose parents are gone, and which ignore what can be ignored.
fn daemons(token: &str) -> String {
    format!(
        "trap '' TERM HUP INT; sleep {token} & setsid sleep {token} & \
         (setsid sh -c 'trap \"\" TERM HUP INT; sleep {token}; sleep {token}' &) & \
         for i in 1 2 3 4 5 6 7 8 9 10; do (setsid sleep {token} &) ; done; echo up"
    )
}

#[test]
fn no_process_outlives_a_task_that_ends_by_itself() {
    for level in ["bwrap", lower()] {
        let place = Place::new(level, &[]);
        let token = token();
        let lease = place.peer.shell(&daemons(&token));
        assert_eq!(place.peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}));
        assert_eq!(processes(&token), [0; 0], "{level}: the report came before they were gone");
    }
}

#[test]
fn no_process_outlives_the_deadline() {
    for level in ["bwrap", lower()] {
        let place = Place::new(level, &["--grace", "300ms"]);
        let token = token();
        let code = format!("{}; sleep {token}; sleep {token}", daemons(&token));
        let lease = place.peer.task(json!({"run": {"kind": "shell", "code": code}, "timeout_s": 1}));
        assert_eq!(place.peer.report(&lease)["outcome"], "timeout");
        assert_eq!(processes(&token), [0; 0], "{level}");
        assert_eq!(place.peer.stdout(&lease), "up\n");
    }
}

/// Each process leaves its session and its parent and makes others, as fast as it can.
const BOMB: &str = r#"
import os, sys, time
end = time.time() + 60
def flee(children):
    while time.time() < end:
        try:
            for _ in range(children):
                if os.fork() == 0:
                    os.setsid()
                    break
            else:
                os._exit(0)
        except OSError:
            time.sleep(0.001)
for children in [1] * 20 + [2] * int(sys.argv[2]):
    try:
        if os.fork() == 0:
            flee(children)
    except OSError:
        break
print("up", flush=True)
time.sleep(60)
"#;

#[test]
fn a_fork_bomb_of_daemons_is_gone_at_the_deadline() {
    let place = Place::lower(&["--grace", "200ms"]);
    let token = token();
    // Where tasks have the user of whoever runs this, a bomb that grows would leave no process to the other tests.
    let growing = if is_root() { "4" } else { "0" };
    let run = json!({"kind": "python", "code": BOMB});
    let lease = place.peer.task(json!({"run": run, "args": [token, growing], "timeout_s": 2}));
    assert_eq!(place.peer.report(&lease)["outcome"], "timeout", "{}", place.peer.stderr(&lease));
    assert_eq!(processes(&token), [0; 0]);
    assert_eq!(place.peer.stdout(&lease), "up\n");
    assert_eq!(place.peer.report(&place.peer.shell("exit 0"))["outcome"], json!({"exited": {"code": 0}}));
}

/// The kernel's limit on processes is one for all of a user's: where that is the worker's own, a look finds them.
#[test]
fn more_processes_than_a_task_may_have_are_refused_or_ended() {
    let place = Place::lower(&["--cgroup", "off"]);
    let token = token();
    let code = "import os, subprocess, sys, time\nmade = 0\ntry:\n while made < 200:\n  \
                subprocess.Popen(['sleep', sys.argv[1]])\n  made += 1\n\
                except OSError as error: print(made < 128, error.strerror)\nelse: time.sleep(60)";
    let lease = place.peer.task(json!({"run": {"kind": "python", "code": code}, "args": [token]}));
    let (report, said) = (place.peer.report(&lease), place.peer.stderr(&lease));
    assert_eq!(processes(&token), [0; 0]);
    if is_root() {
        assert_eq!(report["outcome"], json!({"exited": {"code": 0}}), "{said}");
        assert_eq!(place.peer.stdout(&lease), "True Resource temporarily unavailable\n");
    } else {
        assert_eq!(report["outcome"], json!({"signalled": {"signal": 9}}), "{said}");
        assert!(said.contains("more processes and threads than a task may have"), "{said}");
    }
}

#[test]
fn a_task_that_signals_its_own_group_ends_only_itself() {
    let place = Place::lower(&[]);
    let lease = place.peer.shell("trap '' TERM; kill -TERM 0; echo here; kill -KILL 0");
    assert_eq!(place.peer.report(&lease)["outcome"], json!({"signalled": {"signal": 9}}));
    assert_eq!(place.peer.stdout(&lease), "here\n");
    assert!(!place.peer.stderr(&lease).contains("was killed"), "{}", place.peer.stderr(&lease));
}

#[test]
fn a_worker_that_is_killed_leaves_no_process() {
    let mut place = Place::lower(&["--slots", "1"]);
    let token = token();
    let lease = place.peer.shell(&format!("{}; sleep {token}", daemons(&token)));
    place.peer.wait_for_output(&lease, "up");
    let stages = place.worker.stages();
    place.worker.kill();
    wait_for_processes(&token, 0);
    eventually("the stages are gone", || stages.iter().all(|stage| is_dead(*stage)));
}

#[test]
fn a_stage_that_is_stopped_does_not_outlive_the_worker() {
    for signal in [Signal::TERM, Signal::QUIT, Signal::KILL] {
        let mut place = Place::lower(&["--grace", "300ms", "--slots", "1", "--ready", "0"]);
        let token = token();
        let lease = place.peer.shell(&format!("{}; sleep {token}", daemons(&token)));
        place.peer.wait_for_output(&lease, "up");
        let stage = place.worker.stages()[0];
        kill_process(stage, Signal::STOP).unwrap();
        place.worker.signal(signal);
        place.worker.exit();
        wait_for_processes(&token, 0);
        eventually("the stage is gone", || is_dead(stage));
    }
}

#[test]
fn what_a_killed_stage_leaves_is_ended_by_the_worker() {
    let place = Place::lower(&["--slots", "1", "--ready", "0"]);
    let token = token();
    let lease = place.peer.shell(&format!("{}; sleep {token}", daemons(&token)));
    place.peer.wait_for_output(&lease, "up");
    let stages: Vec<Pid> = place.worker.stages();
    kill_process(stages[0], Signal::KILL).unwrap();
    assert_eq!(place.peer.report(&lease)["outcome"], json!({"signalled": {"signal": 9}}));
    assert_eq!(processes(&token), [0; 0]);
    assert_eq!(place.peer.report(&place.peer.shell("exit 0"))["outcome"], json!({"exited": {"code": 0}}));
}

/// The tests themselves may be run by the user that tasks have.
#[test]
fn what_else_the_user_runs_does_not_count_as_the_tasks() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let wait = || {
        let held = std::sync::Arc::clone(&held);
        std::thread::Builder::new().stack_size(64 << 10).spawn(move || held.lock().unwrap().recv().is_ok()).unwrap()
    };
    let threads: Vec<_> = (0..450).map(|_| wait()).collect();
    let place = Place::lower(&[]);
    let lease = place.peer.shell("for i in 1 2 3 4 5; do (sleep 0.01; echo $i) & done; wait");
    assert_eq!(place.peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}), "{}", place.peer.stderr(&lease));
    assert_eq!(place.peer.stdout(&lease).lines().count(), 5);
    drop(hold);
    assert!(threads.into_iter().all(|thread| !thread.join().unwrap()));
}

/// Without a cgroup that counts it, what a task takes is seen by looks from outside, which it may try to avoid.
#[test]
fn what_a_task_hides_on_the_disk_counts_as_too_much() {
    let place = Place::lower(&[]);
    let closed = "mkdir -p a/b; head -c 1000000 /dev/zero > a/b/c; chmod 0 a; sleep 60";
    let hidden = "import ctypes, time\nf = open('f', 'wb')\nf.write(b'x' * 1000000)\n\
                  assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0\ntime.sleep(60)";
    for (kind, code) in [("shell", closed), ("python", hidden)] {
        let lease = place.peer.task(json!({"run": {"kind": kind, "code": code}}));
        assert_eq!(place.peer.report(&lease)["outcome"], "disk_limit", "{code}: {}", place.peer.stderr(&lease));
    }
    eventually("attempts are removed", || place.bench.attempts() == 0);
}
