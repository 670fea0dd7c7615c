//! Claims about paths inside a workspace.

use super::{MAX_DEPTH, Overlay, PathRefusal, VirtualPath, WorkspacePath};
use crate::problem::Code;

fn code(text: &str) -> Code {
    text.parse::<WorkspacePath>().and_then(WorkspacePath::writable).expect_err(text).code()
}

fn kept(text: &str) -> String {
    let path = text.parse::<WorkspacePath>().and_then(WorkspacePath::writable);
    path.unwrap_or_else(|error| panic!("{text}: {error}")).as_str().to_owned()
}

#[test]
fn the_virtual_spellings_are_one_file() {
    for text in ["x/y", "/x/y", "/workspace/x/y", "x/y/"] {
        assert_eq!(kept(text), "x/y");
    }
    assert_eq!(kept("workspace/x"), "workspace/x", "only the mount itself is a spelling of the root");
    assert_eq!(kept("/workspaces"), "workspaces");
    for root in ["", ".", "/", "/workspace", "/workspace/"] {
        assert_eq!(root.parse(), Ok(VirtualPath::Root), "{root:?}");
        assert_eq!(code(root), Code::UnsafePath);
    }
}

#[test]
fn every_spelling_of_an_escape_is_refused_by_name() {
    let deep = "d/".repeat(10_000);
    for text in [
        "..",
        "../x",
        "a/../b",
        "a/..",
        "/..",
        "/workspace/../etc/passwd",
        "//etc/passwd",
        "a//b",
        "./utils/x",
        "a/./b",
        "utils/../x",
        "skills/..",
        "nul\0",
        "a\nb",
        "a\rb",
        "\u{1b}[2J",
        "a\u{7f}",
        "a\u{85}b",
        "a//",
        "/workspace//x",
        &deep,
        &"x".repeat(4096),
        &"y".repeat(256),
        &"ä".repeat(128),
        &"d/".repeat(MAX_DEPTH + 1),
    ] {
        assert_eq!(code(text), Code::UnsafePath, "{text:?}");
    }
    assert_eq!(kept("%2e%2e/x"), "%2e%2e/x", "decoding is done once, by HTTP");
    assert_eq!(kept("a\\..\\b"), "a\\..\\b", "a backslash is a letter");
    assert_eq!(kept(".../..x/x.."), ".../..x/x..");
}

#[test]
fn names_of_credentials_are_refused_as_any_component_by_any_spelling() {
    for text in [
        ".ssh",
        "a/.ssh/b",
        ".AWS/config",
        ".gcp",
        "x/.gnupg",
        ".netrc",
        ".docker/config.json",
        ".kube",
        ".git-credentials",
        ".gitconfig",
        ".env",
        "app/.ENV",
        ".env.local",
        ".env.production",
        ".env.example.bak",
        "id_rsa",
        "keys/id_ed25519",
        "ID_RSA.pub",
        "id_ecdsa_sk",
        "id_ed25519-work",
        "id_dsa.old",
        "id_xmss_2",
        "\u{ff0e}ssh",
        ".\u{ff53}\u{17f}h",
        ".s\u{200b}sh",
        ".e\u{301}nv",
        ".\u{e9}nv",
        ".\u{212a}ube",
        "\u{2024}env",
        ".env\u{feff}",
        "id_rsa\u{34f}",
    ] {
        assert_eq!(code(text), Code::SensitivePath, "{text:?}");
    }
    for text in [
        ".env.example",
        "a/.env.sample",
        ".env.template",
        ".env.production.example",
        "id_map.py",
        "id_",
        "id_rsakey",
        "rsa",
        "ssh",
        "my.ssh",
        ".sshx",
        ".envrc",
        "environment",
        ".git/config",
        ".github/x",
        "id_card.png",
    ] {
        assert_eq!(kept(text), text);
    }
}

#[test]
fn overlays_are_read_only_by_every_spelling() {
    for text in [
        "utils/x",
        "/utils/x",
        "/workspace/utils",
        "UTILS/x",
        "Skills/a/b",
        "skills",
        "\u{ff55}\u{ff54}\u{ff49}\u{ff4c}\u{ff53}/x",
        "ut\u{200d}ils/x",
        "u\u{308}tils/x",
        "\u{fc}tils/x",
        "\u{17f}kills/x",
        "s\u{212a}ills/x",
        "uti\u{34f}ls",
        "\u{1d42e}tils/x",
        "UT\u{130}LS/x",
    ] {
        assert_eq!(code(text), Code::ReadOnly, "{text:?}");
        assert!(text.parse::<WorkspacePath>().is_ok(), "it may be read: {text:?}");
    }
    for text in ["src/utils/x", "utilsX/y", "myskills/x", "util/x"] {
        assert_eq!(kept(text), text);
    }
    let refusal = "utils/x".parse::<WorkspacePath>().and_then(WorkspacePath::writable);
    assert_eq!(refusal, Err(PathRefusal::ReadOnly(Overlay::Utils)));
}

#[test]
fn ordinary_names_round_trip_byte_for_byte() {
    for text in [
        "README",
        "readme",
        "Ordner/Größe.txt",
        "o\u{308}",
        "\u{f6}",
        "日本語/ファイル",
        "emoji 🦀",
        " a b ",
        "x'\"$`;&|*?",
    ] {
        let path: WorkspacePath = text.parse().unwrap();
        assert_eq!(path.as_str(), text);
        let json = serde_json::to_string(&path).unwrap();
        assert_eq!(serde_json::from_str::<WorkspacePath>(&json).unwrap(), path);
    }
}

#[test]
fn a_kept_path_has_one_spelling() {
    for text in ["/x", "/workspace/x", "x/", "", ".", "/"] {
        assert!(serde_json::from_value::<WorkspacePath>(text.into()).is_err(), "{text:?}");
    }
}

#[test]
fn a_path_knows_what_is_above_it() {
    let path: WorkspacePath = "a/b/c".parse().unwrap();
    assert_eq!(path.ancestors().collect::<Vec<_>>(), ["a", "a/b"]);
    assert_eq!((path.parent(), path.name()), ("a/b", "c"));
    assert!(path.is_below(&"a".parse().unwrap()) && !path.is_below(&"a/b/c".parse().unwrap()));
    assert!(!"ab/c".parse::<WorkspacePath>().unwrap().is_below(&"a".parse().unwrap()));
}
