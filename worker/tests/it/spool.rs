//! Reports outlive the worker, and what cannot be delivered is not lost silently.

use rustix::process::Signal;
use serde_json::json;

use crate::peer::{Fault, Peer, problem};
use crate::run::{Bench, eventually, files};

fn unavailable() -> Fault {
    Fault::Answer(503, problem(503, "unavailable"))
}

#[test]
fn a_report_is_on_disk_before_it_is_sent_and_gone_once_it_is_acknowledged() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    peer.fault("/report", 1, Fault::Hang);
    let lease = peer.shell("echo out");
    peer.seen("/report", |_| true);
    assert_eq!(bench.spooled(), [bench.state().join(format!("spool/{lease}.json"))]);
    peer.heal();
    assert_eq!(peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}));
    eventually("the spool is empty", || bench.spooled().is_empty());
}

#[test]
fn after_kill_9_the_next_start_sends_the_report_and_the_events_that_were_left() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &[]);
    peer.fault("/events", 1000, unavailable());
    let lease = peer.python("print('x' * 100000); print('end')");
    eventually("the report is saved", || !bench.spooled().is_empty());
    worker.kill();
    assert!(!peer.is_reported(&lease) && peer.stdout(&lease).is_empty());
    peer.heal();
    let _worker = bench.worker(&peer, &[]);
    assert_eq!(peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}));
    assert_eq!(peer.stdout(&lease), "x".repeat(100_000) + "\nend\n");
    eventually("the spool is empty", || bench.spooled().is_empty());
}

#[test]
fn a_report_whose_answer_is_lost_is_sent_again_and_settles() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    peer.fault("/report", 2, Fault::LoseAnswer);
    peer.fault("/report", 2, Fault::Answer(500, problem(500, "internal")));
    peer.fault("/report", 1, Fault::Answer(507, problem(507, "disk_full")));
    let lease = peer.shell("echo out");
    peer.wait_for_count("/report", 6);
    eventually("the spool is empty", || bench.spooled().is_empty());
    assert_eq!(peer.stdout(&lease), "out\n");
}

#[test]
fn a_report_of_a_lost_lease_is_dropped() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &[]);
    peer.fault("/report", 1, Fault::Answer(409, problem(409, "lease_lost")));
    let lease = peer.shell("echo out");
    worker.logged("report dropped");
    eventually("the spool is empty", || bench.spooled().is_empty());
    peer.report(&peer.shell("true"));
    assert!(!peer.is_reported(&lease));
}

#[test]
fn a_report_whose_key_is_refused_is_kept_and_its_slot_is_free_again() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &["--slots", "1"]);
    peer.fault("/report", 1, Fault::Answer(401, problem(401, "key_revoked")));
    let lease = peer.shell("echo out");
    worker.logged("report kept in");
    peer.report(&peer.shell("true"));
    eventually("the other report is settled", || bench.spooled().len() == 1);
    worker.kill();
    let _worker = bench.worker(&peer, &[]);
    assert_eq!(peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}));
    eventually("the spool is empty", || bench.spooled().is_empty());
}

#[test]
fn a_report_that_is_refused_for_what_it_is_is_set_aside() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &[]);
    peer.fault("/report", 1, Fault::Answer(422, problem(422, "invalid_field")));
    let lease = peer.shell("echo out");
    worker.logged("report set aside in");
    let refused = bench.state().join("spool/refused");
    assert_eq!(files(&refused), [refused.join(format!("{lease}.json"))]);
    assert!(bench.spooled().is_empty());
}

#[test]
fn a_spool_file_that_cannot_be_read_is_set_aside_and_the_worker_starts() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let spool = bench.state().join("spool");
    std::fs::create_dir_all(&spool).unwrap();
    for (name, content) in [("empty", ""), ("garbage", "{]"), ("binary", "\0\u{1}\n\0"), ("cut", "{\"lease\":1}\n")] {
        std::fs::write(spool.join(format!("{name}.json")), content).unwrap();
    }
    std::fs::write(spool.join("half.part"), "{").unwrap();
    let worker = bench.worker(&peer, &[]);
    peer.report(&peer.shell("true"));
    assert_eq!(files(&spool.join("refused")).len(), 4);
    eventually("the spool is empty", || bench.spooled().is_empty());
    assert_eq!(worker.log().matches("report set aside in").count(), 4, "{}", worker.log());
}

#[test]
fn a_spool_file_that_was_cut_off_never_becomes_a_report() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &[]);
    peer.fault("/events", 1000, unavailable());
    let lease = peer.python("print('x' * 100000)");
    eventually("the report is saved", || !bench.spooled().is_empty());
    worker.kill();
    peer.heal();
    let file = bench.spooled().remove(0);
    let content = std::fs::read(&file).unwrap();
    std::fs::write(&file, &content[..content.len() - 50]).unwrap();
    let worker = bench.worker(&peer, &[]);
    worker.logged("the file is cut off");
    peer.report(&peer.shell("true"));
    assert!(!peer.is_reported(&lease));
}

#[test]
fn a_drain_leaves_an_undelivered_report_for_the_next_start() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &["--grace", "200ms"]);
    peer.fault("/report", 1000, unavailable());
    let lease = peer.shell("echo out");
    peer.wait_for_count("/report", 1);
    worker.signal(Signal::TERM);
    assert_eq!(worker.code(), Some(0));
    worker.logged("waits in the spool for the next start");
    assert_eq!(bench.spooled().len(), 1);
    peer.heal();
    let _worker = bench.worker(&peer, &[]);
    peer.report(&lease);
    eventually("the spool is empty", || bench.spooled().is_empty());
}

#[test]
fn a_report_is_sent_without_the_events_that_are_too_many() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &[]);
    peer.fault("/events", 1000, unavailable());
    let lease = peer.python("print('x' * 99999)");
    eventually("the report is saved", || !bench.spooled().is_empty());
    worker.kill();
    peer.heal();
    // The first batch is taken; the next one is too much.
    peer.fault_after("/events", 1, Fault::Answer(413, problem(413, "too_large")));
    let worker = bench.worker(&peer, &[]);
    let report = peer.report(&lease);
    worker.logged("the rest of the output is dropped");
    assert_eq!(report["outcome"], json!({"exited": {"code": 0}}));
    let (kept, events) = (peer.stdout(&lease).len() as u64, peer.events(&lease).len());
    assert!(kept > 0 && events > 0);
    assert_eq!(report["last_event"], json!(events));
    assert_eq!(report["dropped_bytes"]["stdout"], json!(100_000 - kept));
    eventually("the spool is empty", || bench.spooled().is_empty());
    assert!(files(&bench.state().join("spool/refused")).is_empty());
}
