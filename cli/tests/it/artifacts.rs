//! `cw artifacts`: lists, fetches, checks what arrived, and writes nowhere else.

use serde_json::{Value, json};

use crate::peer::{Peer, Reply, answer, bytes, problem};
use crate::program::{ID, User, task};

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn artifact(path: &str, stored: bool) -> Value {
    json!({"path": path, "size": 3, "sha256": ABC, "media_type": "text/plain", "kind": "artifact", "stored": stored})
}

fn peer(artifacts: Value, content: &'static [u8]) -> Peer {
    Peer::start(move |request, count| match request.route() {
        route if route == format!("GET /v1/tasks/{ID}") => {
            let mut task = task(ID, "completed", Some("ok"));
            task["result"]["artifacts"] = artifacts.clone();
            task["result"]["skipped"] = json!([{"path": "big.bin", "why": "too large"}]);
            answer(task)
        }
        route if route.ends_with("/big.bin") => problem("not_stored", 404, "the file was seen but not kept"),
        route if route.ends_with("/broken.txt") && count == 1 => Reply::Broken("a".into()),
        _ => bytes(content),
    })
}

fn left(user: &User, below: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(user.home.path().join(below))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".local")
        .collect();
    names.sort();
    names
}

#[test]
fn files_are_listed_as_a_table_as_json_and_as_names() {
    let peer = peer(json!([artifact("big.bin", false), artifact("output/a.txt", true)]), b"abc");
    let user = User::of(&peer);
    let listed = user.run(&["artifacts", ID]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.out.contains("output/a.txt") && listed.out.contains("text/plain"), "{listed:?}");
    assert!(listed.err.contains("big.bin: too large"), "{listed:?}");
    let json = user.run(&["artifacts", ID, "--json"]).json();
    assert_eq!(json["artifacts"][1]["sha256"], ABC);
    assert_eq!(json["skipped"][0]["path"], "big.bin");
    assert_eq!(user.run(&["artifacts", ID, "-q"]).out, "big.bin\noutput/a.txt\n");
    assert!(user.run(&["get", ID]).out.contains("artifacts  2"), "get says how many");
}

#[test]
fn one_file_is_saved_under_its_name_or_another_or_printed() {
    let peer = peer(json!([artifact("output/ä b.txt", true)]), b"abc");
    let user = User::of(&peer);
    let path = "output/ä b.txt";
    assert_eq!(user.run(&["artifacts", ID, path]).code, 0);
    assert_eq!(user.run(&["artifacts", ID, path, "-o", "other"]).code, 0);
    assert_eq!(left(&user, ""), ["other", "ä b.txt"]);
    assert_eq!(user.run(&["artifacts", ID, path, "-o", "-"]).stdout, b"abc");
    assert_eq!(peer.asked(&format!("GET /v1/tasks/{ID}/artifacts/output/%C3%A4%20b.txt")).len(), 3);
    assert_eq!(user.run(&["artifacts", ID, "nothing"]).code, 3);
}

#[test]
fn a_file_that_is_there_is_replaced_only_by_force() {
    let peer = peer(json!([artifact("a.txt", true)]), b"abc");
    let user = User::of(&peer);
    let mine = user.write("a.txt", "mine");
    let refused = user.run(&["artifacts", ID, "a.txt"]);
    assert!(refused.code == 5 && refused.err.contains("--force"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
    assert_eq!(user.run(&["artifacts", ID, "a.txt", "--force"]).code, 0);
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "abc");
}

#[test]
fn all_files_that_were_kept_are_fetched_and_the_others_are_told() {
    let peer =
        peer(json!([artifact("a.txt", true), artifact("big.bin", false), artifact("output/b.txt", true)]), b"abc");
    let user = User::of(&peer);
    let ran = user.run(&["artifacts", ID, "--all", "into"]);
    assert!(ran.code == 0 && ran.err.contains("big.bin: too large"), "{ran:?}");
    assert_eq!(left(&user, "into"), ["a.txt", "output"]);
    assert_eq!(left(&user, "into/output"), ["b.txt"]);
}

#[test]
fn nothing_is_written_through_a_link_out_of_the_directory() {
    let peer = peer(json!([artifact("output/b.txt", true)]), b"abc");
    let user = User::of(&peer);
    for name in ["into", "outside"] {
        std::fs::create_dir(user.home.path().join(name)).unwrap();
    }
    std::os::unix::fs::symlink("../outside", user.home.path().join("into/output")).unwrap();
    assert_ne!(user.run(&["artifacts", ID, "--all", "into", "--force"]).code, 0);
    assert!(left(&user, "outside").is_empty());
}

#[test]
fn a_path_that_would_leave_the_directory_is_not_understood() {
    let peer = peer(json!([artifact("../escape", true)]), b"abc");
    let user = User::of(&peer);
    assert_ne!(user.run(&["artifacts", ID, "--all", "into"]).code, 0);
    assert!(left(&user, "").is_empty());
}

#[test]
fn what_arrives_with_another_sum_is_not_kept() {
    let peer = peer(json!([artifact("a.txt", true)]), b"abd");
    let user = User::of(&peer);
    let ran = user.run(&["artifacts", ID, "a.txt"]);
    assert!(ran.code == 6 && ran.err.contains("SHA-256"), "{ran:?}");
    assert!(left(&user, "").is_empty());
}

#[test]
fn a_download_that_breaks_off_is_made_again() {
    let peer = peer(json!([artifact("broken.txt", true)]), b"abc");
    let user = User::of(&peer);
    assert_eq!(user.run(&["artifacts", ID, "broken.txt"]).code, 0);
    assert_eq!(left(&user, ""), ["broken.txt"]);
}
