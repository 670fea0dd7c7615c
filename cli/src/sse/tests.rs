use super::*;

const STREAM: &str = ": hello\n\nid: 1\nevent: state\ndata: {\"state\":\"queued\"}\n\nid: 2\r\nevent: output\r\ndata: {\"text\":\r\ndata: \"é\"}\r\n\r\n:\n\ndata:no id\rid: 7\r\r";

fn event(id: Option<u64>, name: &str, data: &str) -> RawEvent {
    RawEvent { id, name: name.to_owned(), data: data.to_owned() }
}

#[test]
fn chunks_split_anywhere_give_the_same_events() {
    let expected = vec![
        event(Some(1), "state", "{\"state\":\"queued\"}"),
        event(Some(2), "output", "{\"text\":\n\"é\"}"),
        event(Some(7), "message", "no id"),
    ];
    for size in 1..=STREAM.len() {
        let mut parser = Parser::default();
        let events: Vec<_> = STREAM.as_bytes().chunks(size).flat_map(|chunk| parser.push(chunk).unwrap()).collect();
        assert_eq!(events, expected, "chunks of {size}");
    }
}

#[test]
fn event_without_its_empty_line_is_not_yet_one() {
    let mut parser = Parser::default();
    assert_eq!(parser.push(b"id: 1\nevent: output\ndata: {}\n").unwrap(), vec![]);
    assert_eq!(parser.push(b"\n").unwrap(), vec![event(Some(1), "output", "{}")]);
}

#[test]
fn comments_and_blocks_without_data_are_no_events() {
    let mut parser = Parser::default();
    assert_eq!(parser.push(b": alive\n\nretry: 100\n\nid: 3\nevent: x\n\n").unwrap(), vec![]);
    assert_eq!(parser.push(b"data: a\n\n").unwrap(), vec![event(None, "message", "a")]);
}

#[test]
fn endless_line_is_refused() {
    let mut parser = Parser::default();
    let chunk = vec![b'x'; 1 << 20];
    let refused = (0..64).any(|_| parser.push(&chunk).is_err());
    assert!(refused);
}
