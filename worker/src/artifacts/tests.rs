//! Claims about which files are listed.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::Snapshot;
use super::changed::{Changed, changed};

fn listed(changed: &Changed) -> Vec<&str> {
    changed.files.iter().map(|file| file.path.as_str()).collect()
}

fn why<'a>(changed: &'a Changed, path: &str) -> Option<&'a str> {
    changed.skipped.iter().find(|skipped| skipped.path == path).map(|skipped| skipped.why.as_str())
}

async fn snapshot(work: &Path) -> Snapshot {
    Snapshot::take(work.to_path_buf()).await
}

#[tokio::test]
async fn files_that_were_made_or_changed_are_listed_and_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path();
    fs::create_dir(work.join("output")).unwrap();
    for name in ["same", "grown", "rewritten", "gone"] {
        fs::write(work.join(name), "1").unwrap();
    }
    let before = snapshot(work).await;
    fs::write(work.join("grown"), "12").unwrap();
    fs::remove_file(work.join("gone")).unwrap();
    fs::write(work.join("new"), "2").unwrap();
    fs::rename(work.join("new"), work.join("rewritten")).unwrap();
    fs::write(work.join("output/made"), "").unwrap();
    assert_eq!(listed(&changed(&before)), ["grown", "output/made", "rewritten"]);
}

#[test]
fn without_a_directory_there_are_no_files() {
    let changed = changed(&Snapshot::default());
    assert!(changed.files.is_empty() && changed.skipped.is_empty());
}

#[tokio::test]
async fn hidden_files_and_caches_are_left_out_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let before = snapshot(dir.path()).await;
    for name in [".git/x", "a/.cache/x", "a/__pycache__/x.pyc", "node_modules/p/x", ".env", "a/kept"] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    let changed = changed(&before);
    assert_eq!(listed(&changed), ["a/kept"]);
    assert!(changed.skipped.is_empty());
}

#[tokio::test]
async fn what_is_no_plain_file_of_this_directory_is_skipped_by_name() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "s").unwrap();
    let dir = tempfile::tempdir_in(outside.path()).unwrap();
    let work = dir.path();
    let before = snapshot(work).await;
    symlink(outside.path().join("secret"), work.join("link")).unwrap();
    symlink(outside.path(), work.join("directory-link")).unwrap();
    fs::hard_link(outside.path().join("secret"), work.join("hard")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        work.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(work.join("socket")).unwrap();
    fs::write(work.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    fs::write(work.join("line\nbreak"), "x").unwrap();
    let changed = changed(&before);
    assert!(listed(&changed).is_empty(), "{:?}", listed(&changed));
    assert_eq!(why(&changed, "link"), Some("a symbolic link"));
    assert_eq!(why(&changed, "directory-link"), Some("a symbolic link"));
    assert_eq!(why(&changed, "hard"), Some("it has another name (a hard link)"));
    assert_eq!(why(&changed, "pipe"), Some("not a file"));
    assert_eq!(why(&changed, "socket"), Some("not a file"));
    assert_eq!(why(&changed, "bad\u{fffd}"), Some("its name is not UTF-8"));
    assert_eq!(why(&changed, "linebreak"), Some("its name has control characters"));
}

#[tokio::test]
async fn any_depth_is_survived_and_what_is_too_deep_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let before = snapshot(dir.path()).await;
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let mut here = rustix::fs::openat(rustix::fs::CWD, dir.path(), flags, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..3_000 {
        rustix::fs::mkdirat(&here, "d", rustix::fs::Mode::RWXU).unwrap();
        here = rustix::fs::openat(&here, "d", flags, rustix::fs::Mode::empty()).unwrap();
    }
    fs::write(dir.path().join("d/d/near"), "x").unwrap();
    let changed = changed(&before);
    assert_eq!(listed(&changed), ["d/d/near"]);
    assert_eq!(changed.skipped.len(), 1);
    assert_eq!(changed.skipped[0].why, "its path is too long");
    drop(here);
    crate::directory::remove(&dir.keep()).unwrap();
}

#[tokio::test]
async fn more_files_than_may_be_listed_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let before = snapshot(dir.path()).await;
    for number in 0..1010 {
        fs::write(dir.path().join(format!("f{number:04}")), "").unwrap();
    }
    let changed = changed(&before);
    assert_eq!((changed.files.len(), changed.skipped.len()), (1000, 10));
    let mut collected = super::Collected::default();
    (0..500).for_each(|number| collected.skip(format!("{number}"), "x"));
    let skipped = collected.finished().skipped;
    assert_eq!(skipped.len(), 100);
    assert_eq!(skipped[99].why, "401 more were left out");
}
