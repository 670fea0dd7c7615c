use super::*;

#[test]
fn last_lines_are_counted_from_the_end() {
    assert_eq!(last_lines(b"a\nb\nc\n", Some(2)), b"b\nc\n");
    assert_eq!(last_lines(b"a\nb\nc", Some(1)), b"c");
    assert_eq!(last_lines(b"a\n\n", Some(1)), b"\n");
    assert_eq!(last_lines(b"a\nb\n", Some(9)), b"a\nb\n");
    assert_eq!(last_lines(b"a\nb\n", Some(0)), b"");
    assert_eq!(last_lines(b"a\nb\n", None), b"a\nb\n");
    assert_eq!(last_lines(b"", Some(3)), b"");
}
