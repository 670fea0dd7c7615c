//! `cw sessions`: asks as it should, shows what came, and ends as the command did.

use serde_json::{Value, json};

use crate::peer::{Peer, Reply, answer};
use crate::program::{ID, User};

const BASE: &str = "/v1/workspaces/s1";

fn session(name: &str) -> Value {
    json!({"session": name, "repo": null, "version": 3, "labels": {"k": "v"}, "used_bytes": 2048,
        "allowed_bytes": 5_368_709_120_u64, "entries": 2, "created_at": "2026-01-01T00:00:00.000Z",
        "used_at": "2026-01-01T00:00:00.000Z", "a_newer_field": 1})
}

#[test]
fn a_session_is_made_as_it_was_asked_for() {
    let peer = Peer::start(|_, _| answer(session("s1")));
    let user = User::of(&peer);
    let ran = user.run(&["sessions", "create", "s1", "--label", "k=v", "--quota", "5G", "--repo", "r"]);
    assert!(ran.code == 0 && ran.out.contains("2 KiB of 5 GiB"), "{ran:?}");
    let asked = peer.requests()[0].json();
    assert_eq!(asked, json!({"session": "s1", "repo": "r", "labels": {"k": "v"}, "quota_bytes": 5_368_709_120_u64}));
    assert_eq!(user.run(&["sessions", "show", "s1", "--json"]).json()["a_newer_field"], 1);
    assert_eq!(user.run(&["sessions", "create", "../x"]).code, 2, "no such name leaves this machine");
}

#[test]
fn all_sessions_are_listed_page_after_page() {
    let peer = Peer::start(|request, _| {
        let is_second = request.path.contains("cursor=s1");
        let name = if is_second { "s2" } else { "s1" };
        answer(json!({"items": [session(name)], "next_cursor": if is_second { None } else { Some("s1") }}))
    });
    let user = User::of(&peer);
    assert_eq!(user.run(&["sessions", "-q"]).out, "s1\ns2\n");
    assert_eq!(user.run(&["sessions", "ls", "--json", "--label", "k=v"]).out.lines().count(), 2);
    assert!(peer.requests().last().unwrap().path.contains("label=k%3Dv"));
}

#[test]
fn snapshots_are_kept_listed_restored_and_forgotten() {
    let kept =
        json!({"name": "one", "version": 3, "used_bytes": 1, "entries": 1, "created_at": "2026-01-01T00:00:00Z"});
    let peer = Peer::start(move |request, _| match request.method.as_str() {
        "DELETE" => Reply::Answer { status: 204, kind: "text/plain", body: Vec::new() },
        "GET" => answer(json!({"items": [kept.clone()], "next_cursor": null})),
        _ if request.path.ends_with("/restore") => answer(json!({"snapshot": "one", "version": 4, "changed": 2})),
        _ if request.path.ends_with("/fork") => answer(session("s2")),
        _ => answer(kept.clone()),
    });
    let user = User::of(&peer);
    for args in [&["snapshot", "s1", "one"][..], &["restore", "s1", "one"], &["rm", "s1", "--snapshot", "one"]] {
        let ran = user.run(&[&["sessions"], args].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    assert_eq!(user.run(&["sessions", "snapshots", "s1", "-q"]).out, "one\n");
    assert_eq!(user.run(&["sessions", "fork", "s1", "s2", "--snapshot", "one", "-q"]).out, "s2\n");
    assert_eq!(peer.asked(&format!("POST {BASE}/fork"))[0].json(), json!({"session": "s2", "snapshot": "one"}));
    assert_eq!(peer.asked(&format!("DELETE {BASE}/snapshots/one")).len(), 1);
    assert!(peer.asked(&format!("DELETE {BASE}")).is_empty(), "the session itself stays");
}

fn done(reason: &str, exit_code: Option<i32>) -> Reply {
    answer(json!({"task": ID, "reason": reason, "exit_code": exit_code, "stdout": "out\n", "stderr": "err\n",
        "duration_ms": 5, "truncated": false, "timed_out": reason == "timeout"}))
}

#[test]
fn a_command_writes_where_it_wrote_and_ends_by_how_it_ended() {
    for (reason, code, plain, own) in
        [("ok", Some(0), 0, 0), ("exit_nonzero", Some(7), 1, 7), ("timeout", None, 1, 1), ("cancelled", None, 7, 7)]
    {
        let peer = Peer::start(move |_, _| done(reason, code));
        let user = User::of(&peer);
        let ran = user.run(&["sessions", "exec", "s1", "--timeout", "5s", "--", "prog", "-x"]);
        assert!(ran.code == plain && ran.out == "out\n" && ran.err.starts_with("err\n"), "{reason}: {ran:?}");
        assert_eq!(peer.requests()[0].json(), json!({"argv": ["prog", "-x"], "timeout_s": 5}));
        assert_eq!(user.run(&["sessions", "exec", "s1", "--exit-code", "--shell", "true"]).code, own, "{reason}");
    }
}

#[test]
fn a_command_whose_answer_is_lost_is_not_run_again() {
    let peer = Peer::start(|_, _| Reply::HangUp);
    assert_eq!(User::of(&peer).run(&["sessions", "exec", "s1", "--shell", "true"]).code, 6);
    assert_eq!(peer.requests().len(), 1);
}

#[test]
fn a_command_that_no_worker_took_is_explained_by_its_task() {
    let peer = Peer::start(|_, _| {
        let body = json!({"type": "urn:x", "title": "x", "status": 503, "detail": "no worker", "code": "unavailable",
            "holder": ID});
        Reply::Answer { status: 503, kind: "application/problem+json", body: body.to_string().into_bytes() }
    });
    let ran = User::of(&peer).run(&["sessions", "exec", "s1", "--shell", "true"]);
    assert!(ran.code == 6 && ran.err.contains(&format!("cw why {ID}")), "{ran:?}");
    assert_eq!(peer.requests().len(), 1, "it is not tried again by itself");
}
