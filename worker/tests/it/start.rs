//! What the worker says about its settings before it starts.

use std::os::unix::fs::PermissionsExt as _;

use crate::peer::Peer;
use crate::run::{Bench, eventually};

const URL: &str = "http://127.0.0.1:9";

fn refused(args: &[&str], url: &str, words: &str) {
    let (code, said) = Bench::new().refused(url, args);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains(words), "expected {words:?} in {said:?}");
    assert_eq!(said.lines().count(), 1, "{said:?}");
}

#[test]
fn every_wrong_setting_is_named_with_what_to_do() {
    refused(&["--key-file", ""], URL, "no key file: give --key-file or CW_KEY_FILE");
    refused(&["--key-file", "/nonexistent/key"], URL, "cannot read key file /nonexistent/key");
    refused(&["--key-file", "/dev/null"], URL, "key file /dev/null is empty");
    refused(&[], "https://skia:7222", "https is not spoken");
    refused(&[], "skia:7222", "expected http://host:port or unix:/path");
    refused(&[], "", "no coordinator");
    refused(&[], "http://user:secret@skia:7222", "must not hold a user or password");
    refused(&["--repo", "../up"], URL, "repo `../up`: not a valid name");
    refused(&["--repo", ""], URL, "no repo");
    refused(&["--state-dir", "/proc/nowhere"], URL, "cannot make state directory /proc/nowhere");
    refused(&["--http", "0.0.0.0:0"], URL, "only a loopback address is served");
    refused(&["--allow", "authproxy:4000,localhost:80"], URL, "--allow `localhost:80`: host `localhost`: in a task");
    refused(&["--python", "/nonexistent/python"], URL, "--python /nonexistent/python");
}

/// A root worker's tasks are other users, and cannot get through what is closed to those; an ordinary user's are that user.
#[test]
fn a_directory_for_tasks_is_readable_for_them_or_named_with_what_to_do() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let venv = bench.home.path().join("closed/venv");
    std::fs::create_dir_all(&venv).unwrap();
    std::fs::write(venv.join("library"), "a library").unwrap();
    std::fs::set_permissions(bench.home.path().join("closed"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let shown = venv.display().to_string();
    if rustix::process::getuid().is_root() {
        let (code, said) = bench.refused(&peer.url(), &["--ro-mount", &shown]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&shown) && said.contains("closed to the users that tasks run as"), "{said}");
        std::fs::set_permissions(bench.home.path().join("closed"), std::fs::Permissions::from_mode(0o711)).unwrap();
    }
    let _worker = bench.worker(&peer, &["--ro-mount", &shown]);
    let lease = peer.shell(&format!("cat {shown}/library; echo x > {shown}/library"));
    peer.report(&lease);
    assert_eq!(peer.stdout(&lease), "a library");
    // gVisor looks at the file's mode first.
    let complaint = peer.stderr(&lease);
    let refusals = ["Read-only file system", "Permission denied"];
    assert!(refusals.iter().any(|refusal| complaint.contains(refusal)), "{complaint}");
    assert_eq!(std::fs::read_to_string(venv.join("library")).unwrap(), "a library");
}

#[test]
fn flags_that_are_no_numbers_or_durations_are_usage_errors() {
    for args in [["--slots", "0"], ["--grace", "soon"], ["--idle-exit", "1 week"]] {
        let (code, said) = Bench::new().refused(URL, &args);
        assert_eq!(code, Some(2));
        assert!(said.contains(args[0]), "{said}");
    }
}

#[test]
fn a_second_worker_on_one_state_directory_is_refused_with_the_holder() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let first = bench.worker(&peer, &[]);
    peer.wait_for_count("/v1/leases", 1);
    let (code, said) = bench.refused(&peer.url(), &[]);
    assert_eq!(code, Some(2));
    let holder = format!("is in use by a worker (pid {})", first.pid().as_raw_nonzero());
    assert!(said.contains(&holder), "{said}");
}

#[test]
fn the_key_file_is_deleted_only_with_key_once() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let key = bench.home.path().join("key");
    let mut worker = bench.worker(&peer, &["--idle-exit", "0s"]);
    assert_eq!(worker.code(), Some(0));
    assert!(key.exists());
    let _worker = bench.worker(&peer, &["--key-once"]);
    eventually("the key file is gone", || !key.exists());
    peer.wait_for_count("/v1/leases", 1);
}

#[test]
fn the_worker_says_who_it_is_and_what_it_can_run() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--repo", "b,a,b", "--slots", "7"]);
    let body = peer.seen("/v1/leases", |body| body["wait_s"] == 30).body;
    assert_eq!(body["repos"], serde_json::json!(["b", "a"]));
    assert_eq!(
        body["worker"]["runs"],
        serde_json::json!([
            "python",
            "javascript",
            "shell",
            "command",
            "handler",
            "limits",
            "network:none",
            "network:restricted",
            "session"
        ])
    );
    let proved: Vec<&str> =
        body["worker"]["confinement"].as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
    for layer in ["bwrap", "uid", "namespaces", "privileges", "seccomp", "rlimits", "files", "network"] {
        assert!(proved.contains(&layer), "{layer}: {proved:?}");
    }
    assert_eq!(body["worker"]["slots"], 7);
}

#[test]
fn leftover_attempts_are_swept_and_the_state_directory_is_private() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let left = bench.state().join("attempts/left/deep/er");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("file"), "x").unwrap();
    std::fs::set_permissions(&left, std::fs::Permissions::from_mode(0o000)).unwrap();
    let _worker = bench.worker(&peer, &[]);
    peer.wait_for_count("/v1/leases", 1);
    assert_eq!(bench.attempts(), 0);
    let mode = std::fs::metadata(bench.state().join("spool")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
