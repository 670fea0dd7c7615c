//! Streams that break, lie or never come: another try within bounds, then a clear end, and never half a tree.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{fetches, well};
use crate::peer::sessions::file;
use crate::peer::{Fault, Peer, problem};
use crate::run::{Bench, eventually};

/// Makes another stream of one.
type Lie = fn(Vec<u8>) -> Vec<u8>;

fn noise(length: usize) -> Vec<u8> {
    (0..u32::try_from(length).unwrap())
        .flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes())
        .take(length)
        .collect()
}

fn detail(report: &Value, outcome: &str) -> String {
    report["outcome"][outcome]["detail"].as_str().unwrap_or_else(|| panic!("{report}")).to_owned()
}

#[test]
fn a_stream_that_is_cut_off_anywhere_is_asked_for_again() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.files("s", |tree| {
        tree.insert("large".into(), file(noise(300_000)));
        for number in 0..100 {
            tree.insert(format!("{number}"), file(noise(number)));
        }
    });
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    // Each try gets 64 KiB further, and what came before the cut counts.
    for length in 1..=4 {
        peer.fault("/workspace/blobs", 1, Fault::Cut(length << 16));
    }
    peer.fault("/workspace", 2, Fault::Cut(5_000));
    let said = well(&peer, &peer.in_session("s", "ls | wc -l; wc -c < large"));
    assert_eq!(said, "103\n300000\n");
    assert!(fetches(&peer) >= 5);
}

#[test]
fn contents_that_lie_end_the_task_before_it_begins() {
    let lies: [(&str, &str, Lie); 3] = [
        ("/workspace/blobs", "not what its sum says", |mut stream| {
            let byte = stream.len() - 100;
            stream[byte] ^= 1;
            stream
        }),
        ("/workspace/blobs", "instead of 1000", |stream| {
            let text = b"\"size\":1000";
            let at = stream.windows(text.len()).position(|window| window == text).unwrap();
            [&stream[..at], b"\"size\":1010", &stream[at + text.len()..]].concat()
        }),
        ("/workspace", "cut off", |stream| stream[..stream.len() - 20].to_vec()),
    ];
    for (route, why, lie) in lies {
        let (bench, peer) = (Bench::new(), Peer::start());
        peer.files("s", |tree| drop(tree.insert("a".into(), file(noise(1000)))));
        let _worker = bench.worker(&peer, &["--slots", "1"]);
        peer.fault(route, usize::MAX, Fault::Tamper(Arc::new(lie)));
        let lease = peer.in_session("s", "echo ran");
        let detail = detail(&peer.report(&lease), "setup_failed");
        assert!(detail.contains(why), "{why}: {detail}");
        assert_eq!(peer.stdout(&lease), "");
        eventually("nothing is left of it", || bench.attempts() == 0);
        peer.heal();
        assert_eq!(well(&peer, &peer.in_session("s", "wc -c < a")), "1000\n");
    }
}

#[test]
fn a_lie_in_the_end_of_a_stream_costs_another_try_at_most_because_each_content_has_its_own_sum() {
    let lies: [Lie; 3] = [
        |stream| [stream, b"more".to_vec()].concat(),
        |stream| {
            let text = b"\"count\":2";
            let at = stream.windows(text.len()).position(|window| window == text).unwrap();
            [&stream[..at], b"\"count\":9", &stream[at + text.len()..]].concat()
        },
        // The first content alone, with an end that is right for that.
        |stream| {
            let end = protocol::workspace::frames::BlobFrame::End { count: 1 };
            let first = 4 + u32::from_be_bytes(*stream.first_chunk().unwrap()) as usize + 1000;
            [&stream[..first], &protocol::workspace::frames::encode(&end).unwrap()].concat()
        },
    ];
    for lie in lies {
        let (bench, peer) = (Bench::new(), Peer::start());
        peer.files("s", |tree| {
            tree.insert("a".into(), file(noise(1000)));
            tree.insert("b".into(), file([&b"other"[..], &noise(995)].concat()));
        });
        let _worker = bench.worker(&peer, &["--slots", "1"]);
        peer.fault("/workspace/blobs", 1, Fault::Tamper(Arc::new(lie)));
        let expected =
            [noise(1000), [&b"other"[..], &noise(995)].concat()].map(|bytes| crate::peer::sessions::sum(&bytes));
        let said = well(&peer, &peer.in_session("s", "sha256sum a b | cut -c1-64"));
        assert_eq!(said, format!("{}\n{}\n", expected[0], expected[1]));
    }
}

#[test]
fn a_coordinator_that_fails_is_asked_again_and_one_that_refuses_is_not() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.files("s", |tree| drop(tree.insert("a".into(), file("a\n"))));
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    peer.fault("/workspace", 2, Fault::Answer(500, problem(500, "internal")));
    peer.fault("/workspace/blobs", 2, Fault::Answer(503, problem(503, "unavailable")));
    assert_eq!(well(&peer, &peer.in_session("s", "cat a")), "a\n");
    peer.fault("/workspace", usize::MAX, Fault::Answer(403, problem(403, "wrong_repo")));
    let said = detail(&peer.report(&peer.in_session("s", "true")), "setup_failed");
    assert!(said.contains("wrong_repo") && !said.contains("tried"), "{said}");
    peer.heal();
    assert_eq!(well(&peer, &peer.in_session("s", "cat a")), "a\n");
}

#[test]
fn a_stage_is_sent_again_and_when_that_is_of_no_use_the_task_says_so() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    peer.fault("/workspace/stage", 2, Fault::Answer(500, problem(500, "internal")));
    well(&peer, &peer.in_session("s", "head -c 3000000 /dev/urandom > r; echo a > a"));
    assert_eq!(peer.tree("s")["a"], file("a\n"));
    peer.fault("/workspace/stage", usize::MAX, Fault::Answer(413, problem(413, "quota_exceeded")));
    let lease = peer.in_session("s", "echo b > a; echo said");
    let said = detail(&peer.report(&lease), "push_failed");
    assert!(said.contains("quota_exceeded"), "{said}");
    assert_eq!((peer.stdout(&lease).as_str(), &peer.tree("s")["a"]), ("said\n", &file("a\n")));
    peer.heal();
    assert_eq!(well(&peer, &peer.in_session("s", "cat a")), "a\n", "what was not published is not there");
}

#[test]
fn another_session_of_the_same_name_shares_nothing_with_the_old() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.files("s", |tree| drop(tree.insert("old".into(), file("old"))));
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    assert_eq!(well(&peer, &peer.in_session("s", "ls")), "old\nskills\nutils\n");
    super::kept(&bench, 1);
    peer.anew("s");
    peer.files("s", |tree| drop(tree.insert("new".into(), file("new"))));
    assert_eq!(well(&peer, &peer.in_session("s", "ls")), "new\nskills\nutils\n");
    assert_eq!(super::asked(&peer), ["", "?since=1", ""]);
}

#[test]
fn a_cache_smaller_than_a_session_does() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.files("s", |tree| {
        for number in 0..50 {
            tree.insert(format!("{number}"), file(noise(100_000 + number)));
        }
    });
    let _worker = bench.worker(&peer, &["--slots", "1", "--cache-size", "1M"]);
    assert_eq!(well(&peer, &peer.in_session("s", "cat * 2>/dev/null | wc -c")), "5001225\n");
    eventually("the cache is small again", || {
        let cache = bench.state().join("cache");
        let directories = std::fs::read_dir(cache).unwrap().flatten();
        let files = directories.flat_map(|directory| std::fs::read_dir(directory.path()).unwrap().flatten());
        files.map(|file| file.metadata().unwrap().len()).sum::<u64>() <= 1 << 20
    });
}

#[test]
fn an_end_that_is_not_to_be_kept_sends_nothing() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    let run = json!({"kind": "shell", "code": "echo x > x; exit 3"});
    let on_success = peer.task(json!({"run": run, "session": "s", "commit": "on_success"}));
    assert!(peer.report(&on_success)["stage"].is_null() && peer.stage(&on_success).is_none());
    let always = peer.task(json!({"run": run, "session": "s"}));
    assert!(peer.report(&always)["stage"].is_string());
    assert_eq!(peer.tree("s")["x"], file("x\n"));
    let cancelled = peer.in_session("s", "echo y > x; echo begun; sleep 100");
    peer.wait_for_output(&cancelled, "begun");
    peer.cancel(&cancelled);
    assert_eq!(peer.report(&cancelled)["outcome"], "cancelled");
    assert!(peer.stage(&cancelled).is_none());
    assert_eq!(well(&peer, &peer.in_session("s", "cat x")), "x\n");
}
