//! What becomes of answers that a user did not hope for.

use crate::peer::{Peer, Reply, answer, problem};
use crate::program::{ID, User, set_mode, task};

#[test]
fn each_refusal_has_its_exit_code() {
    let refusals = [
        ("not_found", 404, 3),
        ("key_expired", 401, 4),
        ("wrong_role", 403, 4),
        ("already_done", 409, 5),
        ("idempotency_mismatch", 422, 5),
        ("invalid_field", 422, 2),
        ("too_large", 413, 2),
        ("protocol_unsupported", 426, 6),
        ("internal", 500, 6),
        ("disk_full", 507, 6),
        ("unavailable", 503, 6),
        ("a_newer_code", 418, 2),
    ];
    for (code, status, exit) in refusals {
        let peer = Peer::start(move |_, _| problem(code, status, "the detail"));
        let ran = User::of(&peer).run(&["cancel", ID]);
        assert_eq!((ran.code, ran.out.as_str()), (exit, ""), "{code}: {ran:?}");
        assert!(ran.err.contains("req_1"), "{code}: {ran:?}");
    }
}

#[test]
fn error_in_json_is_one_object_on_stderr() {
    let peer = Peer::start(|_, _| problem("not_found", 404, "no such task"));
    let ran = User::of(&peer).run(&["--json", "get", ID]);
    assert_eq!(ran.out, "");
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    let expected = serde_json::json!({"error": {"code": "not_found", "message": format!("there is no task `{ID}`"), "next": "see the newest by `cw list`", "request_id": "req_1"}});
    assert_eq!(error, expected);
}

#[test]
fn wrong_usage_in_json_is_one_object_too() {
    for args in [&["--json", "send"][..], &["frobnicate", "--json"], &["--json", "send", "r"]] {
        let ran = User::new().run(args);
        let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!((ran.code, &error["error"]["code"]), (2, &"usage".into()), "{ran:?}");
    }
}

#[test]
fn usage_does_not_list_what_a_variable_sets() {
    let user = User::new().with("CW_COORDINATOR", "http://127.0.0.1:1").with("CW_KEY_FILE", "key");
    let ran = user.run(&["get"]);
    assert!(ran.code == 2 && ran.err.contains("Usage: cw get [OPTIONS] <TASK>\n"), "{}", ran.err);
    let nested = user.run(&["keys", "revoke"]).err;
    assert!(nested.contains("Usage: cw keys revoke [OPTIONS] <KEY_ID>...\n"), "{nested}");
}

#[test]
fn refused_key_names_its_file_and_what_to_do() {
    let peer = Peer::start(|_, _| problem("key_unknown", 401, "the key is not known"));
    let ran = User::of(&peer).run(&["list"]);
    assert_eq!(ran.code, 4);
    for word in ["refused the key (401)", "admin.key", "next:", "CW_KEY_FILE"] {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    }
}

#[test]
fn coordinator_that_is_not_there_is_named() {
    let ran = User::new().with("CW_COORDINATOR", "http://127.0.0.1:1").run(&["list"]);
    assert_eq!(ran.code, 6);
    assert!(ran.err.contains("cannot reach the coordinator at http://127.0.0.1:1: connection refused"), "{}", ran.err);
    assert!(ran.err.contains("CW_COORDINATOR"), "{}", ran.err);
}

#[test]
fn another_service_on_that_port_is_not_taken_for_the_coordinator() {
    for status in [200, 404, 302] {
        let html = move || Reply::Answer { status, kind: "text/html", body: b"<html>".to_vec() };
        let peer = Peer::start(move |_, _| html());
        let ran = User::of(&peer).run(&["list"]);
        assert_eq!(ran.code, 6, "{ran:?}");
        assert!(ran.err.contains("does not speak as a coordinator"), "{}", ran.err);
    }
}

#[test]
fn workers_listener_is_not_taken_for_the_coordinator() {
    let peer = Peer::start(|_, _| problem("not_found", 404, "there is no such route"));
    let ran = User::of(&peer).run(&["list"]);
    assert!(
        ran.code == 6 && ran.err.contains("that is the workers' address") && ran.err.contains("CW_COORDINATOR"),
        "{ran:?}"
    );
}

#[test]
fn key_is_made_only_once_when_its_answer_is_lost() {
    let peer = Peer::start(|_, _| Reply::HangUp);
    let ran = User::of(&peer).run(&["keys", "create", "--role", "client"]);
    assert_eq!((ran.code, peer.requests().len()), (6, 1));
}

#[test]
fn unix_socket_is_an_address() {
    let user = User::new();
    let path = user.home.path().join("cw.sock");
    let peer = Peer::start_unix(&path, |_, _| answer(task(ID, "completed", Some("ok"))));
    let ran = user.run(&["--coordinator", &peer.url, "get", ID]);
    assert!(ran.out.contains("completed"), "{ran:?}");
    assert_eq!(peer.requests()[0].header("host"), Some("localhost"));
    let gone = user.run(&["--coordinator", "unix:/nowhere/cw.sock", "get", ID]);
    assert_eq!(gone.code, 6);
    assert!(gone.err.contains("no socket there"), "{gone:?}");
}

#[test]
fn key_that_others_can_read_is_warned_of() {
    let peer = Peer::start(|_, _| answer(task(ID, "completed", Some("ok"))));
    let user = User::of(&peer);
    set_mode(&user.home.path().join(".local/state/code-workers/admin.key"), 0o644);
    let ran = user.run(&["get", ID]);
    assert!(ran.code == 0 && ran.err.contains("chmod 600"), "{ran:?}");
}

#[test]
fn named_key_file_must_hold_a_key() {
    let user = User::new();
    let empty = user.write("empty", "\n");
    let binary = user.write("binary", "a b\0c");
    for path in [empty.to_str().unwrap(), binary.to_str().unwrap(), "/nowhere/key", "/tmp"] {
        let ran = user.run(&["--key-file", path, "list"]);
        assert_eq!(ran.code, 4, "{ran:?}");
        assert!(ran.err.contains(path), "{ran:?}");
    }
}

#[test]
fn doctor_says_what_is_wrong_and_what_to_do() {
    let ran = User::new().with("CW_COORDINATOR", "http://127.0.0.1:1").run(&["doctor"]);
    assert_eq!(ran.code, 6);
    assert!(
        ran.out.contains("✗ coordinator") && ran.out.contains("next:") && ran.out.contains("✓ key file"),
        "{}",
        ran.out
    );
    let json = User::new().with("CW_COORDINATOR", "http://127.0.0.1:1").run(&["--json", "doctor"]).json();
    assert_eq!(json["ok"], false);
}

#[test]
fn doctor_is_content_when_all_is_well() {
    let peer = Peer::start(|request, _| {
        answer(match request.route().as_str() {
            "GET /version" => serde_json::json!({"version": "0.1.0", "protocol": 1, "oldest_protocol": 1}),
            "GET /v1/workers" => {
                serde_json::json!({"items": [{"id": "worker_01hx5zzzzzzzzzzzzzzzzzzzz1", "repos": ["r"], "version": "0.1.0",
                "slots": 1, "running": 0, "runs": [], "confinement": [], "last_seen_at": "2026-01-01T00:00:00Z", "state": "ready", "why": null}],
                "next_cursor": null})
            }
            _ => serde_json::json!({"items": [], "next_cursor": null}),
        })
    });
    let ran = User::of(&peer).run(&["doctor"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("role admin") && !ran.out.contains('✗'), "{ran:?}");
}

#[test]
fn doctor_finds_tasks_that_no_worker_can_run() {
    let peer = Peer::start(|request, _| {
        answer(match request.route().as_str() {
            "GET /version" => serde_json::json!({"version": "0.1.0", "protocol": 1, "oldest_protocol": 1}),
            "GET /v1/workers" => {
                serde_json::json!({"items": [{"id": "worker_01hx5zzzzzzzzzzzzzzzzzzzz1", "repos": ["r"], "version": "0.1.0",
                "slots": 1, "running": 0, "runs": [], "confinement": [], "last_seen_at": "2026-01-01T00:00:00Z", "state": "ready", "why": null}],
                "next_cursor": null})
            }
            "GET /v1/repos" => {
                serde_json::json!({"items": [{"repo": "r", "agent": null, "max_running": null, "paused": false, "queued": 1, "running": 0}],
                "next_cursor": null})
            }
            "GET /v1/tasks" => serde_json::json!({"items": [task(ID, "queued", None)], "next_cursor": null}),
            route if route.ends_with("/why") => {
                serde_json::json!({"state": "queued", "code": "no_fitting_worker", "summary": "no worker runs javascript", "next": "install node"})
            }
            _ => serde_json::json!({"items": [], "next_cursor": null}),
        })
    });
    let ran = User::of(&peer).run(&["doctor"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("✗ repo        r: no worker runs javascript; waiting tasks 1\n"), "{}", ran.out);
    assert!(ran.out.contains("next: install node"), "{}", ran.out);
}

#[test]
fn hint_for_what_is_missing_is_the_whole_recipe() {
    let peer = Peer::start(|_, _| answer(serde_json::json!({"items": [], "next_cursor": null})));
    let user = User::of(&peer);
    let said = user.run(&["workers"]).err;
    for part in ["cw keys create --role worker --repo REPO --save FILE", "CW_REPO=REPO CW_KEY_FILE=FILE cw-worker run"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let key = user.write(".quickstart/admin.key", "cwk_x");
    set_mode(&key, 0o600);
    let key = key.to_str().unwrap();
    let said = user.run(&["--key-file", key, "workers"]).err;
    assert!(said.contains("run scripts/quickstart again") && !said.contains("cw-worker"), "{said}");
    let said = user.run(&["--key-file", key, "--coordinator", "127.0.0.1:1", "list"]).err;
    assert!(said.contains("run scripts/quickstart again"), "{said}");
}
