use super::*;

fn in_chunks(bytes: &[u8], size: usize) -> String {
    let mut harmless = Harmless::default();
    bytes.chunks(size).map(|chunk| harmless.bytes(chunk)).collect()
}

#[test]
fn escape_sequences_become_visible_and_inert() {
    let title = "\x1b]0;pwned\x07 \x1b[2J \u{9b}31m \u{9d}8;;http://evil\u{9c} \x08 \x7f \0";
    let shown = harmless_text(title);
    assert_eq!(shown, "␛]0;pwned␇ ␛[2J <U+009B>31m <U+009D>8;;http://evil<U+009C> ␈ ␡ ␀");
    assert!(!shown.chars().any(char::is_control));
}

#[test]
fn what_changes_the_reading_order_becomes_visible() {
    assert_eq!(harmless_text("a\u{202e}b\u{2066}c\u{200f}d\u{2028}e"), "a<U+202E>b<U+2066>c<U+200F>d<U+2028>e");
}

#[test]
fn carriage_return_cannot_cover_what_stands_in_the_line() {
    assert_eq!(harmless_text("rm -rf /\rls\r\nend\n"), "rm -rf /\nls\nend\n");
}

#[test]
fn plain_text_tabs_and_emoji_stay_as_they_are() {
    let text = "naïve\t日本語 👩‍💻\n";
    assert_eq!(harmless_text(text), text);
}

#[test]
fn chunks_split_anywhere_give_the_same_text() {
    let bytes = "é\r\n日\x1b[31m\r\u{9b}x👩‍💻\u{202e}".as_bytes();
    let whole = in_chunks(bytes, bytes.len());
    for size in 1..bytes.len() {
        assert_eq!(in_chunks(bytes, size), whole, "chunks of {size}");
    }
}

#[test]
fn c1_controls_as_bare_bytes_never_reach_the_terminal() {
    assert_eq!(in_chunks(b"a\x9b31mb\xff", 1), "a\u{fffd}31mb\u{fffd}");
}

#[test]
fn line_has_no_line_break() {
    assert_eq!(harmless_line("a\nb\tc\rd"), "a b c␍d");
}

#[test]
fn json_keeps_its_value() {
    let json = serde_json::to_string(&serde_json::json!({"k": "a\u{9b}b\u{202e}c\x7f\u{1b}"})).unwrap();
    let shown = harmless_json(&json);
    assert!(!shown.chars().any(is_harmful));
    let (before, after): (serde_json::Value, serde_json::Value) =
        (serde_json::from_str(&json).unwrap(), serde_json::from_str(&shown).unwrap());
    assert_eq!(before, after);
}
