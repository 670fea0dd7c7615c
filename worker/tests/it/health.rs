//! `--http`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;

use crate::peer::{Fault, Peer, problem};
use crate::run::{Bench, Running, eventually};

fn address(worker: &Running) -> String {
    worker.logged("health at http://");
    let log = worker.log();
    let line = log.lines().find_map(|line| line.split("health at http://").nth(1)).unwrap();
    line.trim().to_owned()
}

fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn readyz_follows_the_coordinator_and_metrics_count() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &["--http", "127.0.0.1:0"]);
    let address = address(&worker);
    let lease = peer.shell("exit 3");
    peer.report(&lease);
    assert_eq!(get(&address, "/livez"), (200, "ok\n".into()));
    eventually("ready", || get(&address, "/readyz").0 == 200);
    let metrics = get(&address, "/metrics").1;
    assert!(metrics.contains("cw_worker_tasks_started_total 1\n"), "{metrics}");
    assert!(metrics.contains("cw_worker_tasks_ended_total{reason=\"exit_nonzero\"} 1\n"), "{metrics}");
    assert!(metrics.contains("cw_worker_slots 3\n"), "{metrics}");
    assert_eq!(get(&address, "/else").0, 404);
    // The poll that is parked is answered well; the next one is refused.
    peer.fault("/v1/leases", 1000, Fault::Answer(401, problem(401, "key_revoked")));
    peer.report(&peer.shell("true"));
    eventually("not ready", || get(&address, "/readyz") == (503, "coordinator refused the key (401)\n".into()));
    peer.heal();
    eventually("ready again", || get(&address, "/readyz").0 == 200);
}

#[test]
fn readyz_says_when_the_coordinator_is_away_and_when_the_worker_drains() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let away = Running::start(bench.command("http://127.0.0.1:9", &["--http", "127.0.0.1:0"]));
    let at = address(&away);
    eventually("away", || get(&at, "/readyz").1 == "cannot connect to coordinator at http://127.0.0.1:9\n");
    drop(away);
    let worker = bench.worker(&peer, &["--http", "127.0.0.1:0"]);
    let at = address(&worker);
    let lease = peer.shell("echo up; sleep 600");
    peer.wait_for_output(&lease, "up");
    worker.signal(Signal::TERM);
    eventually("draining", || get(&at, "/readyz") == (503, "draining\n".into()));
    assert_eq!(get(&at, "/livez").0, 200);
}

#[test]
fn a_request_without_end_is_cut_off() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &["--http", "127.0.0.1:0"]);
    let mut stream = TcpStream::connect(address(&worker)).unwrap();
    let _ = stream.write_all(&vec![b'x'; 1 << 20]);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"));
}
