use super::*;

#[test]
fn the_parent_is_found_whatever_the_program_calls_itself() {
    let pid = |raw| Pid::from_raw(raw);
    assert_eq!(parent_in(b"12 (sh) S 7 12 12 0 -1"), pid(7));
    assert_eq!(parent_in(b"12 (a) S 1 (b) R 9 12"), pid(9));
    assert_eq!(parent_in(b"12 (\xff\xfe) S 3 12"), pid(3));
    assert_eq!(parent_in(b"12 (sh) S"), None);
    assert_eq!(parent_in(b""), None);
}

#[test]
fn a_child_is_among_the_children_and_the_descendants() {
    let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let us = rustix::process::getpid();
    assert!(children(us).contains(&pid));
    assert!(descendants(us).contains(&pid));
    assert!(!descendants(pid).contains(&us));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(!children(us).contains(&pid));
}
