//! Following a task over connections that break, and leaving it.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::peer::{Peer, Reply, answer, bytes, problem};
use crate::program::{ID, OTHER, User, finish, output, state, task};

const EVENTS: &str = "GET /v1/tasks/task_01hx5zzzzzzzzzzzzzzzzzzzz1/events";

/// A task that ends like this, and whose streams are these, one for each connection.
fn peer(end: Value, streams: Vec<fn() -> Reply>) -> Peer {
    Peer::start(move |request, count| match request.route().split('/').next_back().unwrap() {
        "tasks" => answer(task(ID, "queued", None)),
        "events" => streams[(count - 1).min(streams.len() - 1)](),
        "output" => bytes(b""),
        "why" => problem("not_found", 404, "no why"),
        _ => answer(end.clone()),
    })
}

fn resumed_after(peer: &Peer) -> Vec<String> {
    peer.asked(EVENTS).iter().map(|request| request.header("last-event-id").unwrap().to_owned()).collect()
}

#[test]
fn broken_stream_is_resumed_without_loss_or_doubling() {
    let streams: Vec<fn() -> Reply> = vec![
        // Breaks in the middle of event 3.
        || Reply::Broken(state(1, "running") + &output(2, "stdout", "one ") + "id: 3\nevent: output\ndata: {\"stre"),
        || Reply::HangUp,
        // Repeats an event that was read already.
        || Reply::Broken(output(2, "stdout", "one ") + &output(3, "stdout", "two ") + &output(4, "stderr", "err")),
        || Reply::Stream(output(5, "stdout", "three\n") + &state(6, "completed")),
    ];
    let peer = peer(task(ID, "completed", Some("ok")), streams);
    let ran = User::of(&peer).run(&["send", "--follow", "r", "--shell", "x"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "one two three\n"), "{ran:?}");
    assert_eq!(resumed_after(&peer), ["0", "2", "2", "4"]);
    assert!(ran.err.contains("trying again") && ran.err.contains("err"), "{}", ran.err);
}

#[test]
fn stream_that_ends_before_the_task_is_resumed() {
    let peer = Peer::start(|request, count| match request.route().split('/').next_back().unwrap() {
        "tasks" => answer(task(ID, "queued", None)),
        "events" if count == 1 => Reply::Stream(state(1, "running") + &output(2, "stdout", "a")),
        "events" => Reply::Stream(output(3, "stdout", "b") + &state(4, "completed")),
        _ if count == 1 => answer(task(ID, "running", None)),
        _ => answer(task(ID, "completed", Some("ok"))),
    });
    let ran = User::of(&peer).run(&["-q", "send", "--follow", "r", "--shell", "x"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "ab", ""));
    assert_eq!(resumed_after(&peer), ["0", "2"]);
}

#[test]
fn coordinator_that_stays_away_is_given_up() {
    let peer = peer(task(ID, "completed", Some("ok")), vec![|| Reply::Broken(state(1, "running")), || Reply::HangUp]);
    let ran = User::of(&peer).with("CW_RECONNECT_FOR", "0").run(&["send", "--follow", "r", "--shell", "x"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.err.contains(&format!("cw logs -f {ID}")), "{}", ran.err);
}

#[test]
fn revoked_key_ends_a_follow_at_once() {
    let streams: Vec<fn() -> Reply> =
        vec![|| Reply::Broken(state(1, "running")), || problem("key_revoked", 401, "revoked")];
    let ran = User::of(&peer(task(ID, "running", None), streams)).run(&["send", "-f", "r", "--shell", "x"]);
    assert_eq!(ran.code, 4, "{ran:?}");
}

#[test]
fn exit_code_says_how_the_task_ended() {
    let ends = [
        ("completed", "ok", 0),
        ("failed", "exit_nonzero", 1),
        ("timed_out", "timeout", 1),
        ("cancelled", "cancelled", 7),
        ("failed", "budget", 8),
        ("failed", "quota", 8),
    ];
    for (end, reason, code) in ends {
        let peer = peer(task(ID, end, Some(reason)), vec![|| Reply::Stream(state(1, "completed"))]);
        let user = User::of(&peer);
        for args in [&["send", "--wait", "r", "--shell", "x"][..], &["wait", ID], &["logs", "-f", ID]] {
            let ran = user.run(args);
            assert_eq!(ran.code, code, "{args:?} {reason}: {ran:?}");
        }
        assert_eq!(user.run(&["get", ID]).code, 0);
    }
}

#[test]
fn who_waits_reads_what_was_returned_and_what_to_do_about_a_limit() {
    let mut returned = task(ID, "completed", Some("ok"));
    returned["result"]["return_value"] = json!({"answer": 42});
    let peer_of_handler = peer(returned, vec![|| Reply::Stream(state(1, "completed"))]);
    let ran = User::of(&peer_of_handler).run(&["send", "--wait", "r", "--shell", "x"]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", "returned {\"answer\":42}\n"));

    let peer = peer(task(ID, "failed", Some("oom")), vec![|| Reply::Stream(state(1, "failed"))]);
    let ran = User::of(&peer).run(&["send", "--wait", "r", "--shell", "x"]);
    assert_eq!(ran.err, format!("{ID} failed (oom)\n  next: --memory gives it more\n"));
}

#[test]
fn exit_code_of_the_task_is_passed_on() {
    let peer = peer(task(ID, "failed", Some("exit_nonzero")), vec![|| Reply::Stream(state(1, "failed"))]);
    let user = User::of(&peer);
    for args in [
        &["send", "--wait", "--exit-code", "r", "--shell", "x"][..],
        &["wait", "--exit-code", ID],
        &["get", "--exit-code", ID],
    ] {
        assert_eq!(user.run(args).code, 3, "{args:?}");
    }
}

#[test]
fn wait_that_runs_out_says_so() {
    let peer = peer(task(ID, "running", None), vec![|| Reply::Held(state(1, "running"))]);
    let user = User::of(&peer);
    for args in
        [&["send", "--wait", "--wait-timeout", "300ms", "r", "--shell", "x"][..], &["wait", "--timeout", "300ms", ID]]
    {
        let ran = user.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (124, ""), "{ran:?}");
        assert!(ran.err.contains(&format!("cw logs -f {ID}")), "{}", ran.err);
    }
    assert!(peer.requests().iter().all(|request| !request.path.contains("cancel")));
}

#[test]
fn signal_detaches_and_says_how_to_come_back() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let peer = peer(
            task(ID, "running", None),
            vec![|| Reply::Held(state(1, "running") + &output(2, "stdout", "so far\n"))],
        );
        let child = User::of(&peer).spawn(&["send", "--follow", "r", "--shell", "x"]);
        // The handlers stand before the stream is asked for.
        peer.wait_for(EVENTS, 1);
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
        let ran = finish(child);
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.contains("the task goes on") && ran.err.contains(&format!("cw logs -f {ID}")), "{}", ran.err);
        assert!(peer.requests().iter().all(|request| !request.path.contains("cancel")));
    }
}

#[test]
fn followed_json_is_a_line_for_each_event_and_then_the_task() {
    let peer = peer(
        task(ID, "completed", Some("ok")),
        vec![|| Reply::Stream(state(1, "running") + &output(2, "stdout", "x\n") + &state(3, "completed"))],
    );
    let ran = User::of(&peer).run(&["--json", "send", "--follow", "r", "--shell", "x"]);
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), ran.err.as_str()), (4, ""), "{ran:?}");
    assert_eq!(
        (&lines[1]["type"], &lines[1]["text"], &lines[1]["event"], &lines[1]["task"]),
        (&"output".into(), &"x\n".into(), &2.into(), &ID.into())
    );
    assert_eq!(lines[3], task(ID, "completed", Some("ok")));
}

#[test]
fn lines_of_several_tasks_begin_with_their_id() {
    let peer = Peer::start(|request, _| match request.path.as_str() {
        path if path.contains(ID) && path.ends_with("events") => {
            Reply::Stream(output(1, "stdout", "a1\na") + &output(2, "stdout", "2\nend") + &state(3, "completed"))
        }
        path if path.ends_with("events") => Reply::Stream(output(1, "stdout", "b1\n") + &state(2, "completed")),
        path if path.contains(ID) => answer(task(ID, "completed", Some("ok"))),
        _ => answer(task(OTHER, "completed", Some("ok"))),
    });
    let ran = User::of(&peer).run(&["logs", "-f", ID, OTHER]);
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    let expected = [format!("[{ID}] a1"), format!("[{ID}] a2"), format!("[{ID}] end"), format!("[{OTHER}] b1")];
    assert_eq!(lines, expected, "{ran:?}");
}

#[test]
fn lines_limits_what_was_there_before() {
    let peer = Peer::start(|request, _| match request.path.as_str() {
        path if path.ends_with("events") => {
            Reply::Stream(output(1, "stdout", "1\n2\n") + &output(2, "stdout", "3\n4") + &state(3, "completed"))
        }
        path if path.contains("output") => bytes(b"1\n2\n3\n4"),
        _ => answer(task(ID, "completed", Some("ok"))),
    });
    let user = User::of(&peer);
    assert_eq!(user.run(&["logs", "--stream", "stdout", "--lines", "2", ID]).out, "3\n4");
    assert_eq!(user.run(&["logs", "-f", "--lines", "2", ID]).out, "3\n4");
}

#[test]
fn task_that_does_not_start_is_explained_while_it_waits() {
    let peer = Peer::start(|request, _| match request.route().split('/').next_back().unwrap() {
        "tasks" => answer(task(ID, "queued", None)),
        "events" => Reply::Held(state(1, "queued")),
        _ => answer(
            serde_json::json!({"state": "queued", "code": "session_busy", "summary": "its session is busy", "next": "wait"}),
        ),
    });
    let child = User::of(&peer).spawn(&["send", "--wait", "--wait-timeout", "20s", "r", "--shell", "x"]);
    // Once when it was sent, and once when it has waited for a while.
    peer.wait_for(&format!("GET /v1/tasks/{ID}/why"), 2);
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let ran = finish(child);
    assert!(ran.err.contains("its session is busy") && ran.err.contains("next: wait"), "{ran:?}");
}

/// A task that waits for a worker.
fn unserved() -> Peer {
    Peer::start(|request, _| match request.route().split('/').next_back().unwrap() {
        "events" => Reply::Held(state(1, "queued")),
        "why" => answer(
            serde_json::json!({"state": "queued", "code": "no_worker", "summary": "no worker serves rhizome", "next": "start one"}),
        ),
        OTHER => answer(task(OTHER, "queued", None)),
        _ => answer(task(ID, "queued", None)),
    })
}

#[test]
fn send_says_at_once_that_nobody_will_run_the_task() {
    let user = User::of(&unserved());
    let ran = user.run(&["send", "r", "--shell", "x"]);
    assert_eq!((ran.code, ran.out), (0, format!("{ID}\n")));
    assert_eq!(ran.err, "it waits: no worker serves rhizome\n  next: start one\n");
    assert_eq!(user.run(&["-q", "send", "r", "--shell", "x"]).err, "");
    assert_eq!(user.run(&["--json", "send", "r", "--shell", "x"]).err, "");
}

#[test]
fn wait_that_runs_out_on_a_task_that_never_started_says_what_keeps_it() {
    let user = User::of(&unserved());
    for args in
        [&["send", "--wait", "--wait-timeout", "300ms", "r", "--shell", "x"][..], &["wait", "--timeout", "300ms", ID]]
    {
        let ran = user.run(args);
        assert_eq!(ran.code, 124, "{ran:?}");
        assert!(ran.err.contains("it has not started: no worker serves rhizome"), "{ran:?}");
        assert!(!ran.err.contains("goes on"), "{ran:?}");
    }
    let several = user.run(&["wait", "--timeout", "300ms", ID, OTHER]).err;
    assert!(several.contains("has not started: no worker") && !several.contains("it has"), "{several}");
}

#[test]
fn output_that_is_not_whole_is_said_even_quietly() {
    let mut end = task(ID, "completed", Some("ok"));
    end["result"]["written_bytes"]["stdout"] = (10 * 1024 * 1024 + 7).into();
    end["result"]["stdout"] = "x".into();
    end["result"]["dropped_bytes"]["stdout"] = 5.into();
    let user = User::of(&peer(end, vec![|| Reply::Stream(state(1, "completed"))]));
    let ran = user.run(&["-q", "send", "--wait", "r", "--shell", "x"]);
    assert!(ran.err.contains("7 bytes are missing"), "{ran:?}");
    let shown = user.run(&["get", ID]).out;
    assert!(shown.contains("--- stdout, 5 bytes left out\n"), "{shown}");
}

#[test]
fn output_that_breaks_off_is_read_on_without_doubling() {
    let peer = Peer::start(|request, count| match request.path.as_str() {
        path if path.contains("stream=stderr") => bytes(b""),
        path if path.contains("output") && count == 1 => Reply::Broken("first half, ".to_owned()),
        path if path.contains("output") => bytes(b"first half, second half\n"),
        _ => answer(task(ID, "completed", Some("ok"))),
    });
    let ran = User::of(&peer).run(&["logs", ID]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "first half, second half\n"), "{ran:?}");
}
