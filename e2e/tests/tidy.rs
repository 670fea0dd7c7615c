//! The house rules as tests: which crate and room may name what, how files open, how scripts begin.
//! Each test collects every breach, so that one run shows all of them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Our crates, and which of them each may depend on. Programs depend on `protocol` alone, and the worker on the relay.
const ARROWS: [(&str, &[&str]); 7] = [
    ("protocol", &[]),
    ("coordinator", &["protocol"]),
    ("shim", &[]),
    ("worker", &["protocol", "shim"]),
    ("cli", &["protocol"]),
    ("bench", &["protocol", "coordinator", "worker", "cli", "shim"]),
    ("e2e", &["protocol", "coordinator", "worker", "cli"]),
];

/// Files that may hold `unsafe`, each block with its reason.
const UNSAFE: [&str; 1] = ["worker/src/confinement/apply.rs"];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "prelude"];

const MAX_LINES: usize = 500;

/// A text file of the repository.
struct File {
    /// From the root, with `/`.
    path: String,
    text: String,
    is_executable: bool,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it is built only for tests.
    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    /// Its lines with their numbers, without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines.map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
    }

    /// Where the code has one of the words.
    fn naming(&self, words: &[&str]) -> Vec<String> {
        let is_named = |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| words.contains(&w));
        self.code().filter(|(_, line)| is_named(line)).map(|(number, _)| format!("{}:{number}", self.path)).collect()
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All text files, without what is built and what git itself keeps; in a worktree `.git` is a file.
fn files() -> anyhow::Result<Vec<File>> {
    let mut found = Vec::new();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(root().join(&directory))? {
            let entry = entry?;
            let path = format!("{directory}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type()?;
            if kind.is_dir() && ![".git", "target", ".quickstart"].contains(&path.as_str()) {
                directories.push(format!("{path}/"));
            } else if kind.is_file()
                && path != ".git"
                && let Ok(text) = std::fs::read_to_string(entry.path())
            {
                let is_executable = entry.metadata()?.permissions().mode() & 0o111 != 0;
                found.push(File { path, text, is_executable });
            }
        }
    }
    anyhow::ensure!(found.iter().any(|file| file.path == "e2e/tests/tidy.rs"), "the repository was not found");
    Ok(found)
}

fn rust_files() -> anyhow::Result<Vec<File>> {
    Ok(files()?.into_iter().filter(File::is_rust).collect())
}

/// The names in the sections of a manifest whose heading ends like this, with the whole line.
fn dependencies(manifest: &str) -> Vec<(&str, &str)> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_inside = line.trim_end().ends_with("dependencies]");
        } else if let (true, Some((name, _))) = (is_inside, line.split_once(['.', ' ', '='])) {
            found.push((name, line));
        }
    }
    found.retain(|(name, _)| !name.is_empty() && !name.starts_with('#'));
    found
}

fn manifest(directory: &str) -> anyhow::Result<String> {
    let path = root().join(directory).join("Cargo.toml");
    std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// Where files outside the room name one of the words.
fn named_outside(room: &str, words: &[&str]) -> anyhow::Result<Vec<String>> {
    let is_inside = |path: &str| path == format!("{room}.rs") || path.starts_with(&format!("{room}/"));
    let outside = rust_files()?.into_iter().filter(|file| file.path.starts_with("coordinator/src/"));
    Ok(outside.filter(|file| !is_inside(&file.path)).flat_map(|file| file.naming(words)).collect())
}

#[test]
fn crates_depend_on_each_other_one_way() -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for (member, allowed) in ARROWS {
        let manifest = manifest(member)?;
        let ours = dependencies(&manifest).into_iter().map(|(name, _)| name);
        let ours = ours.filter(|name| ARROWS.iter().any(|(member, _)| member == name));
        wrong.extend(ours.filter(|name| !allowed.contains(name)).map(|name| format!("{member} -> {name}")));
    }
    assert!(wrong.is_empty(), "these arrows point the wrong way: {wrong:?}");
    Ok(())
}

#[test]
fn the_relay_names_nothing_of_ours() -> anyhow::Result<()> {
    let ours: Vec<&str> = ARROWS.iter().map(|(member, _)| *member).filter(|member| *member != "shim").collect();
    let paths: Vec<String> = ours.iter().flat_map(|name| [format!("{name}::"), format!("use {name};")]).collect();
    let mut wrong = Vec::new();
    for file in rust_files()?.into_iter().filter(|file| file.path.starts_with("shim/")) {
        let lines = file.code().filter(|(_, line)| paths.iter().any(|path| line.contains(path)));
        wrong.extend(lines.map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim())));
    }
    assert!(wrong.is_empty(), "shim knows bytes and sockets alone: {wrong:?}");
    Ok(())
}

#[test]
fn every_crate_has_its_arrows() -> anyhow::Result<()> {
    let manifest = manifest("")?;
    let members = manifest.lines().find(|line| line.starts_with("members")).context("no members")?;
    let members: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
    let unknown: Vec<_> = members.iter().filter(|name| !ARROWS.iter().any(|(member, _)| member == *name)).collect();
    assert!(unknown.is_empty(), "say in ARROWS what these may depend on: {unknown:?}");
    assert_eq!(members.len(), ARROWS.len(), "ARROWS names a crate that is gone");
    Ok(())
}

#[test]
fn every_dependency_says_why_it_is_there() -> anyhow::Result<()> {
    let manifest = manifest("")?;
    let dependencies = dependencies(&manifest);
    assert!(!dependencies.is_empty());
    let is_ours = |name: &str| ARROWS.iter().any(|(member, _)| *member == name);
    let silent: Vec<_> = dependencies.iter().filter(|(name, line)| !is_ours(name) && !line.contains(" # ")).collect();
    assert!(silent.is_empty(), "no reason given: {silent:?}");
    Ok(())
}

#[test]
fn only_http_knows_the_http_server() -> anyhow::Result<()> {
    let mut wrong = named_outside("coordinator/src/http", &["axum"])?;
    let client = |place: &String| place.starts_with("coordinator/src/objects/s3/");
    wrong.extend(
        named_outside("coordinator/src/http", &["hyper", "hyper_util"])?.into_iter().filter(|place| !client(place)),
    );
    assert!(wrong.is_empty(), "axum and hyper belong into http, hyper also under the object store: {wrong:?}");
    Ok(())
}

#[test]
fn only_the_bucket_knows_the_object_store() -> anyhow::Result<()> {
    let wrong = named_outside("coordinator/src/objects/s3", &["object_store", "hyper_rustls", "rustls"])?;
    assert!(wrong.is_empty(), "the S3 protocol belongs into objects/s3: {wrong:?}");
    Ok(())
}

#[test]
fn only_the_store_knows_sql() -> anyhow::Result<()> {
    let wrong = named_outside("coordinator/src/store", &["rusqlite", "SELECT", "INSERT", "UPDATE", "DELETE"])?;
    assert!(wrong.is_empty(), "SQL belongs into store: {wrong:?}");
    Ok(())
}

#[test]
fn the_rules_of_a_tasks_life_touch_the_protocol_alone() -> anyhow::Result<()> {
    let rules: Vec<File> =
        rust_files()?.into_iter().filter(|file| file.path.starts_with("coordinator/src/lifecycle")).collect();
    assert!(!rules.is_empty());
    let words = ["crate", "tokio", "rusqlite", "axum", "anyhow", "tracing", "SystemTime", "Instant"];
    let wrong: Vec<String> = rules.iter().filter(|file| !file.is_test()).flat_map(|file| file.naming(&words)).collect();
    assert!(wrong.is_empty(), "lifecycle names protocol and std only: {wrong:?}");
    Ok(())
}

#[test]
fn wire_types_do_no_io() -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for file in rust_files()?.into_iter().filter(|file| file.path.starts_with("protocol/src/") && !file.is_test()) {
        let outside =
            ["std::fs", "std::net", "std::env", "std::process", "std::io", "tokio::", "SystemTime", "Instant"];
        let lines = file.code().filter(|(_, line)| outside.iter().any(|name| line.contains(name)));
        wrong.extend(lines.map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim())));
    }
    assert!(wrong.is_empty(), "protocol has no IO, clock or environment: {wrong:?}");
    Ok(())
}

#[test]
fn every_module_says_what_it_is() -> anyhow::Result<()> {
    let silent: Vec<String> = rust_files()?
        .into_iter()
        .filter(|file| !file.path.ends_with("/tests.rs") && !file.text.starts_with("//! "))
        .map(|file| file.path)
        .collect();
    assert!(silent.is_empty(), "these do not open with //!: {silent:?}");
    Ok(())
}

#[test]
fn no_module_has_a_name_that_says_nothing() -> anyhow::Result<()> {
    let is_empty = |path: &str| path.split(['/', '.']).any(|part| EMPTY_NAMES.contains(&part));
    let wrong: Vec<String> = rust_files()?.into_iter().map(|file| file.path).filter(|path| is_empty(path)).collect();
    assert!(wrong.is_empty(), "name these after what they hold: {wrong:?}");
    Ok(())
}

#[test]
fn unsafe_stands_only_where_it_may() -> anyhow::Result<()> {
    let files = rust_files()?.into_iter().filter(|file| !UNSAFE.contains(&file.path.as_str()));
    let files = files.filter(|file| file.path != "e2e/tests/tidy.rs");
    let wrong: Vec<String> = files.flat_map(|file| file.naming(&["unsafe", "unsafe_code"])).collect();
    assert!(wrong.is_empty(), "unsafe is not allowed here: {wrong:?}");
    Ok(())
}

#[test]
fn no_file_grows_beyond_what_one_reads_at_once() -> anyhow::Result<()> {
    let mut long = Vec::new();
    for file in rust_files()?.into_iter().filter(|file| file.path.contains("/src/") && !file.is_test()) {
        let lines = file.text.lines().count();
        if lines > MAX_LINES {
            long.push(format!("{}: {lines}", file.path));
        }
    }
    assert!(long.is_empty(), "more than {MAX_LINES} lines: {long:?}");
    Ok(())
}

/// A sleep in a test is right only as the pause between two looks at a condition.
#[test]
fn tests_wait_for_conditions_and_never_just_sleep() -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for file in rust_files()?.into_iter().filter(|file| file.is_test() && file.path != "e2e/tests/tidy.rs") {
        let lines: Vec<&str> = file.text.lines().collect();
        for (number, line) in file.code().filter(|(_, line)| line.contains("sleep(Duration")) {
            let before = &lines[number.saturating_sub(8)..number];
            let is_in_loop = before.iter().any(|line| line.contains("loop {") || line.contains("while "));
            if !is_in_loop {
                wrong.push(format!("{}:{number}: {}", file.path, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "wait for the condition instead: {wrong:#?}");
    Ok(())
}

/// A golden file is tested when a test of its crate names it, or reads every file of its directory.
#[test]
fn every_golden_file_has_a_test() -> anyhow::Result<()> {
    let files = files()?;
    let golden: Vec<&str> = files.iter().map(|file| file.path.as_str()).filter(|p| p.contains("/golden/")).collect();
    assert!(!golden.is_empty(), "there is no golden file: every message that was released must have one");
    let tests: String = files
        .iter()
        .filter(|file| file.is_rust() && file.is_test() && file.path.starts_with("protocol/"))
        .map(|file| file.text.as_str())
        .collect();
    let reads_all = tests.contains("read_dir") && tests.contains("golden");
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().trim_end_matches(".json").to_owned();
    let untested: Vec<_> = golden.iter().filter(|path| !reads_all && !tests.contains(&name(path))).collect();
    assert!(untested.is_empty(), "no test reads these: {untested:?}");
    Ok(())
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() -> anyhow::Result<()> {
    let places = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/Use", "rs/")];
    let mut wrong = Vec::new();
    for file in files()? {
        for (number, line) in file.text.lines().enumerate().filter(|(_, line)| places.iter().any(|p| line.contains(p)))
        {
            wrong.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
        }
    }
    assert!(wrong.is_empty(), "paths of one machine: {wrong:#?}");
    Ok(())
}

#[test]
fn scripts_can_be_run_and_stop_at_the_first_error() -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    let mut scripts = 0;
    for file in files()? {
        let strict = match file.text.lines().next() {
            Some("#!/usr/bin/env bash") => "\nset -euo pipefail\n",
            Some("#!/bin/sh") => "\nset -eu\n",
            Some(first) if first.starts_with("#!") && !file.is_rust() => "",
            _ => continue,
        };
        scripts += 1;
        if !file.is_executable || strict.is_empty() || !file.text.contains(strict) {
            wrong.push(file.path);
        }
    }
    assert!(scripts > 0);
    assert!(wrong.is_empty(), "not executable, not strict, or with another first line: {wrong:?}");
    Ok(())
}

/// The page helps only those who find their message on it by searching.
#[test]
fn every_message_in_troubleshooting_is_one_that_a_program_says() -> anyhow::Result<()> {
    let files = files()?;
    let is_said = |words: &str| files.iter().any(|file| !file.path.starts_with("docs/") && file.text.contains(words));
    let page = files.iter().find(|file| file.path == "docs/troubleshooting.md").context("no such page")?;
    let messages =
        page.text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |")).map(|(first, _)| first);
    let messages: Vec<&str> = messages.flat_map(|first| first.split("`, `")).collect();
    assert!(!messages.is_empty());
    let parts = messages.iter().flat_map(|message| message.split('…')).map(str::trim);
    let unknown: Vec<&str> = parts.filter(|part| part.len() > 3 && !is_said(part)).collect();
    assert!(unknown.is_empty(), "no program says these: {unknown:#?}");
    Ok(())
}

#[test]
fn every_variable_stands_in_the_configuration_page() -> anyhow::Result<()> {
    let files = files()?;
    let page = files.iter().find(|file| file.path == "docs/configuration.md").context("no such page")?;
    let sources = files.iter().filter(|file| file.is_rust() && file.path.contains("/src/"));
    let variables =
        sources.flat_map(|file| file.text.split("env = \"").skip(1)).filter_map(|text| text.split('"').next());
    let variables: Vec<&str> = variables.filter(|name| name.starts_with("CW_")).collect();
    assert!(!variables.is_empty());
    let missing: Vec<_> = variables.iter().filter(|name| !page.text.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "say in docs/configuration.md what these do: {missing:?}");
    Ok(())
}
