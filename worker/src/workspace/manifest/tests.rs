use super::*;

const HEAD: &str = r#"{"type":"head","session":"s","generation":3,"version":7,"mode":"write","difference":"since","quota_left_bytes":9}"#;
const A: &str = r#"{"type":"entry","path":"a","kind":"file","mode":420,"size":3,"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","modified_at":"2026-01-31T12:00:00.000Z"}"#;
const U: &str = r#"{"type":"entry","path":"utils","kind":"directory","mode":365,"modified_at":"2026-01-31T12:00:00.000Z","overlay":true}"#;
const GONE: &str = r#"{"type":"removed","path":"old"}"#;

fn end(lines: u64) -> String {
    format!(r#"{{"type":"end","lines":{lines}}}"#)
}

fn read(lines: &[&str]) -> anyhow::Result<Manifest> {
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    read_in(&text, text.len().max(1))
}

fn read_in(text: &str, length: usize) -> anyhow::Result<Manifest> {
    let mut reader = Reader::new("s".parse().unwrap(), SessionMode::Write);
    text.as_bytes().chunks(length).try_for_each(|piece| reader.take(piece))?;
    reader.finish()
}

#[test]
fn it_is_the_same_in_whatever_pieces_it_comes() {
    let text = [HEAD, A, GONE, U, &end(3), ""].join("\n");
    let whole = read_in(&text, text.len()).unwrap();
    assert_eq!((whole.head.version, whole.entries.len(), whole.overlaid.len()), (7, 2, 1));
    assert!(whole.entries["old"].is_none() && whole.entries["a"].is_some());
    for length in [1, 2, 7, 100] {
        assert_eq!(read_in(&text, length).unwrap(), whole);
    }
}

#[test]
fn one_that_is_cut_off_anywhere_is_none() {
    let text = [HEAD, A, GONE, U, &end(3), ""].join("\n");
    for length in 0..text.len() {
        assert!(read_in(&text[..length], 64).is_err(), "{length} bytes of it");
    }
}

#[test]
fn whatever_is_not_in_its_place_is_refused() {
    let (zero, one, two) = (end(0), end(1), end(2));
    let traversal = A.replace("\"a\"", "\"../a\"");
    let sumless = A.replace("ba78", "XX78");
    let other = HEAD.replace("\"s\"", "\"t\"");
    let reading = HEAD.replace("write", "read");
    let whole = HEAD.replace("since", "whole");
    for (wrong, why) in [
        (&[A, &*one][..], "begin with its head"),
        (&[HEAD, HEAD, &zero], "two heads"),
        (&[HEAD, A, &zero], "counts 0 lines"),
        (&[HEAD, A, &one, A], "after its end"),
        (&[HEAD, A, A, &two], "comes twice"),
        (&[HEAD, &traversal, &one], "no `..`"),
        (&[HEAD, &sumless, &one], "`a`"),
        (&[&other, &zero], "session t"),
        (&[&reading, &zero], "another mode"),
        (&[&whole, GONE, &one], "in a whole manifest"),
        (&[HEAD, "{}", &one], "not understood"),
    ] {
        let error = format!("{:#}", read(wrong).unwrap_err());
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    let mut reader = Reader::new("s".parse().unwrap(), SessionMode::Write);
    let piece = vec![b'x'; MAX_LINE_BYTES];
    assert!(reader.take(&piece).is_ok() && reader.take(&piece).is_err());
}
