//! `cw files`: asks as it should, says what was refused, and neither writes nor reads where it should not.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::peer::{Peer, Reply, answer, bytes, problem};
use crate::program::{ID, User, finish, set_mode};

const BASE: &str = "/v1/workspaces/s1";

fn entry(path: &str, kind: &str) -> Value {
    let name = path.rsplit('/').next();
    json!({"name": name, "path": path, "kind": kind, "size": 3, "modified_at": "2026-01-01T00:00:00.000Z",
        "etag": if kind == "file" { Some("\"tag\"") } else { None }, "mode": 0o755, "a_newer_field": 1})
}

fn link(path: &str, target: &str) -> Value {
    let mut link = entry(path, "symlink");
    link["target"] = target.into();
    link
}

fn page(entries: Value, next: Option<&str>) -> Reply {
    answer(json!({"path": "", "version": 4, "entries": entries, "truncated": next.is_some(), "next_cursor": next}))
}

fn written() -> Reply {
    answer(json!({"written": true, "path": "a.txt", "size_bytes": 3, "etag": "\"tag\"", "version": 5}))
}

/// A peer with one directory at the root, all of whose files have that content.
fn tree(entries: Value, content: &'static [u8], tag: &'static str) -> Peer {
    Peer::start(move |request, _| match request.route() {
        route if route.ends_with("/files") => page(entries.clone(), None),
        route if route.ends_with("/usage") => {
            answer(json!({"session": "s1", "version": 4, "used_bytes": 3, "allowed_bytes": 1024, "entries": 1}))
        }
        route if route.ends_with("/stat") => answer(entries[0].clone()),
        _ => Reply::Tagged { tag, body: content.to_vec() },
    })
}

const ABC: &str = "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"";

fn names(user: &User, below: &str) -> Vec<String> {
    let Ok(found) = std::fs::read_dir(user.home.path().join(below)) else { return Vec::new() };
    let mut names: Vec<String> = found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != ".local");
    names.sort();
    names
}

#[test]
fn a_directory_is_listed_with_all_its_pages() {
    let peer = Peer::start(|request, _| {
        if request.path.contains("cursor=next") {
            page(json!([link("d/l", "../\u{1b}x")]), None)
        } else {
            page(json!([entry("d/sub", "directory"), entry("d/a.txt", "file")]), Some("next"))
        }
    });
    let user = User::of(&peer);
    assert_eq!(user.run(&["files", "ls", "s1", "d"]).out, "sub/\na.txt\nl -> ../␛x\n");
    assert_eq!(user.run(&["files", "ls", "s1", "d", "-q"]).out, "d/sub\nd/a.txt\nd/l\n");
    assert!(user.run(&["files", "ls", "s1", "d", "-l"]).out.contains("-rwxr-xr-x  3 "));
    let listed = user.run(&["files", "ls", "s1", "d", "--snapshot", "one", "--json"]).json();
    assert_eq!(listed["entries"].as_array().map(Vec::len), Some(3));
    assert_eq!((&listed["entries"][0]["a_newer_field"], &listed["truncated"]), (&json!(1), &json!(false)));
    assert!(peer.requests().last().unwrap().path.contains("snapshot=one"));
}

#[test]
fn refusals_say_what_and_end_with_their_codes() {
    let cases = [
        ("read_only", 403, 2),
        ("unsafe_path", 403, 2),
        ("sensitive_path", 403, 2),
        ("wrong_repo", 403, 4),
        ("not_found", 404, 3),
        ("is_a_symlink", 409, 5),
        ("precondition_failed", 412, 5),
        ("no_match", 422, 2),
    ];
    for (code, status, expected) in cases {
        let peer = Peer::start(move |_, _| problem(code, status, "told so"));
        let ran = User::of(&peer).run(&["files", "edit", "s1", "a", "--old", "x", "--new", "y"]);
        assert!(ran.code == expected && ran.err.contains("told so"), "{code}: {ran:?}");
        assert_eq!(peer.requests().len(), 1, "{code} is final");
    }
}

#[test]
fn a_full_session_says_how_much_is_used_and_allowed() {
    let peer = Peer::start(|_, _| {
        let body = json!({"type": "urn:x", "title": "x", "status": 413, "detail": "too much", "code": "quota_exceeded",
            "used_bytes": 6144, "allowed_bytes": 5120});
        Reply::Answer { status: 413, kind: "application/problem+json", body: body.to_string().into_bytes() }
    });
    let user = User::of(&peer);
    user.write("a.txt", "abc");
    let ran = user.run(&["files", "put", "s1", "a.txt"]);
    assert!(ran.code == 8 && ran.err.contains("6 KiB of 5 KiB") && ran.err.contains("cw files rm"), "{ran:?}");
}

#[test]
fn a_file_is_sent_whole_with_its_mode_and_replaces_nothing_unasked() {
    let peer = Peer::start(|_, _| written());
    let user = User::of(&peer);
    set_mode(&user.write("ä b.txt", "abc"), 0o750);
    for args in
        [&["ä b.txt"][..], &["ä b.txt", "d/"], &["ä b.txt", "x", "--force"], &["ä b.txt", "x", "--if-match", "t"]]
    {
        let ran = user.run(&[&["files", "put", "s1"], args].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let asked = peer.asked(&format!("PUT {BASE}/files/content"));
    assert!(asked.iter().all(|request| request.body == "abc" && request.path.ends_with("mode=750")), "{asked:?}");
    assert!(asked[0].path.contains("path=%C3%A4+b.txt&") && asked[1].path.contains("path=d%2F%C3%A4+b.txt&"));
    let conditions: Vec<_> =
        asked.iter().map(|request| (request.header("if-none-match"), request.header("if-match"))).collect();
    assert_eq!(conditions, [(Some("*"), None), (Some("*"), None), (None, None), (None, Some("\"t\""))]);
}

#[test]
fn a_lost_answer_repeats_a_write_only_when_that_is_harmless() {
    let peer = Peer::start(|_, count| if count == 1 { Reply::HangUp } else { written() });
    let user = User::of(&peer);
    user.write("a.txt", "abc");
    assert_eq!(user.run(&["files", "put", "s1", "a.txt"]).code, 6, "another try would find its own file");
    assert_eq!(peer.requests().len(), 1);
    let peer = Peer::start(|_, count| if count == 1 { Reply::HangUp } else { written() });
    let user = User::of(&peer);
    user.write("a.txt", "abc");
    assert_eq!(user.run(&["files", "put", "s1", "a.txt", "--force"]).code, 0);
    assert_eq!(peer.requests().iter().filter(|request| request.body == "abc").count(), 2);
}

#[test]
fn what_is_there_already_and_what_changed_are_told_apart() {
    let peer = Peer::start(|_, _| problem("precondition_failed", 412, "another"));
    let user = User::of(&peer);
    user.write("a.txt", "abc");
    let there = user.run(&["files", "put", "s1", "a.txt"]);
    assert!(there.code == 5 && there.err.contains("--force"), "{there:?}");
    let changed = user.run(&["files", "put", "s1", "a.txt", "--if-match", "t"]);
    assert!(changed.code == 5 && changed.err.contains("--if-match"), "{changed:?}");
}

#[test]
fn a_tree_is_sent_without_what_a_session_cannot_hold() {
    let peer = Peer::start(|request, _| match request.route() {
        route if route.ends_with("/mkdir") => answer(json!({"path": "x", "created": true, "version": 1})),
        _ => written(),
    });
    let user = User::of(&peer);
    for path in ["t/a b/-ä", "t/.ssh/id_rsa", "t/.env", "t/z"] {
        user.write(path, "abc");
    }
    std::fs::create_dir(user.home.path().join("t/empty")).unwrap();
    symlink("/etc", user.home.path().join("t/etc")).unwrap();
    let ran = user.run(&["files", "put", "-r", "s1", "t", "into", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let told = ran.json();
    assert_eq!((&told["files"], &told["directories"]), (&json!(2), &json!(2)), "{told}");
    assert_eq!(told["skipped"].as_array().map(Vec::len), Some(3), "{told}");
    let mut sent: Vec<String> =
        peer.asked(&format!("PUT {BASE}/files/content")).into_iter().map(|request| request.path).collect();
    sent.sort();
    assert!(sent.len() == 2 && sent[0].contains("path=into%2Fa+b%2F-%C3%A4&") && sent[1].contains("path=into%2Fz&"));
    assert_eq!(peer.asked(&format!("POST {BASE}/files/mkdir"))[0].json()["path"], "into/empty");
    let said = user.run(&["files", "put", "-r", "s1", "t", "into"]);
    assert!(said.err.contains("left out: t/etc: a symlink"), "{said:?}");
}

#[test]
fn stdin_is_written_as_it_comes() {
    let peer = Peer::start(|_, _| written());
    let user = User::of(&peer);
    assert_eq!(user.run_with_stdin(&["files", "write", "s1", "a.txt", "--new"], "abc\n").code, 0);
    let asked = peer.requests();
    assert_eq!((asked[0].body.as_str(), asked[0].header("if-none-match")), ("abc\n", Some("*")));
}

#[test]
fn a_file_that_is_fetched_is_whole_or_not_there() {
    let peer = tree(json!([entry("d/a.txt", "file")]), b"abc", ABC);
    let user = User::of(&peer);
    assert_eq!(user.run(&["files", "get", "s1", "d/a.txt"]).code, 0);
    let about = std::fs::metadata(user.home.path().join("a.txt")).unwrap();
    assert_eq!(about.permissions().mode() & 0o700, 0o700);
    let again = user.run(&["files", "get", "s1", "d/a.txt"]);
    assert!(again.code == 5 && again.err.contains("--force"), "{again:?}");
    assert_eq!(user.run(&["files", "get", "s1", "d/a.txt", "-"]).stdout, b"abc");
    let peer = tree(json!([entry("d/a.txt", "file")]), b"abd", ABC);
    let user = User::of(&peer);
    let wrong = user.run(&["files", "get", "s1", "d/a.txt"]);
    assert!(wrong.code == 6 && wrong.err.contains("SHA-256") && names(&user, "").is_empty(), "{wrong:?}");
}

#[test]
fn a_tree_is_fetched_with_its_links_but_those_that_lead_out() {
    let entries = json!([entry("a b", "file"), link("in", "a b"), link("out", "../x"), link("root", "/etc")]);
    let peer = tree(entries, b"abc", ABC);
    let user = User::of(&peer);
    let ran = user.run(&["files", "get", "-r", "s1", "/", "into"]);
    assert!(ran.code == 0 && ran.err.contains("left out: out: a symlink that could lead out"), "{ran:?}");
    assert_eq!(names(&user, "into"), ["a b", "in"]);
    assert_eq!(std::fs::read_link(user.home.path().join("into/in")).unwrap().to_str(), Some("a b"));
}

#[test]
fn nothing_is_written_through_a_link_or_by_a_path_out_of_the_directory() {
    let entries = json!([entry("sub/b.txt", "file"), entry("../escape", "file"), entry("/abs", "file")]);
    let peer = tree(entries, b"abc", ABC);
    let user = User::of(&peer);
    for name in ["into", "outside"] {
        std::fs::create_dir(user.home.path().join(name)).unwrap();
    }
    symlink("../outside", user.home.path().join("into/sub")).unwrap();
    let ran = user.run(&["files", "get", "-r", "s1", "", "into", "--force"]);
    assert!(ran.code != 0 && ran.err.contains("left out: ../escape"), "{ran:?}");
    assert!(names(&user, "outside").is_empty());
    assert_eq!(names(&user, ""), ["into", "outside"]);
}

#[test]
fn a_directory_is_neither_fetched_nor_deleted_by_mistake() {
    let peer = tree(json!([entry("d", "directory")]), b"", ABC);
    let user = User::of(&peer);
    for verb in ["get", "rm"] {
        let ran = user.run(&["files", verb, "s1", "d"]);
        assert!(ran.code == 2 && ran.err.contains("-r"), "{ran:?}");
    }
    assert!(peer.asked(&format!("DELETE {BASE}/files")).is_empty());
}

#[test]
fn a_listing_that_holds_itself_ends() {
    let peer = tree(json!([entry("d", "directory"), entry("d/d", "directory")]), b"", ABC);
    let user = User::of(&peer);
    let ran = user.run(&["files", "get", "-r", "s1", "/", "into"]);
    assert!(ran.code == 0 && ran.err.contains("left out: d: it is not in the directory"), "{ran:?}");
}

#[test]
fn an_archive_that_breaks_off_is_not_kept() {
    let peer = Peer::start(|_, count| if count == 1 { Reply::Broken("half".into()) } else { bytes(b"whole") });
    let user = User::of(&peer);
    assert_eq!(user.run(&["files", "archive", "s1", "-o", "a.tgz"]).code, 6);
    assert!(names(&user, "").is_empty());
    assert_eq!(user.run(&["files", "archive", "s1", "-o", "a.tgz"]).code, 0);
    assert_eq!(std::fs::read(user.home.path().join("a.tgz")).unwrap(), b"whole");
}

#[test]
fn searches_ask_as_they_were_typed_and_say_when_there_is_more() {
    let peer = Peer::start(|_, _| {
        answer(json!({"pattern": "x", "matches": [{"file": "a", "line": 2, "content": "\u{1b}[2Jx"}], "total": 1,
            "truncated": true}))
    });
    let user = User::of(&peer);
    let ran = user.run(&["files", "grep", "s1", "a.b", "src", "--literal", "--include", "*.rs"]);
    assert!(ran.out == "a:2:␛[2Jx\n" && ran.err.contains("there may be more"), "{ran:?}");
    let asked = &peer.requests()[0].path;
    assert_eq!(asked, &format!("{BASE}/files/grep?pattern=a.b&path=src&literal=true&include=*.rs"));
}

#[test]
fn a_busy_session_names_the_task_that_works_in_it() {
    let peer = Peer::start(|_, _| {
        let body = json!({"type": "urn:x", "title": "x", "status": 409, "detail": "busy", "code": "session_busy",
            "holder": ID});
        Reply::Answer { status: 409, kind: "application/problem+json", body: body.to_string().into_bytes() }
    });
    let ran = User::of(&peer).run(&["sessions", "exec", "s1", "--shell", "true"]);
    assert!(ran.code == 5 && ran.err.contains(ID), "{ran:?}");
}

#[test]
fn a_signal_leaves_nothing_half_fetched() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let peer = Peer::start(|request, _| match request.route() {
            route if route.ends_with("/files") => page(json!([entry("a.txt", "file")]), None),
            _ => Reply::Held("half".into()),
        });
        let user = User::of(&peer);
        let child = user.spawn(&["files", "get", "-r", "s1", "/", "into"]);
        peer.wait_for(&format!("GET {BASE}/files/raw"), 1);
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
        let ran = finish(child);
        assert!(ran.code == code && names(&user, "into").is_empty(), "{ran:?}");
    }
}
