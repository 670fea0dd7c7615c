//! Renewal, cancel, loss, and answers that do not arrive.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::peer::{Fault, Peer, problem};
use crate::run::{Bench, Running, eventually, processes, token, wait_for_processes};

#[test]
fn the_first_act_is_a_renewal_and_without_it_nothing_is_started() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    peer.fault("/renew", 1, Fault::Answer(409, problem(409, "lease_lost")));
    let lost = peer.shell("echo begun");
    let next = peer.shell("true");
    peer.report(&next);
    let about: Vec<_> = peer.requests().into_iter().filter(|request| request.path.contains(&lost)).collect();
    assert_eq!(about.len(), 1, "{about:?}");
    assert!(about[0].path.ends_with("/renew") && about[0].body["wait_s"] == 0);
    assert_eq!(peer.stdout(&lost), "");
}

#[test]
fn a_cancel_ends_the_task_at_once_and_keeps_its_output() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let token = token();
    let lease = peer.shell(&format!("echo begun; sleep {token}"));
    peer.wait_for_output(&lease, "begun");
    let asked = Instant::now();
    peer.cancel(&lease);
    assert_eq!(peer.report(&lease)["outcome"], "cancelled");
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    assert_eq!(peer.stdout(&lease), "begun\n");
    assert_eq!(processes(&token), [0; 0]);
}

#[test]
fn a_task_that_was_cancelled_before_it_began_is_reported_cancelled() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let lease = peer.shell("sleep 600");
    peer.cancel(&lease);
    let _worker = bench.worker(&peer, &[]);
    assert_eq!(peer.report(&lease)["outcome"], "cancelled");
}

#[test]
fn a_lost_lease_ends_the_task_and_nothing_more_is_sent() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &["--slots", "1"]);
    let token = token();
    let lease = peer.shell(&format!("trap '' TERM; echo begun; sleep {token}; sleep {token}"));
    peer.wait_for_output(&lease, "begun");
    peer.lose(&lease);
    wait_for_processes(&token, 0);
    worker.logged("lease lost: the task was ended");
    let before = peer.requests().iter().filter(|request| request.path.contains(&lease)).count();
    peer.report(&peer.shell("true"));
    let after = peer.requests().iter().filter(|request| request.path.contains(&lease)).count();
    assert_eq!(before, after);
    eventually("the spool is empty", || bench.spooled().is_empty());
}

#[test]
fn a_lease_is_renewed_while_its_task_runs() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.ttl_s(3);
    let _worker = bench.worker(&peer, &[]);
    let lease = peer.shell("sleep 5; echo done");
    assert_eq!(peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}));
    let renewals: Vec<_> = peer.requests().into_iter().filter(|request| request.path.ends_with("/renew")).collect();
    assert!((4..15).contains(&renewals.len()), "{}", renewals.len());
    assert!(renewals[1..].iter().all(|request| request.body["wait_s"] == 1), "{renewals:?}");
}

#[test]
fn when_renewals_hang_the_task_is_ended_when_its_lease_is_over() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.ttl_s(3);
    let worker = bench.worker(&peer, &["--slots", "1"]);
    let token = token();
    let lease = peer.shell(&format!("echo begun; sleep {token}"));
    peer.wait_for_output(&lease, "begun");
    peer.fault("/renew", 1000, Fault::Hang);
    let hung = Instant::now();
    wait_for_processes(&token, 0);
    assert!(hung.elapsed() < Duration::from_secs(6), "{:?}", hung.elapsed());
    worker.logged("lease lost: the task was ended");
    peer.heal();
    peer.report(&peer.shell("true"));
    assert!(!peer.is_reported(&lease));
}

#[test]
fn one_renewal_that_hangs_or_fails_does_not_cost_the_task() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.ttl_s(24);
    let _worker = bench.worker(&peer, &[]);
    let gate = bench.gate();
    let lease = peer.shell(&format!("echo begun; while ! [ -e {} ]; do sleep 0.05; done", gate.display()));
    peer.wait_for_output(&lease, "begun");
    peer.fault("/renew", 1, Fault::Hang);
    peer.fault("/renew", 1, Fault::LoseAnswer);
    peer.fault("/renew", 1, Fault::Answer(500, problem(500, "internal")));
    let so_far = peer.requests().iter().filter(|request| request.path.ends_with("/renew")).count();
    peer.wait_for_count("/renew", so_far + 5);
    std::fs::write(gate, "").unwrap();
    assert_eq!(peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}));
}

#[test]
fn a_worker_that_was_frozen_past_its_lease_publishes_nothing() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.ttl_s(2);
    let worker = bench.worker(&peer, &["--slots", "1"]);
    let (token, gate) = (token(), bench.gate());
    let ends = peer.shell(&format!("echo begun; while ! [ -e {} ]; do sleep 0.02; done; echo late", gate.display()));
    peer.wait_for_output(&ends, "begun");
    worker.signal(Signal::STOP);
    // The task ends while its worker is frozen; the lease does, too.
    std::fs::write(&gate, "").unwrap();
    let frozen = Instant::now();
    eventually("the lease is over", || frozen.elapsed() > Duration::from_millis(2500));
    worker.signal(Signal::CONT);
    worker.logged("lease lost");
    let next = peer.shell(&format!("echo begun; sleep {token}"));
    peer.wait_for_output(&next, "begun");
    assert!(!peer.is_reported(&ends));
    assert_eq!(peer.stdout(&ends), "begun\n");
    eventually("the spool is empty", || bench.spooled().is_empty());
    // And one that still runs when the worker wakes is ended.
    worker.signal(Signal::STOP);
    let frozen = Instant::now();
    eventually("the lease is over", || frozen.elapsed() > Duration::from_millis(2500));
    worker.signal(Signal::CONT);
    wait_for_processes(&token, 0);
    peer.report(&peer.shell("true"));
    assert!(!peer.is_reported(&next));
}

#[test]
fn a_spec_that_is_not_understood_is_given_back_as_unsupported() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let unknown = peer.task(json!({"run": {"kind": "shell", "code": "true"}, "gpu": 1}));
    let reason = peer.release(&unknown)["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("unsupported: gpu"), "{reason}");
    let unproved = peer.task(json!({"run": {"kind": "shell", "code": "true"}, "requires": ["vm"]}));
    assert_eq!(peer.release(&unproved)["reason"], "unsupported: this worker does not offer confinement:vm");
    let agent = peer.task(json!({"run": {"kind": "agent", "agent": "claude", "prompt": "hi"}}));
    assert_eq!(peer.release(&agent)["reason"], "unsupported: this worker does not offer agent:claude");
}

#[test]
fn trouble_with_the_coordinator_is_said_once_per_change() {
    let bench = Bench::new();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let worker = Running::start(bench.command(&format!("http://{closed}"), &[]));
    worker.logged(&format!("cannot connect to coordinator at http://{closed}"));
    let peer = Peer::at(closed);
    peer.fault("/v1/leases", 3, Fault::Answer(401, problem(401, "key_revoked")));
    worker.logged("coordinator refused the key (401)");
    worker.logged("is well again");
    peer.report(&peer.shell("true"));
    let log = worker.log();
    for words in ["cannot connect to coordinator", "refused the key (401)", "is well again"] {
        assert_eq!(log.matches(words).count(), 1, "{words}: {log}");
    }
    assert!(log.contains("check that it runs") && log.contains("check that the key"), "{log}");
}

#[test]
fn a_lease_whose_answer_is_lost_is_just_asked_for_again() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.fault("/v1/leases", 2, Fault::LoseAnswer);
    let _worker = bench.worker(&peer, &[]);
    peer.wait_for_count("/v1/leases", 3);
    assert_eq!(peer.report(&peer.shell("true"))["outcome"], json!({"exited": {"code": 0}}));
}
