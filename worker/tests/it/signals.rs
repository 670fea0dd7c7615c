//! Draining, leaving, `--once` and `--idle-exit`.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::json;

use crate::peer::{Fault, Peer, problem};
use crate::run::{Bench, Running, processes, token, wait_for_processes};

#[test]
fn term_lets_running_tasks_finish_and_takes_no_more() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &[]);
    let gate = bench.gate();
    let lease = peer.shell(&format!("echo up; while ! [ -e {} ]; do sleep 0.02; done; echo done", gate.display()));
    peer.wait_for_output(&lease, "up");
    worker.signal(Signal::TERM);
    let told = peer.seen("/v1/leases", |body| body["worker"]["state"] == "draining");
    assert_eq!(told.body["wait_s"], 0);
    let left_waiting = peer.shell("true");
    std::fs::write(gate, "").unwrap();
    assert_eq!(peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}));
    assert_eq!(worker.code(), Some(0));
    let gone = peer.seen("/v1/leases", |body| body["worker"]["state"] == "gone");
    assert_eq!(gone.body["worker"]["why"], "stopped by a signal");
    assert!(!peer.requests().iter().any(|request| request.path.contains(&left_waiting)));
}

#[test]
fn when_the_grace_is_over_tasks_are_ended_and_given_back() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &["--grace", "300ms"]);
    let token = token();
    let lease = peer.shell(&format!("trap '' TERM; echo up; sleep {token}; sleep {token}"));
    peer.wait_for_output(&lease, "up");
    worker.signal(Signal::INT);
    assert_eq!(peer.release(&lease)["reason"], "drain");
    assert_eq!(worker.code(), Some(0));
    assert_eq!(processes(&token), [0; 0]);
    assert!(!peer.is_reported(&lease));
}

#[test]
fn a_second_term_ends_and_gives_back_at_once() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &["--grace", "10m"]);
    let token = token();
    let lease = peer.shell(&format!("echo up; sleep {token}"));
    peer.wait_for_output(&lease, "up");
    worker.signal(Signal::TERM);
    worker.logged("draining: 1 running");
    worker.signal(Signal::TERM);
    assert_eq!(peer.release(&lease)["reason"], "drain");
    assert_eq!(worker.code(), Some(0));
    assert_eq!(processes(&token), [0; 0]);
}

#[test]
fn quit_leaves_at_once_and_the_processes_go_too() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &["--grace", "10m"]);
    let token = token();
    let lease = peer.shell(&format!("trap '' TERM; echo up; sleep {token}"));
    peer.wait_for_output(&lease, "up");
    worker.signal(Signal::QUIT);
    let asked = Instant::now();
    assert_eq!(worker.code(), Some(131));
    assert!(asked.elapsed().as_secs() < 2);
    wait_for_processes(&token, 0);
}

#[test]
fn quit_also_ends_a_drain() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &["--grace", "10m"]);
    let token = token();
    let lease = peer.shell(&format!("echo up; sleep {token}"));
    peer.wait_for_output(&lease, "up");
    worker.signal(Signal::TERM);
    worker.logged("draining");
    worker.signal(Signal::QUIT);
    assert_eq!(worker.code(), Some(131));
    wait_for_processes(&token, 0);
}

#[test]
fn once_does_one_task_and_leaves() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let first = peer.shell("echo one");
    let second = peer.shell("echo two");
    let mut worker = bench.worker(&peer, &["--once"]);
    assert_eq!(worker.code(), Some(0));
    assert_eq!(peer.report(&first)["outcome"], json!({"exited": {"code": 0}}));
    assert!(!peer.requests().iter().any(|request| request.path.contains(&second)));
    let gone = peer.seen("/v1/leases", |body| body["worker"]["state"] == "gone");
    assert_eq!(gone.body["worker"]["why"], "its one task is done (--once)");
    assert!(bench.spooled().is_empty());
}

#[test]
fn once_with_a_refused_key_or_no_coordinator_says_so_by_its_code() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.fault("/v1/leases", 1000, Fault::Answer(401, problem(401, "key_unknown")));
    let mut refused = bench.worker(&peer, &["--once"]);
    assert_eq!(refused.code(), Some(4));
    refused.logged("coordinator refused the key (401)");
    let mut away = Running::start(bench.command("http://127.0.0.1:9", &["--once", "--idle-exit", "500ms"]));
    assert_eq!(away.code(), Some(6));
}

#[test]
fn idle_exit_leaves_when_there_was_no_task_for_that_long() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &["--idle-exit", "1s"]);
    // A task that is longer than the idle time does not make the worker idle.
    let lease = peer.shell("sleep 1.5; echo done");
    assert_eq!(peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}));
    assert_eq!(worker.code(), Some(0));
    let gone = peer.seen("/v1/leases", |body| body["worker"]["state"] == "gone");
    assert_eq!(gone.body["worker"]["why"], "no task for 1s (--idle-exit)");
}
