//! Files of sessions, from the user's directory into a session and back.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Result;
use e2e::{Coordinator, bounded};

/// A coordinator with an overlay of the operator's.
async fn start() -> Result<Coordinator> {
    let mut coordinator = Coordinator::prepare(&[])?;
    let utils = coordinator.home().join("overlay");
    std::fs::create_dir(&utils)?;
    std::fs::write(utils.join("tool.py"), "x = 1\n")?;
    coordinator.set("CW_UTILS_DIR", &utils.display().to_string());
    coordinator.up().await
}

fn written(coordinator: &Coordinator, path: &str, text: &[u8]) -> Result<String> {
    let path = coordinator.home().join(path);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(&path, text)?;
    Ok(path.display().to_string())
}

#[tokio::test]
async fn a_file_is_written_seen_and_kept_from_being_overwritten() -> Result<()> {
    bounded(async {
        let coordinator = start().await?;
        coordinator.cw_reading("hello\n", &["files", "write", "s", "hello.txt"]).await?.with_code(0)?;
        let seen = coordinator.cw(&["files", "cat", "s", "/workspace/hello.txt"]).await?.with_code(0)?;
        assert_eq!(seen.out, "hello\n");
        let other = written(&coordinator, "other.txt", b"other\n")?;
        for path in ["utils/forbidden.py", "/workspace/utils/forbidden.py", ".env", "../x"] {
            coordinator.cw(&["files", "put", "s", &other, path]).await?.with_code(2)?;
        }
        coordinator.cw(&["files", "put", "s", &other, "hello.txt"]).await?.with_code(5)?;
        let stat = coordinator.cw(&["files", "stat", "s", "hello.txt", "--json"]).await?.json()?;
        let etag = stat["etag"].as_str().unwrap_or_default();
        coordinator.cw(&["files", "put", "s", &other, "hello.txt", "--if-match", etag]).await?.with_code(0)?;
        coordinator.cw(&["files", "put", "s", &other, "hello.txt", "--if-match", etag]).await?.with_code(5)?;
        let edit = ["files", "edit", "s", "hello.txt", "--old", "other", "--new", "edited"];
        coordinator.cw(&edit).await?.with_code(0)?;
        assert_eq!(coordinator.cw(&["files", "cat", "s", "hello.txt"]).await?.out, "edited\n");
        assert_eq!(coordinator.cw(&["files", "cat", "s", "utils/tool.py"]).await?.out, "x = 1\n");
        coordinator.cw(&["files", "cat", "s", "nothing"]).await?.with_code(3)?;
        Ok(())
    })
    .await
}

/// Every file and directory of a tree, with content and mode.
fn tree(root: &Path) -> Result<BTreeMap<String, (Vec<u8>, u32)>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory)? {
            let (path, about) = {
                let entry = entry?;
                (entry.path(), entry.metadata()?)
            };
            let name = path.strip_prefix(root)?.display().to_string();
            if about.is_dir() {
                open.push(path);
                found.insert(name, (Vec::new(), 0));
            } else {
                found.insert(name, (std::fs::read(&path)?, about.permissions().mode() & 0o700));
            }
        }
    }
    Ok(found)
}

#[tokio::test]
async fn a_tree_with_odd_names_comes_back_as_it_was() -> Result<()> {
    bounded(async {
        let coordinator = start().await?;
        let binary: Vec<u8> = (0..300_000_u32).map(|number| number.to_le_bytes()[0] ^ 0x5a).collect();
        for name in ["a b/ü/-x?*&#%+.txt", "'quoted' \"twice\"", "%2e%2e", "a\\b", "~", "zero", "deep/er/and/deeper"] {
            written(&coordinator, &format!("tree/{name}"), name.as_bytes())?;
        }
        for number in 0..40 {
            written(&coordinator, &format!("tree/many/{number}"), &binary)?;
        }
        let program = written(&coordinator, "tree/run.sh", b"#!/bin/sh\n")?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        std::fs::create_dir(coordinator.home().join("tree/empty"))?;
        let (from, back) = (coordinator.home().join("tree"), coordinator.home().join("back"));
        let (from_name, back_name) = (from.display().to_string(), back.display().to_string());
        coordinator.cw(&["files", "put", "-r", "s", &from_name, "in/here"]).await?.with_code(0)?;
        coordinator.cw(&["files", "get", "-r", "s", "in/here", &back_name]).await?.with_code(0)?;
        assert_eq!(tree(&back)?, tree(&from)?);
        coordinator.cw(&["files", "put", "-r", "s", &from_name, "in/here"]).await?.with_code(5)?;
        coordinator.cw(&["files", "put", "-r", "s", &from_name, "in/here", "--force"]).await?.with_code(0)?;
        let full = coordinator.cw(&["sessions", "create", "small", "--quota", "1M"]).await?.with_code(0)?;
        assert!(full.out.contains("1 MiB"), "{full:?}");
        coordinator.cw(&["files", "put", "-r", "small", &from_name, "/"]).await?.with_code(8)?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn sessions_are_forked_kept_and_brought_back() -> Result<()> {
    bounded(async {
        let coordinator = start().await?;
        coordinator.cw_reading("one", &["files", "write", "s", "a.txt"]).await?.with_code(0)?;
        coordinator.cw(&["sessions", "snapshot", "s", "first"]).await?.with_code(0)?;
        coordinator.cw_reading("two", &["files", "write", "s", "a.txt"]).await?.with_code(0)?;
        assert_eq!(coordinator.cw(&["files", "cat", "s", "a.txt", "--snapshot", "first"]).await?.out, "one");
        coordinator.cw(&["sessions", "fork", "s", "t", "--snapshot", "first"]).await?.with_code(0)?;
        assert_eq!(coordinator.cw(&["files", "cat", "t", "a.txt"]).await?.out, "one");
        coordinator.cw(&["sessions", "restore", "s", "first"]).await?.with_code(0)?;
        assert_eq!(coordinator.cw(&["files", "cat", "s", "a.txt"]).await?.out, "one");
        coordinator.cw(&["sessions", "rm", "s", "--snapshot", "first"]).await?.with_code(0)?;
        coordinator.cw(&["sessions", "rm", "t"]).await?.with_code(0)?;
        assert_eq!(coordinator.cw(&["sessions", "-q"]).await?.out, "s\n");
        Ok(())
    })
    .await
}
