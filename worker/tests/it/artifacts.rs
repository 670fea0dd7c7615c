//! Files that came of a task: uploaded before the report, listed in it, and never a reason to lose it.

use serde_json::{Value, json};

use crate::peer::{Fault, Peer, problem};
use crate::run::Bench;

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn listed(path: &str, stored: bool) -> Value {
    json!({"path": path, "size": 3, "sha256": ABC, "media_type": "text/plain", "kind": "artifact", "stored": stored})
}

#[test]
fn files_that_a_task_made_are_uploaded_before_it_is_reported() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let lease = peer.task(json!({
        "run": {"kind": "shell", "code": "mkdir output; printf abc > output/a.txt; printf abc > b.txt; ln -s /etc/passwd c; : > .hidden"},
        "files": {"given.txt": "given"},
    }));
    let report = peer.report(&lease);
    let mut output = listed("output/a.txt", true);
    output["kind"] = json!("output");
    assert_eq!(report["artifacts"], json!([listed("b.txt", true), output]));
    assert_eq!(report["skipped"], json!([{"path": "c", "why": "a symbolic link"}]));
    let uploads = peer.uploads(&lease);
    assert_eq!(uploads.keys().collect::<Vec<_>>(), ["b.txt", "output/a.txt"]);
    assert_eq!(uploads["b.txt"], b"abc");
}

#[test]
fn a_task_that_failed_keeps_its_files_too() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let lease = peer.shell("printf abc > b.txt; exit 3");
    assert_eq!(peer.report(&lease)["artifacts"], json!([listed("b.txt", true)]));
}

#[test]
fn files_beyond_the_limit_are_listed_and_not_uploaded() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--artifacts-limit", "1M"]);
    let code = "truncate -s 150M big.bin; printf abc > small.txt";
    let lease = peer
        .task(serde_json::json!({"run": {"kind": "shell", "code": code}, "limits": {"file_size_bytes": 200 << 20}}));
    let report = peer.report(&lease);
    assert_eq!(report["artifacts"][0]["size"], 150 << 20);
    assert_eq!(report["artifacts"][0]["stored"], false);
    assert_eq!(report["artifacts"][0]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(report["artifacts"][1], listed("small.txt", true));
    assert_eq!(report["skipped"][0]["path"], "big.bin");
    assert_eq!(peer.uploads(&lease).keys().collect::<Vec<_>>(), ["small.txt"]);
}

#[test]
fn an_upload_that_fails_costs_the_file_and_not_the_report() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    peer.fault("path=a.txt", 1, Fault::Answer(507, problem(507, "disk_full")));
    let lease = peer.shell("printf abc > a.txt; printf abc > b.txt");
    let report = peer.report(&lease);
    assert_eq!(report["outcome"], json!({"exited": {"code": 0}}));
    assert_eq!(report["artifacts"], json!([listed("a.txt", false), listed("b.txt", false)]));
    assert!(report["skipped"][0]["why"].as_str().unwrap().contains("disk_full"), "{report}");
    assert!(peer.uploads(&lease).is_empty(), "what met the first would meet the second");
}

/// Root reads it all the same.
#[test]
fn a_file_that_cannot_be_read_costs_itself_and_passes_for_no_lost_coordinator() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &[]);
    let lease = peer.shell("printf abc > a.txt; printf abc > b.txt; chmod 0 a.txt");
    let report = peer.report(&lease);
    if rustix::process::getuid().is_root() {
        assert_eq!(report["artifacts"], json!([listed("a.txt", true), listed("b.txt", true)]));
    } else {
        assert_eq!(report["artifacts"], json!([listed("b.txt", true)]));
        assert!(report["skipped"][0]["why"].as_str().unwrap().starts_with("cannot be read"), "{report}");
    }
    let log = worker.log();
    assert!(!log.contains("cannot connect") && !log.contains("is well again"), "{log}");
}

#[test]
fn an_upload_whose_answer_is_lost_is_made_again() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    peer.fault("path=a.txt", 2, Fault::LoseAnswer);
    let lease = peer.shell("printf abc > a.txt");
    assert_eq!(peer.report(&lease)["artifacts"], json!([listed("a.txt", true)]));
}

#[test]
fn a_file_that_is_too_large_over_there_does_not_keep_the_next_from_being_stored() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    peer.fault("path=a.txt", 1, Fault::Answer(413, problem(413, "too_large")));
    let lease = peer.shell("printf abc > a.txt; printf abc > b.txt");
    assert_eq!(peer.report(&lease)["artifacts"], json!([listed("a.txt", false), listed("b.txt", true)]));
}

#[test]
fn a_lease_that_is_lost_while_the_task_runs_uploads_nothing() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &["--slots", "1"]);
    let lost = peer.shell("printf abc > a.txt; echo begun; sleep 1");
    peer.wait_for_output(&lost, "begun");
    peer.lose(&lost);
    let next = peer.shell("true");
    peer.report(&next);
    worker.logged("lease lost");
    assert!(!peer.is_reported(&lost) && peer.uploads(&lost).is_empty());
}

#[test]
fn many_files_with_long_names_still_fit_into_the_report() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--artifacts-limit", "0"]);
    let lease = peer.python(
        "import os\nd = 'q\"' * 100\nos.mkdir(d)\nfor n in range(1200):\n    open(f'{d}/{n:04}' + '\\\\' * 200, 'w').write('x')\n",
    );
    let report = peer.report(&lease);
    assert!(report["artifacts"].as_array().unwrap().len() > 500);
    assert_eq!(report["skipped"].as_array().unwrap().len(), 100);
}
