use super::{Head, request};

fn parse(text: &str) -> anyhow::Result<Option<Head>> {
    Head::parse(text.as_bytes())
}

#[test]
fn head_says_status_and_where_the_body_is() {
    let answer = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    let head = parse(answer).unwrap().unwrap();
    assert_eq!((head.status, &answer[head.body_at..head.end()]), (201, "{}"));
}

#[test]
fn header_names_are_read_in_any_case() {
    let head = parse("HTTP/1.1 200 OK\r\nCONTENT-LENGTH:  17\r\n\r\n").unwrap().unwrap();
    assert_eq!(head.body_length, 17);
}

#[test]
fn incomplete_head_asks_for_more_at_every_cut() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    for cut in 0..answer.len() {
        assert_eq!(parse(&answer[..cut]).unwrap(), None, "cut at {cut}");
    }
    assert!(parse(answer).unwrap().is_some());
}

#[test]
fn incomplete_body_ends_beyond_what_was_read() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345";
    assert_eq!(parse(answer).unwrap().unwrap().end(), answer.len() + 5);
}

#[test]
fn no_content_needs_no_length() {
    let head = parse("HTTP/1.1 204 No Content\r\ndate: now\r\n\r\n").unwrap().unwrap();
    assert_eq!((head.status, head.body_length), (204, 0));
}

#[test]
fn what_cannot_be_read_is_refused_and_named() {
    for (answer, complaint) in [
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "chunked"),
        ("HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n", "many"),
        ("HTTP/1.1 200 OK\r\n\r\n", "no content length"),
        ("+OK\r\n\r\n", "+OK"),
        ("HTTP/1.1 2", "pending"),
    ] {
        match parse(answer) {
            Err(error) => assert!(error.to_string().contains(complaint), "{answer:?}: {error}"),
            Ok(head) => assert!(head.is_none() && complaint == "pending", "{answer:?}"),
        }
    }
}

#[test]
fn request_carries_key_and_exact_length() {
    let bytes = request("POST", "/v1/tasks", "cwk_x", "{\"é\":1}");
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("POST /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer cwk_x\r\n"));
    assert!(text.ends_with("Content-Length: 8\r\n\r\n{\"é\":1}"));
}
