//! What reaches a terminal. `script` makes one.

use crate::peer::{Peer, Reply, answer, bytes};
use crate::program::{ID, User, binary, finish, output, set_mode, state, task};

const HOSTILE: &str = "\x1b]0;owned\x07\x1b[2Jred\u{202e}\u{9b}31m\rcover\n";

fn hostile_peer() -> Peer {
    Peer::start(|request, _| match request.route().split('/').next_back().unwrap() {
        "events" => Reply::Stream(output(1, "stdout", HOSTILE) + &state(2, "completed")),
        "output" if request.path.contains("stderr") => bytes(b""),
        "output" => bytes(HOSTILE.as_bytes()),
        "tasks" => {
            let mut row = task(ID, "completed", Some("ok"));
            row["labels"] = serde_json::json!({"k": "\x1b[2Jlabel"});
            answer(serde_json::json!({"items": [row], "next_cursor": null}))
        }
        _ => answer(task(ID, "completed", Some("ok"))),
    })
}

/// What a terminal is sent, with its line ends as they were written.
fn on_terminal(user: &User, args: &str) -> String {
    let line = format!("{} {args}", binary().display());
    let mut command = user.command("script");
    command.env("TERM", "xterm").args(["-qefc", &line, "/dev/null"]);
    finish(command.spawn().unwrap()).out.replace("\r\n", "\n")
}

#[test]
fn task_output_on_a_terminal_is_harmless() {
    let user = User::of(&hostile_peer()).with("NO_COLOR", "1");
    for args in [format!("logs -q {ID}"), format!("logs -q -f {ID}")] {
        let shown = on_terminal(&user, &args);
        assert!(shown.contains("␛]0;owned␇␛[2Jred<U+202E><U+009B>31m\ncover\n"), "{args}: {shown:?}");
        assert!(!shown.contains('\x1b'), "{args}: {shown:?}");
    }
}

#[test]
fn raw_lets_task_output_through() {
    let shown = on_terminal(&User::of(&hostile_peer()), &format!("--raw -q logs {ID}"));
    assert!(shown.contains(HOSTILE), "{shown:?}");
}

#[test]
fn names_in_a_table_are_harmless() {
    let shown = on_terminal(&User::of(&hostile_peer()).with("NO_COLOR", "1"), "list");
    assert!(shown.contains("␛[2Jlabel") && !shown.contains('\x1b'), "{shown:?}");
}

#[test]
fn json_on_a_terminal_is_harmless_and_still_json() {
    let shown = on_terminal(&User::of(&hostile_peer()), "--json list");
    assert!(!shown.contains('\x1b'), "{shown:?}");
    assert!(serde_json::from_str::<serde_json::Value>(shown.trim()).is_ok(), "{shown:?}");
}

#[test]
fn colour_is_for_terminals_and_can_be_refused() {
    let user = User::of(&hostile_peer());
    assert!(on_terminal(&user, "list").contains("\x1b[32m"));
    assert!(!on_terminal(&user, "--no-color list").contains("\x1b[32m"));
    assert!(!user.run(&["list"]).out.contains("\x1b[32m"));
}

#[test]
fn live_line_shows_that_something_happens() {
    let peer = Peer::start(|request, _| match request.route().split('/').next_back().unwrap() {
        "tasks" => answer(task(ID, "queued", None)),
        "events" => Reply::Held(state(1, "running")),
        _ => answer(task(ID, "running", None)),
    });
    let shown = on_terminal(&User::of(&peer), "send --wait --wait-timeout 600ms r --shell x");
    assert!(shown.contains(&format!("{ID} running · 0s")) && shown.contains("\x1b[K"), "{shown:?}");
}

#[test]
fn manual_on_a_terminal_is_shown_by_man_where_there_is_one() {
    let user = User::new();
    let man = user.write("bin/man", "#!/bin/sh\necho \"man $*: $(grep -c '^.TH cw 1')\"\n");
    set_mode(&man, 0o755);
    let path = format!("{}:/usr/bin:/bin", man.parent().unwrap().display());
    let user = user.with("PATH", &path);
    assert_eq!(on_terminal(&user, "man"), "man -l -: 1\n");
    user.write("bin/man", "#!/bin/sh\nexit 1\n");
    assert!(on_terminal(&user, "man").contains(".TH cw 1"));
}

#[test]
fn talk_about_what_was_sent_is_for_terminals() {
    let user = User::of(&Peer::start(|_, _| answer(task(ID, "queued", None))));
    assert!(on_terminal(&user, "send r --shell x").contains("sent to rhizome; follow it"));
    assert_eq!(user.run(&["send", "r", "--shell", "x"]).err, "");
}
