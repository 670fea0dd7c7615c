//! Walls that stand before there is a task for them.

use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::peer::Peer;
use crate::run::{Bench, eventually};

const OK: &str = r#"{"exited":{"code":0}}"#;

/// What waits in the directory of attempts for a task.
fn waiting(bench: &Bench) -> usize {
    // A worker that has just begun has no such directory.
    let entries = std::fs::read_dir(bench.state().join("attempts")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('.') && name != ".etc").count()
}

#[test]
fn every_free_slot_has_its_walls_ready_and_gets_new_ones_after_each_task() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &["--slots", "2"]);
    for _ in 0..3 {
        eventually("both slots are ready", || waiting(&bench) == 2 && worker.stages().len() == 2);
        let lease = peer.shell("echo > left; ls /workspace | wc -l");
        assert_eq!(peer.report(&lease)["outcome"].to_string(), OK);
        assert_eq!(peer.stdout(&lease), "1\n", "it finds nothing of the task before it");
    }
    eventually("attempts are removed", || bench.attempts() == 0);
}

#[test]
fn walls_that_fell_while_they_waited_are_built_anew_for_the_task() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &["--slots", "1"]);
    worker.logged("confined by bubblewrap");
    eventually("the slot is ready", || waiting(&bench) == 1 && worker.stages().len() == 1);
    let stage = worker.stages()[0];
    kill_process(stage, Signal::KILL).unwrap();
    eventually("the walls fell", || crate::processes::is_dead(stage));
    let lease = peer.shell("echo done");
    assert_eq!(peer.report(&lease)["outcome"].to_string(), OK, "{}", peer.stderr(&lease));
    assert_eq!(peer.stdout(&lease), "done\n");
}

#[test]
fn a_task_with_a_memory_limit_of_its_own_gets_walls_of_its_own() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    eventually("the slot is ready", || waiting(&bench) == 1);
    let size = "df -k --output=size /dev/shm | tail -n 1";
    let usual = peer.shell(size);
    peer.report(&usual);
    let lease = peer.task(json!({"run": {"kind": "shell", "code": size}, "limits": {"memory_bytes": 64 << 20}}));
    peer.report(&lease);
    assert_eq!((peer.stdout(&usual).trim(), peer.stdout(&lease).trim()), ("1048576", "131072"));
}

#[test]
fn a_worker_that_leaves_takes_down_the_walls_that_wait() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &["--slots", "2"]);
    eventually("both slots are ready", || waiting(&bench) == 2 && worker.stages().len() == 2);
    worker.signal(Signal::TERM);
    assert_eq!(worker.code(), Some(0));
    assert_eq!((waiting(&bench), bench.attempts()), (0, 0));
}

#[test]
fn walls_that_wait_fall_with_a_worker_that_is_killed_and_are_swept_at_the_next_start() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &["--slots", "1"]);
    worker.logged("confined by bubblewrap");
    eventually("the slot is ready", || waiting(&bench) == 1 && worker.stages().len() == 1);
    // Bubblewrap's two, pid 1, and the one that waits to be the program; inside gVisor bubblewrap has one.
    eventually("the last of them waits", || worker.descendants().len() >= 3);
    let processes = worker.descendants();
    worker.kill();
    eventually("all of them are gone", || processes.iter().all(|pid| crate::processes::is_dead(*pid)));
    let _next = bench.worker(&peer, &["--ready", "0"]);
    eventually("what it left is swept", || waiting(&bench) == 0);
    let lease = peer.shell("echo done");
    assert_eq!(peer.report(&lease)["outcome"].to_string(), OK);
}
