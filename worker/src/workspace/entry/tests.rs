use super::*;

#[test]
fn a_sum_is_written_as_it_is_read() {
    let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hexadecimal(&sum(text).unwrap()), text);
    for wrong in ["", "ba78", &text.to_uppercase(), &text.replace('b', "g"), &format!("{text}00")] {
        assert_eq!(sum(wrong), None, "{wrong}");
    }
}

#[test]
fn a_path_and_what_is_said_of_overlays_go_together() {
    for (text, overlay) in [("a/b", false), ("utils/x", true), ("skills", true), ("Utilsx", false)] {
        assert_eq!(&*path(text, overlay).unwrap(), text);
    }
    for (text, overlay) in [
        ("utils/x", false),
        ("UTILS/x", false),
        ("UTILS/x", true),
        ("a", true),
        ("../a", false),
        ("/a", false),
        ("a//b", false),
        (".ssh/a", false),
        ("a\0b", false),
    ] {
        assert!(path(text, overlay).is_err(), "{text}");
    }
}

#[test]
fn times_before_1970_are_times() {
    let entry = Entry { what: What::Directory { mode: 0 }, modified_ms: -1 };
    let time = entry.times().last_modification;
    assert_eq!((time.tv_sec, time.tv_nsec), (-1, 999_000_000));
}
