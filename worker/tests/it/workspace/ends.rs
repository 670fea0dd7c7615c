//! Workers that are killed, leases that are lost and tasks that are cancelled, at every point between: nothing half-laid is
//! ever used, and nothing of it is published.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{kept, well};
use crate::peer::sessions::{Node, file};
use crate::peer::{Fault, Peer};
use crate::run::{Bench, eventually};

fn fill(peer: &Peer, session: &str, count: usize) {
    peer.files(session, |tree| {
        for number in 0..count {
            tree.insert(format!("d/{number}"), file(format!("{number}\n").repeat(100)));
        }
    });
}

/// A check of a whole session, and what it says.
const CHECK: &str = "cat d/* | wc -c; ls d | wc -l; ls";

fn checked(count: usize) -> String {
    let bytes: usize = (0..count).map(|number| (number.to_string().len() + 1) * 100).sum();
    format!("{bytes}\n{count}\nd\nskills\nutils\n")
}

/// Kills a worker at a request that is never answered; what the next one does is as if nothing had been.
fn killed_at(route: &str, code: &str) {
    let (bench, peer) = (Bench::new(), Peer::start());
    fill(&peer, "s", 300);
    let mut worker = bench.worker(&peer, &["--slots", "1"]);
    peer.fault(route, 1, Fault::Hang);
    let lease = peer.in_session("s", code);
    peer.wait_for_count(route, 1);
    worker.kill();
    peer.lose(&lease);
    peer.heal();
    let _next = bench.worker(&peer, &["--slots", "1"]);
    assert_eq!(well(&peer, &peer.in_session("s", CHECK)), checked(300), "{route}");
    kept(&bench, 1);
    assert_eq!(std::fs::read_dir(bench.state().join("cache/incoming")).unwrap().count(), 0);
}

#[test]
fn a_worker_killed_while_it_asks_fetches_or_sends_leaves_nothing_that_is_used() {
    killed_at("/workspace", "true");
    killed_at("/workspace/blobs", "true");
    killed_at("/workspace/stage", "echo lost > d/0; rm d/1; echo lost > lost");
    killed_at("/report", "echo lost > d/0; rm d/1; echo lost > lost");
}

#[test]
fn a_worker_killed_while_contents_come_or_are_laid_out_leaves_nothing_that_is_used() {
    let (bench, peer) = (Bench::new(), Peer::start());
    fill(&peer, "s", 3000);
    for _ in 0..4 {
        let mut worker = bench.worker(&peer, &["--slots", "1"]);
        let is_cut = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_cut);
        peer.fault(
            "/workspace/blobs",
            1,
            Fault::Tamper(Arc::new(move |stream| {
                told.store(true, Ordering::SeqCst);
                stream
            })),
        );
        peer.in_session("s", "true");
        let work = bench.state().join("attempts");
        eventually("some of it is laid out", || {
            let attempts = std::fs::read_dir(&work).into_iter().flatten().flatten();
            let laid = attempts.filter_map(|attempt| std::fs::read_dir(attempt.path().join("work/d")).ok());
            laid.map(Iterator::count).sum::<usize>() > 10 || is_cut.load(Ordering::SeqCst)
        });
        worker.kill();
        peer.heal();
    }
    let _next = bench.worker(&peer, &["--slots", "1"]);
    assert_eq!(well(&peer, &peer.in_session("s", CHECK)), checked(3000));
}

#[test]
fn a_tree_outlives_its_worker_unless_something_about_it_is_another() {
    let (bench, peer) = (Bench::new(), Peer::start());
    fill(&peer, "s", 100);
    let mut worker = bench.worker(&peer, &["--slots", "1"]);
    let inode = well(&peer, &peer.in_session("s", "stat -c %i d/7"));
    kept(&bench, 1);
    worker.kill();
    let mut worker = bench.worker(&peer, &["--slots", "1"]);
    assert_eq!(well(&peer, &peer.in_session("s", "stat -c %i d/7")), inode, "the same tree");
    kept(&bench, 1);
    worker.kill();
    let tree = std::fs::read_dir(bench.state().join("trees")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(tree.join("tree/d/7"), "another").unwrap();
    let worker = bench.worker(&peer, &["--slots", "1"]);
    assert_eq!(well(&peer, &peer.in_session("s", CHECK)), checked(100));
    worker.logged("laid out anew");
}

#[test]
fn a_lease_lost_between_upload_and_report_publishes_nothing_and_its_tree_is_dropped() {
    let (bench, peer) = (Bench::new(), Peer::start());
    fill(&peer, "s", 10);
    let worker = bench.worker(&peer, &["--slots", "1"]);
    peer.fault("/report", 1, Fault::Answer(500, crate::peer::problem(500, "internal")));
    let lost = peer.in_session("s", "echo lost > lost");
    peer.wait_for_count("/report", 1);
    peer.lose(&lost);
    eventually("the attempt is over", || bench.attempts() == 0 && peer.stage(&lost).is_some());
    assert!(!peer.tree("s").contains_key("lost") && !peer.is_reported(&lost));
    assert_eq!(well(&peer, &peer.in_session("s", CHECK)), checked(10));
    drop(worker);
}

#[test]
fn a_cancel_in_the_middle_of_a_pull_or_a_stage_ends_it_soon() {
    for route in ["/workspace", "/workspace/blobs", "/workspace/stage"] {
        let (bench, peer) = (Bench::new(), Peer::start());
        fill(&peer, "s", 10);
        let _worker = bench.worker(&peer, &["--slots", "1"]);
        peer.fault(route, usize::MAX, Fault::Hang);
        let lease = peer.in_session("s", "echo more > more");
        peer.wait_for_count(route, 1);
        peer.cancel(&lease);
        assert_eq!(peer.report(&lease)["outcome"], "cancelled", "{route}");
        eventually("nothing is left of it", || bench.attempts() == 0);
        peer.heal();
        assert_eq!(well(&peer, &peer.in_session("s", CHECK)), checked(10));
    }
}

#[test]
fn two_sessions_side_by_side_never_see_each_other_and_readers_share_a_version() {
    let (bench, peer) = (Bench::new(), Peer::start());
    for session in ["one", "two"] {
        peer.files(session, |tree| drop(tree.insert("who".into(), file(session))));
    }
    let _worker = bench.worker(&peer, &["--slots", "2"]);
    let shared = bench.home.path().join("shared");
    let wait = format!("echo begun; until [ -e {}/gate ]; do sleep 0.01; done", shared.display());
    let code = format!("{wait}; cat who; echo $CW_SESSION > mine; ls");
    let both = ["one", "two"].map(|session| peer.in_session(session, &code));
    both.iter().for_each(|lease| peer.wait_for_output(lease, "begun"));
    std::fs::write(bench.gate(), "").unwrap();
    for (lease, session) in both.iter().zip(["one", "two"]) {
        assert_eq!(well(&peer, lease), format!("begun\n{session}mine\nskills\nutils\nwho\n"));
        assert_eq!(peer.tree(session)["mine"], file(format!("{session}\n")));
    }
    std::fs::remove_file(bench.gate()).unwrap();
    let code = format!("{wait}; cat mine");
    let readers = ["one", "one"].map(|session| peer.reading(session, &code));
    readers.iter().for_each(|lease| peer.wait_for_output(lease, "begun"));
    peer.files("one", |tree| drop(tree.insert("mine".into(), file("later"))));
    std::fs::write(bench.gate(), "").unwrap();
    readers.iter().for_each(|lease| assert_eq!(well(&peer, lease), "begun\none\n"));
}

#[test]
fn a_tree_serves_another_slot_too() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.files("s", |tree| {
        tree.insert("a".into(), file("a"));
        tree.insert("d".into(), Node::Directory(0o700));
        tree.insert("d/closed".into(), Node::File(0o600, b"closed".to_vec()));
    });
    let _worker = bench.worker(&peer, &["--slots", "2"]);
    well(&peer, &peer.in_session("s", "true"));
    kept(&bench, 1);
    // The slot whose user has the tree is busy.
    let shared = bench.home.path().join("shared");
    let busy = peer.shell(&format!("echo begun; until [ -e {}/gate ]; do sleep 0.01; done", shared.display()));
    peer.wait_for_output(&busy, "begun");
    let said = well(&peer, &peer.in_session("s", "cat a d/closed; echo x >> d/closed; id -u"));
    assert_eq!(said, "aclosed1000\n");
    assert_eq!(peer.tree("s")["d/closed"], Node::File(0o600, b"closedx\n".to_vec()));
    std::fs::write(bench.gate(), "").unwrap();
    assert_eq!(super::fetches(&peer), 1);
    peer.report(&busy);
}

#[test]
fn only_so_many_trees_are_kept() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--slots", "1", "--kept-trees", "2"]);
    for session in ["a", "b", "c", "d"] {
        fill(&peer, session, 5);
        well(&peer, &peer.in_session(session, "true"));
    }
    kept(&bench, 2);
    assert_eq!(super::fetches(&peer), 1, "what all of them have was fetched once");
}
