//! Lists, and what is changed from the command line.

use serde_json::{Value, json};

use crate::peer::{Peer, Reply, answer, bytes};
use crate::program::{ID, OTHER, User, binary, finish, state, task};

fn page(items: Vec<Value>) -> Value {
    json!({"items": items, "next_cursor": null})
}

fn two_tasks() -> Peer {
    Peer::start(|request, _| match request.route().as_str() {
        "GET /v1/tasks" => answer(page(vec![task(ID, "failed", Some("exit_nonzero")), task(OTHER, "running", None)])),
        route if route.contains(OTHER) => answer(task(OTHER, "running", None)),
        _ => answer(task(ID, "failed", Some("exit_nonzero"))),
    })
}

#[test]
fn list_is_a_table_for_people_and_the_page_for_programs() {
    let peer = two_tasks();
    let user = User::of(&peer);
    let ran = user.run(&["list"]);
    assert!(
        ran.out.starts_with("TASK ") && ran.out.contains("failed exit_nonzero") && ran.out.contains("k=v"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains('\x1b'));
    assert_eq!(user.run(&["--json", "ls"]).json()["items"][0], task(ID, "failed", Some("exit_nonzero")));
    assert_eq!(user.run(&["-q", "list"]).out, format!("{ID}\n{OTHER}\n"));
}

#[test]
fn get_shows_when_and_how_a_task_runs() {
    let mut done = task(ID, "completed", Some("ok"));
    done["spec"]["timeout_s"] = 300.into();
    let peer = Peer::start(move |request, _| match request.route().split('/').next_back().unwrap() {
        "why" => answer(json!({"state": "queued", "code": "not_before", "summary": "it waits for its time"})),
        OTHER => {
            let mut queued = task(OTHER, "queued", None);
            queued["spec"]["not_before"] = "2026-01-31T12:00:00.000Z".into();
            answer(queued)
        }
        _ => answer(done.clone()),
    });
    let user = User::of(&peer);
    let done = user.run(&["get", ID]).out;
    assert!(done.contains("timeout    5m\n") && done.contains("exit code  0\n"), "{done}");
    let queued = user.run(&["get", OTHER]).out;
    for row in ["timeout    30s\n", "not before 2026-01-31T12:00:00.000Z\n", "why        it waits for its time\n"] {
        assert!(queued.contains(row), "{row}: {queued}");
    }
}

#[test]
fn filters_reach_the_coordinator_encoded() {
    let peer = two_tasks();
    User::of(&peer).run(&[
        "list",
        "--repo",
        "r",
        "--state",
        "timed_out",
        "--label",
        "a=b c&d",
        "--limit",
        "7",
        "--cursor",
        "x/y",
    ]);
    assert_eq!(peer.requests()[0].path, "/v1/tasks?limit=7&repo=r&state=timed_out&label=a%3Db+c%26d&cursor=x%2Fy");
}

#[test]
fn all_walks_the_pages() {
    let peer = Peer::start(|request, _| {
        let is_first = !request.path.contains("cursor");
        answer(
            json!({"items": [task(if is_first { ID } else { OTHER }, "running", None)], "next_cursor": is_first.then_some("next")}),
        )
    });
    assert_eq!(User::of(&peer).run(&["-q", "list", "--all"]).out, format!("{ID}\n{OTHER}\n"));
}

#[test]
fn end_of_an_id_is_enough() {
    let user = User::of(&two_tasks());
    assert!(user.run(&["get", &OTHER[20..]]).out.contains(OTHER));
    assert_eq!(user.run(&["get", "zzzz"]).code, 3);
    assert_eq!(user.run(&["get", &ID[..20]]).code, 2);
    assert_eq!(user.run(&["get", ".."]).code, 2);
}

#[test]
fn reader_that_goes_away_is_no_error() {
    let peer = Peer::start(|_, _| answer(page(vec![task(ID, "running", None); 500])));
    let user = User::of(&peer);
    let script = format!("{{ {} list --limit 500; echo $? >&2; }} | head -n 1", binary().display());
    let ran = finish(user.command("/bin/sh").args(["-c", &script]).spawn().unwrap());
    assert!(ran.err == "141\n" || ran.err == "0\n", "{ran:?}");
}

#[test]
fn repo_is_set_field_by_field() {
    let peer = Peer::start(|_, _| {
        answer(json!({"repo": "r", "agent": "claude", "max_running": null, "paused": true, "queued": 1, "running": 0}))
    });
    let user = User::of(&peer);
    user.run(&["repos", "set", "r", "--agent", "claude", "--max-running", "none"]);
    user.run(&["repos", "set", "r", "--max-running", "3", "--resume", "--agent", "none"]);
    let ran = user.run(&["repos", "pause", "r"]);
    assert!(ran.out.contains("paused"), "{ran:?}");
    let bodies: Vec<Value> = peer.asked("PATCH /v1/repos/r").iter().map(|request| request.json()).collect();
    let expected = [
        json!({"agent": "claude", "max_running": null}),
        json!({"agent": null, "max_running": 3, "paused": false}),
        json!({"paused": true}),
    ];
    assert_eq!(bodies, expected);
    assert_eq!(user.run(&["repos", "set", "r"]).code, 2);
}

#[test]
fn key_is_shown_once_or_saved_for_its_owner_alone() {
    let peer = Peer::start(|_, _| {
        answer(json!({"id": "key_01hx5zzzzzzzzzzzzzzzzzzzz1", "role": "worker", "repos": ["r"], "name": null,
            "created_at": "2026-01-01T00:00:00Z", "expires_at": null, "revoked_at": null, "key": "cwk_new"}))
    });
    let user = User::of(&peer);
    let ran = user.run(&["keys", "create", "--role", "worker", "--repo", "r", "--ttl", "1h"]);
    assert_eq!(ran.out, "id   key_01hx5zzzzzzzzzzzzzzzzzzzz1\nkey  cwk_new\n");
    assert_eq!(peer.requests()[0].json(), json!({"role": "worker", "repos": ["r"], "ttl_s": 3600}));
    assert_eq!(user.run(&["--json", "keys", "create", "--role", "client"]).json()["key"], "cwk_new");
    let saved = user.run(&["keys", "create", "--role", "client", "--save", "key"]);
    assert!(!saved.out.contains("cwk_new") && !saved.err.contains("cwk_new"), "{saved:?}");
    let path = user.home.path().join("key");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "cwk_new\n");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = user.run(&["keys", "create", "--role", "client", "--save", "key"]);
    assert!(again.code == 2 && again.err.contains("next: name another file"), "{again:?}");
    assert_eq!(peer.requests().len(), 3);
    assert_eq!(user.run(&["keys", "create", "--role", "worker"]).code, 2);
}

#[test]
fn cancel_of_several_goes_on_after_a_refusal() {
    let peer = Peer::start(|request, _| {
        if request.path.contains(ID) {
            crate::peer::problem("already_done", 409, "it is done")
        } else {
            answer(task(OTHER, "cancelled", Some("cancelled")))
        }
    });
    let ran = User::of(&peer).run(&["cancel", ID, OTHER]);
    assert_eq!((ran.code, peer.requests().len()), (5, 2), "{ran:?}");
}

#[test]
fn good_ones_of_several_are_done_and_the_bad_one_is_reported() {
    let peer = Peer::start(|request, _| match request.path.as_str() {
        path if path.contains(OTHER) => crate::peer::problem("not_found", 404, "no such task"),
        path if path.ends_with("events") => Reply::Stream(state(1, "completed")),
        path if path.contains("stdout") => bytes(b"written"),
        path if path.contains("output") => bytes(b""),
        path if path.starts_with("/v1/tasks?") => answer(page(vec![])),
        _ => answer(task(ID, "completed", Some("ok"))),
    });
    let user = User::of(&peer);
    for (command, shown) in [("wait", "completed"), ("logs", "written"), ("cancel", "")] {
        let ran = user.run(&[command, OTHER, ID]);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.out.contains(shown) && ran.err.contains(&format!("there is no task `{OTHER}`")), "{ran:?}");
        let ran = user.run(&[command, "nonsense!", ID, "zzzzz"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.out.contains(shown) && ran.err.contains("there is no task `zzzzz`"), "{ran:?}");
    }
    assert_eq!(peer.asked(&format!("POST /v1/tasks/{ID}/cancel")).len(), 2);
}

#[test]
fn list_without_a_match_does_not_say_that_there_are_no_tasks() {
    let user = User::of(&Peer::start(|_, _| answer(page(vec![]))));
    assert_eq!(user.run(&["list", "--repo", "r"]).err, "no tasks match\n");
    assert!(user.run(&["list"]).err.starts_with("no tasks; send one"));
}

fn worker(last: char, state: &str) -> Value {
    json!({"id": format!("worker_01hx5zzzzzzzzzzzzzzzzzzzz{last}"), "repos": ["r"], "version": "0.1.0", "slots": 1,
        "running": 0, "runs": ["shell"], "confinement": [], "last_seen_at": "2026-01-01T00:00:00Z", "state": state, "why": null})
}

#[test]
fn workers_that_are_gone_are_counted_and_shown_when_asked_for() {
    let user = User::of(&Peer::start(|_, _| answer(page(vec![worker('1', "ready"), worker('2', "gone")]))));
    let ran = user.run(&["workers"]);
    assert!(ran.out.contains("zz1") && !ran.out.contains("zz2") && ran.out.contains(" none "), "{ran:?}");
    assert_eq!(ran.err, "1 worker is gone; `cw workers --all` shows it\n");
    assert!(user.run(&["workers", "--all"]).out.contains("zz2"));
}

#[test]
fn part_of_a_keys_id_is_enough_to_revoke_it() {
    let key = |last: char| {
        json!({"id": format!("key_01hx5zzzzzzzzzzzzzzzzzzzz{last}"), "role": "client", "repos": [], "name": null,
            "created_at": "2026-01-01T00:00:00Z", "expires_at": null, "revoked_at": null})
    };
    let peer = Peer::start(move |request, _| match request.method.as_str() {
        "GET" => answer(page(vec![key('1'), key('2')])),
        _ => answer(key('2')),
    });
    let ran = User::of(&peer).run(&["keys", "revoke", "01hx", "zzz2"]);
    assert!(ran.code == 2 && ran.err.contains("could be 2 keys"), "{ran:?}");
    assert_eq!(peer.asked("DELETE /v1/keys/key_01hx5zzzzzzzzzzzzzzzzzzzz2").len(), 1);
}
