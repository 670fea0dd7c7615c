//! What `cw send` submits and prints.

use serde_json::{Value, json};

use crate::peer::{Peer, Reply, answer, bytes, problem};
use crate::program::{ID, User, binary, finish, state, task};

fn accepting() -> Peer {
    Peer::start(|_, _| answer(task(ID, "queued", None)))
}

/// What was submitted.
fn submitted(peer: &Peer) -> Value {
    peer.asked("POST /v1/tasks")[0].json()
}

#[test]
fn send_prints_the_id_alone_on_stdout() {
    let peer = accepting();
    let ran = User::of(&peer).run(&["send", "rhizome", "fix the login bug in auth.py"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, format!("{ID}\n").as_str()));
    assert_eq!(ran.err, "");
    let quiet = User::of(&peer).run(&["-q", "send", "rhizome", "fix it"]);
    assert_eq!(quiet.err, "");
}

#[test]
fn bare_argument_is_a_prompt_for_the_repos_agent() {
    let peer = accepting();
    User::of(&peer).run(&["send", "rhizome", "fix the login bug in auth.py"]);
    let request = &peer.asked("POST /v1/tasks")[0];
    let expected = json!({"repo": "rhizome", "run": {"kind": "agent", "prompt": "fix the login bug in auth.py"}, "priority": "normal"});
    assert_eq!(request.json(), expected);
    assert_eq!(request.header("cw-protocol"), Some("1"));
    assert!(request.header("authorization").unwrap().starts_with("Bearer cwk_"));
}

#[test]
fn code_comes_from_an_argument_a_file_or_stdin() {
    let peer = accepting();
    let user = User::of(&peer);
    user.write("script.py", "print('file')");
    user.run(&["send", "r", "--python", "script.py"]);
    user.run_with_stdin(&["send", "r", "--python", "-"], "print('stdin')");
    user.run(&["send", "r", "--js", "@script.py"]);
    user.run(&["send", "r", "--shell", "echo argument"]);
    user.run(&["send", "r", "--shell", "@script.py"]);
    user.run_with_stdin(&["send", "r", "-"], "a prompt");
    user.run(&["send", "r", "--", "ls", "-l", "--all"]);
    let runs: Vec<Value> = peer.asked("POST /v1/tasks").iter().map(|request| request.json()["run"].clone()).collect();
    let expected = json!([
        {"kind": "python", "code": "print('file')"},
        {"kind": "python", "code": "print('stdin')"},
        {"kind": "javascript", "code": "print('file')"},
        {"kind": "shell", "code": "echo argument"},
        {"kind": "shell", "code": "print('file')"},
        {"kind": "agent", "prompt": "a prompt"},
        {"kind": "command", "argv": ["ls", "-l", "--all"]},
    ]);
    assert_eq!(Value::Array(runs), expected);
}

#[test]
fn every_option_reaches_the_spec() {
    let peer = accepting();
    let user = User::of(&peer).with("PASSED", "on");
    user.write("in.txt", "input");
    std::fs::write(user.home.path().join("data.bin"), [0xff, 0]).unwrap();
    let options = "send r --shell ls --timeout 5m --idle-timeout 90s --priority high --label a=1 --label b=2 --env A=x=y --env PASSED \
        --stdin in.txt --file dir/f.txt=in.txt --file data.bin --session s --session-mode read --max-attempts 2 \
        --retry-on exit_nonzero,timeout --retry-backoff 10s --requires bwrap --network none --memory 512M --cpu 1m --pids 9 \
        --file-size 1K --open-files 8 --disk 1G --output 2M --arg=-v --arg two --not-before 2026-01-31T12:00:00Z";
    let ran = user.run(&options.split_whitespace().collect::<Vec<_>>());
    assert_eq!(ran.code, 0, "{ran:?}");
    let expected = json!({
        "repo": "r", "run": {"kind": "shell", "code": "ls"}, "args": ["-v", "two"], "stdin": "input",
        "env": {"A": "x=y", "PASSED": "on"}, "files": {"dir/f.txt": "input", "data.bin": {"base64": "/wA="}},
        "session": "s", "session_mode": "read", "priority": "high", "timeout_s": 300, "idle_timeout_s": 90,
        "limits": {"memory_bytes": 536_870_912, "cpu_s": 60, "pids": 9, "file_size_bytes": 1024, "open_files": 8,
            "disk_bytes": 1_073_741_824, "output_bytes": 2_097_152},
        "network": "none", "requires": ["bwrap"], "max_attempts": 2,
        "retry": {"on": ["timeout", "exit_nonzero"], "backoff_s": 10}, "not_before": "2026-01-31T12:00:00.000Z",
        "labels": {"a": "1", "b": "2"},
    });
    assert_eq!(submitted(&peer), expected);
}

#[test]
fn a_network_is_none_or_restricted() {
    let peer = accepting();
    let user = User::of(&peer);
    assert_eq!(user.run(&["send", "r", "--shell", "ls", "--network", "restricted"]).code, 0);
    assert_eq!(submitted(&peer)["network"], "restricted");
    let ran = user.run(&["send", "r", "--shell", "ls", "--network", "open"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("none, restricted"), "{ran:?}");
}

#[test]
fn agent_options_reach_the_spec() {
    let peer = accepting();
    User::of(&peer).run(&[
        "send",
        "r",
        "go on",
        "--agent",
        "claude",
        "--model",
        "m",
        "--continue",
        ID,
        "--cost",
        "1.5",
        "--turns",
        "4",
    ]);
    let spec = submitted(&peer);
    assert_eq!(
        spec["run"],
        json!({"kind": "agent", "agent": "claude", "prompt": "go on", "model": "m", "continue": ID})
    );
    assert_eq!(spec["limits"], json!({"cost_usd": 1.5, "turns": 4}));
}

#[test]
fn delay_is_an_instant_in_the_future() {
    let peer = accepting();
    User::of(&peer).run(&["send", "r", "x", "--delay", "10m"]);
    let not_before: protocol::Timestamp = submitted(&peer)["not_before"].as_str().unwrap().parse().unwrap();
    assert!(not_before > "2026-01-01T00:00:00Z".parse().unwrap());
}

#[test]
fn unclear_or_impossible_task_is_wrong_usage_and_never_sent() {
    let peer = accepting();
    let user = User::of(&peer);
    user.write("f", "x");
    let wrong: [&[&str]; 10] = [
        &["send", "r"],
        &["send", "r", "fix", "the", "bug"],
        &["send", "fix the bug"],
        &["send", "r", "prompt", "--shell", "ls"],
        &["send", "r", "--python", "missing.py"],
        &["send", "r", "--python", "-", "--stdin", "-"],
        &["send", "r", "--shell", "ls", "--agent", "claude"],
        &["send", "r", "x", "--env", "NOT_SET_HERE"],
        &["send", "r", "x", "--env", "PATH=/"],
        &["send", "r", "x", "--file", "../f=f"],
    ];
    for args in wrong {
        let ran = user.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {ran:?}");
        assert!(ran.err.starts_with("error: "), "{args:?}: {ran:?}");
    }
    assert!(peer.requests().is_empty());
}

/// What is said about a task that cannot be sent.
fn refusal(args: &[&str]) -> String {
    let user = User::new();
    user.write("s.py", "print(1)");
    user.write("empty.py", "");
    let ran = user.run(&[&["send", "demo"], args].concat());
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    ran.err
}

#[test]
fn time_that_cannot_be_is_refused_by_the_name_of_its_option() {
    let longest = "at most 1h for code, 24h for an agent";
    let wrong = [
        (&["--shell", "x", "--timeout", "2h"][..], format!("--timeout 2h: {longest}")),
        (&["x", "--timeout", "25h"], format!("--timeout 25h: {longest}")),
        (&["--shell", "x", "--idle-timeout", "2h"], format!("--idle-timeout 2h: {longest}")),
        (&["--shell", "x", "--timeout", "500ms"], "--timeout 500ms: whole seconds only".to_owned()),
        (&["--shell", "x", "--idle-timeout", "1500ms"], "--idle-timeout 1500ms: whole seconds only".to_owned()),
        (&["--shell", "x", "--timeout", "0"], "--timeout 0: at least 1s".to_owned()),
    ];
    for (args, message) in wrong {
        let said = refusal(args);
        assert!(said.contains(&message), "{args:?}: {said}");
    }
}

#[test]
fn emptiness_is_said_in_the_users_words() {
    let wrong = [
        (&["--python", "-"][..], "--python: standard input was empty"),
        (&["-"], "the prompt: standard input was empty"),
        (&["--shell", ""], "the code is empty"),
        (&[""], "the prompt is empty"),
        (&["--python", "empty.py"], "the code is empty: empty.py"),
        (&["--python", "missing.py"], "next: check its name; it was looked for in /"),
        (&["--python", "print(1)"], "next: --python takes a file; give code itself by stdin"),
    ];
    for (args, message) in wrong {
        let said = refusal(args);
        assert!(said.contains(message), "{args:?}: {said}");
    }
}

#[test]
fn words_after_the_dashes_are_arguments_of_the_code() {
    let peer = accepting();
    let user = User::of(&peer);
    user.write("s.py", "print(1)");
    user.run(&["send", "r", "--python", "s.py", "--arg", "a", "--", "b", "--c"]);
    let spec = submitted(&peer);
    assert_eq!((&spec["run"]["kind"], &spec["args"]), (&json!("python"), &json!(["a", "b", "--c"])));
    let said = refusal(&["--python", "s.py", "a", "b c"]);
    assert!(said.contains("arguments for the program: --arg a --arg 'b c'"), "{said}");
}

#[test]
fn only_failures_are_tried_again() {
    for reason in ["ok", "cancelled", "bogus"] {
        let said = refusal(&["--shell", "x", "--retry-on", reason]);
        assert!(said.contains("exit_nonzero") && !said.contains(" ok,") && !said.contains(" cancelled,"), "{said}");
    }
}

#[test]
fn help_shows_the_defaults() {
    let help = User::new().run(&["send", "--help"]).out;
    for default in ["30s, agents 1h", "normal", "3", "0s", "10M"] {
        assert!(help.contains(&format!("[default: {default}]")), "{default}: {help}");
    }
}

#[test]
fn lost_answer_is_asked_for_again_with_the_same_key() {
    let peer = Peer::start(|_, count| if count < 3 { Reply::HangUp } else { answer(task(ID, "queued", None)) });
    let ran = User::of(&peer).run(&["send", "r", "x"]);
    assert_eq!((ran.code, ran.out), (0, format!("{ID}\n")));
    let requests = peer.asked("POST /v1/tasks");
    let keys: std::collections::BTreeSet<_> =
        requests.iter().map(|request| request.header("idempotency-key").unwrap()).collect();
    assert_eq!((requests.len(), keys.len()), (3, 1));
    let another = User::of(&peer).run(&["send", "r", "x"]);
    assert_eq!(another.code, 0);
    let requests = peer.asked("POST /v1/tasks");
    assert_ne!(requests[2].header("idempotency-key"), requests[3].header("idempotency-key"));
}

#[test]
fn given_idempotency_key_is_used() {
    let peer = accepting();
    User::of(&peer).run(&["send", "r", "x", "--idempotency-key", "mine"]);
    assert_eq!(peer.asked("POST /v1/tasks")[0].header("idempotency-key"), Some("mine"));
}

#[test]
fn busy_coordinator_is_asked_again() {
    let peer = Peer::start(|_, count| {
        if count == 1 { problem("unavailable", 503, "stopping") } else { answer(task(ID, "queued", None)) }
    });
    assert_eq!(User::of(&peer).run(&["send", "r", "x"]).code, 0);
}

#[test]
fn wait_prints_the_bytes_of_both_streams_unchanged() {
    let peer = Peer::start(|request, _| match request.path.split("/").last().unwrap() {
        "tasks" => answer(task(ID, "queued", None)),
        "events" => Reply::Stream(state(1, "queued") + &state(2, "completed")),
        "output?stream=stdout" => bytes(b"\xff\x1b[31m\r\nout"),
        "output?stream=stderr" => bytes(b"err\n"),
        _ => answer(task(ID, "completed", Some("ok"))),
    });
    let ran = User::of(&peer).run(&["send", "--wait", "r", "--shell", "x"]);
    assert_eq!((ran.code, ran.stdout.as_slice(), ran.err.as_str()), (0, &b"\xff\x1b[31m\r\nout"[..], "err\n"));
}

#[test]
fn json_gives_the_task_as_the_coordinator_wrote_it() {
    let peer = accepting();
    let ran = User::of(&peer).run(&["--json", "send", "r", "x"]);
    assert_eq!(ran.json(), task(ID, "queued", None));
    assert_eq!(ran.err, "");
}

#[test]
fn send_task_and_poll_task_are_send_and_get() {
    let peer = Peer::start(|request, _| match request.path.split("/").last().unwrap() {
        "tasks" => answer(task(ID, "queued", None)),
        "events" => Reply::Stream(state(1, "completed")),
        path if path.starts_with("output") => bytes(b""),
        _ => answer(task(ID, "completed", Some("ok"))),
    });
    let user = User::of(&peer).with("CW_BIN", binary().to_str().unwrap());
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts");
    let mut send = user.command(format!("{scripts}/send-task"));
    let ran = finish(send.args(["--wait", "rhizome", "fix the login bug in auth.py"]).spawn().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(submitted(&peer)["run"]["prompt"], "fix the login bug in auth.py");
    let ran = finish(user.command(format!("{scripts}/poll-task")).arg(ID).spawn().unwrap());
    assert!(ran.out.contains("completed"), "{ran:?}");
}
