use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use super::{threads, threads_in};

#[test]
fn only_the_threads_of_that_user_count() {
    let status = "Name:\tsh\nUid:\t1000\t1000\t1000\t1000\nThreads:\t3\n";
    assert_eq!((threads(status, 1000), threads(status, 0), threads("", 1000)), (Some(3), None, None));
}

#[test]
fn a_process_whose_name_is_no_text_counts() {
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join(OsStr::from_bytes(b"\xff\xfe"));
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let mut child = Command::new(&program).arg("600").spawn().unwrap();
    let place = format!("/proc/{}", child.id());
    let status = std::fs::read(format!("{place}/status")).unwrap();
    let counted = threads_in(Path::new(&place), rustix::process::getuid().as_raw());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(status.starts_with(b"Name:\t\xff\xfe"), "{status:?}");
    assert_eq!(counted, Some(1));
}
