use protocol::{EventBatch, Stream, WorkerEvent};

use super::*;

#[test]
fn a_cut_never_falls_inside_a_character() {
    for (bytes, expected) in [
        (&b""[..], 0),
        (b"abc", 3),
        ("é".as_bytes(), 2),
        (&"aé".as_bytes()[..2], 1),
        (&"a€".as_bytes()[..2], 1),
        (&"a€".as_bytes()[..3], 1),
        ("a€".as_bytes(), 4),
        (&"🦀".as_bytes()[..3], 0),
        ("🦀".as_bytes(), 4),
        // Not text at all: nothing to wait for.
        (b"\x80\x80\x80\x80", 4),
        (b"\xff\xfe", 2),
    ] {
        assert_eq!(whole(bytes), expected, "{bytes:?}");
    }
    assert_eq!(stray(&"€x".as_bytes()[1..]), 2);
    assert_eq!(stray(b"x"), 0);
    assert_eq!(stray(b"\x80\x80\x80\x80"), 3);
}

fn batches(bytes: &[u8]) -> Vec<Vec<EventBody>> {
    let piece = Piece { stream: Stream::Stdout, bytes: bytes.to_vec() };
    let (mut from, mut all) = (0, Vec::new());
    while from < bytes.len() {
        let mut batch = Batch::default();
        let taken = batch.add(&piece, from);
        assert!(taken > 0);
        from += taken;
        all.push(batch.into_events());
    }
    all
}

#[test]
fn every_batch_fits_a_request_whatever_it_holds() {
    let euros = "€".repeat(50_000);
    for bytes in [&[1u8; 100_000][..], &[b'"'; 100_000], &[0xFF; 100_000], &[b'x'; 100_000], euros.as_bytes()] {
        let mut back = Vec::new();
        for bodies in batches(bytes) {
            for body in &bodies {
                if let EventBody::Output { bytes, .. } = body {
                    back.extend(bytes.clone().into_bytes().unwrap());
                }
            }
            let events = bodies.into_iter().map(|body| WorkerEvent { number: u64::MAX, body }).collect();
            let json = serde_json::to_vec(&EventBatch { events }).unwrap();
            assert!(json.len() <= 64 << 10, "{} bytes", json.len());
        }
        assert!(back == bytes);
    }
}

#[test]
fn the_cost_of_a_character_is_what_json_makes_of_it() {
    for character in ('\0'..='\u{ff}').chain(['€', '🦀', '\u{2028}']) {
        let json = serde_json::to_string(&character.to_string()).unwrap();
        assert_eq!(json_cost(character), json.len() - 2, "{character:?}");
    }
}
