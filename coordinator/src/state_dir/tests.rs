//! Claims about the state dir.

use std::os::unix::fs::PermissionsExt as _;

use super::{StateDir, write_secret};

#[test]
fn a_second_coordinator_is_refused_and_told_who_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = StateDir::take(dir.path()).unwrap();
    first.announce("127.0.0.1:7222", None).unwrap();
    let error = StateDir::take(dir.path()).err().unwrap().to_string();
    assert!(error.contains(&std::process::id().to_string()) && error.contains("127.0.0.1:7222"), "{error}");
    drop(first);
    assert!(StateDir::take(dir.path()).is_ok());
}

#[test]
fn the_directory_and_its_secrets_are_for_their_owner_alone() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("deep/state");
    let state = StateDir::take(&dir).unwrap();
    write_secret(&state.admin_key(), "secret").unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&state.admin_key())), (0o700, 0o600));
}
