//! Output: live, whole, capped, and in batches that the coordinator takes.

use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::json;

use crate::peer::{Fault, Peer, problem};
use crate::run::{Bench, eventually};

/// The most memory that the process had. gVisor does not remember that, and takes all of a program's file for its memory: there
/// it is what the process has now and has in no file.
fn resident_kib(pid: Pid) -> u64 {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap();
    let kib = |line: &str| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
    match read("status").lines().find_map(|line| line.strip_prefix("VmHWM:")) {
        Some(most) => kib(most),
        None => read("smaps").lines().filter_map(|line| line.strip_prefix("Anonymous:")).map(kib).sum(),
    }
}

#[test]
fn output_arrives_while_the_task_runs() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let gate = bench.gate();
    let lease = peer.python(&format!(
        "import os, time\nprint('first')\nwhile not os.path.exists('{}'): time.sleep(0.02)\nprint('second')",
        gate.display()
    ));
    peer.wait_for_output(&lease, "first\n");
    assert!(!peer.is_reported(&lease));
    std::fs::write(gate, "").unwrap();
    assert_eq!(peer.report(&lease)["last_event"], json!(peer.events(&lease).len()));
    assert_eq!(peer.stdout(&lease), "first\nsecond\n");
}

#[test]
fn characters_are_never_split_and_other_bytes_arrive_as_they_are() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let code = "import sys, time\nout = sys.stdout.buffer\nfor byte in '€🦀é'.encode():\n out.write(bytes([byte])); out.flush(); time.sleep(0.06)\n";
    let text = peer.python(code);
    let binary = peer.python(
        "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 300)\nsys.stdout.buffer.write('é'.encode()[:1])",
    );
    peer.report(&text);
    assert!(peer.events(&text).values().all(|event| event["text"].is_string()), "{:?}", peer.events(&text));
    assert_eq!(peer.stdout(&text), "€🦀é");
    peer.report(&binary);
    let expected = [(0..=255).collect::<Vec<u8>>().repeat(300), vec![0xC3]].concat();
    assert_eq!(peer.output(&binary, "stdout"), expected);
}

#[test]
fn output_that_grows_when_it_is_escaped_still_fits_a_request() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    // The peer itself refuses a body over 64 KiB.
    let lease = peer.python("import sys\nsys.stdout.write('\\x01\"' * 200000)\nfor i in range(3000):\n sys.stdout.write('o'); sys.stderr.write('e')");
    peer.report(&lease);
    assert_eq!(peer.stdout(&lease), "\u{1}\"".repeat(200_000) + &"o".repeat(3000));
    assert_eq!(peer.stderr(&lease), "e".repeat(3000));
}

#[test]
fn beyond_the_limit_the_middle_is_dropped_and_both_ends_are_kept() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let code = "for i in range(100000): print(f'line {i:06} é')";
    let lease = peer.task(json!({"run": {"kind": "python", "code": code}, "limits": {"output_bytes": 200_001}}));
    let report = peer.report(&lease);
    assert_eq!(report["written_bytes"]["stdout"], 15 * 100_000);
    let kept = peer.stdout(&lease);
    let dropped = report["dropped_bytes"]["stdout"].as_u64().unwrap();
    let line = format!("\n[… {dropped} bytes left out …]\n");
    let (head, tail) = kept.split_once(&line).expect("a line stands where the middle is missing");
    assert!((199_990..=200_001).contains(&(head.len() + tail.len())), "{}", kept.len());
    assert_eq!(dropped, 15 * 100_000 - (head.len() + tail.len()) as u64);
    assert!(head.starts_with("line 000000 é\n") && tail.ends_with("line 099999 é\n"));
    let whole = peer.task(json!({"run": {"kind": "python", "code": code}, "limits": {"output_bytes": 1_500_000}}));
    peer.report(&whole);
    let expected: String = (0..100_000).map(|i| format!("line {i:06} é\n")).collect();
    assert!(peer.stdout(&whole) == expected, "what fits the limit is kept whole");
}

#[test]
fn a_flood_ends_the_task_and_does_not_grow_the_worker() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &[]);
    let lease = peer.task(
        json!({"run": {"kind": "command", "argv": ["yes", "flooding the worker with gigabytes"]}, "timeout_s": 300}),
    );
    let report = peer.report(&lease);
    assert_eq!(report["outcome"], "output_limit");
    assert!(report["written_bytes"]["stdout"].as_u64().unwrap() > 1 << 30);
    assert_eq!(peer.output(&lease, "stdout").len() / 1000, 10 * (1 << 20) / 1000);
    assert!(resident_kib(worker.pid()) < 60 << 10, "{} KiB", resident_kib(worker.pid()));
}

#[test]
fn a_slow_coordinator_holds_the_task_back_instead_of_filling_the_worker() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &[]);
    peer.fault("/events", 1_000_000, Fault::Answer(503, problem(503, "unavailable")));
    let code = "import sys\nout = open('written', 'w')\nfor i in range(640):\n sys.stdout.write('x' * 65536); out.write('.'); out.flush()";
    let lease = peer.task(
        json!({"run": {"kind": "python", "code": code}, "timeout_s": 120, "limits": {"output_bytes": 100_000_000u64}}),
    );
    let written = || bench.in_attempt("work/written").map_or(0, |text| text.len());
    eventually("the task is held back", || {
        let before = written();
        let since = Instant::now();
        eventually("a moment", || since.elapsed() > Duration::from_millis(300));
        before > 10 && written() == before
    });
    assert!(written() < 150, "{}", written());
    peer.heal();
    assert_eq!(peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}));
    assert_eq!(peer.output(&lease, "stdout").len(), 640 * 65536);
    assert!(resident_kib(worker.pid()) < 60 << 10, "{} KiB", resident_kib(worker.pid()));
}

#[test]
fn events_whose_answer_is_lost_are_not_doubled() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    peer.fault("/events", 2, Fault::LoseAnswer);
    peer.fault("/events", 2, Fault::Answer(500, problem(500, "internal")));
    let lease = peer.shell("for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done");
    peer.report(&lease);
    assert_eq!(peer.stdout(&lease), "1\n2\n3\n4\n5\n6\n");
}

#[test]
fn after_a_gap_events_go_on_from_the_expected_number() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let gate = bench.gate();
    let lease = peer.shell(&format!(
        "echo one; sleep 0.2; echo two; while ! [ -e {} ]; do sleep 0.02; done; echo three",
        gate.display()
    ));
    peer.wait_for_output(&lease, "two");
    peer.forget_events(&lease, 2);
    std::fs::write(gate, "").unwrap();
    assert_eq!(peer.report(&lease)["last_event"], 2);
    assert_eq!(peer.stdout(&lease), "one\nthree\n");
}

#[test]
fn a_worker_at_rest_is_small() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &[]);
    peer.report(&peer.shell("true"));
    let kib = resident_kib(worker.pid());
    eprintln!("a worker at rest has {kib} KiB");
    assert!((1000..20_000).contains(&kib), "{kib} KiB");
}

#[test]
fn a_task_whose_output_is_too_much_for_the_coordinator_runs_on_and_is_reported() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    peer.fault_after("/events", 1, Fault::Answer(413, problem(413, "too_large")));
    // More than the worker buffers, and all of it would be sent live.
    let code = "import sys\nfor _ in range(160): sys.stdout.write('x' * 100000)\nsys.exit(3)";
    let limits = json!({"output_bytes": 64 << 20});
    let lease = peer.task(json!({"run": {"kind": "python", "code": code}, "limits": limits, "timeout_s": 20}));
    let report = peer.report(&lease);
    assert_eq!(report["outcome"], json!({"exited": {"code": 3}}));
    let kept = peer.output(&lease, "stdout").len() as u64;
    assert_eq!(report["last_event"], json!(peer.events(&lease).len()));
    assert_eq!(report["written_bytes"]["stdout"], json!(16_000_000));
    assert_eq!(report["dropped_bytes"]["stdout"], json!(16_000_000 - kept));
}
