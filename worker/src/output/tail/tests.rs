use super::*;

fn all(tail: &Tail) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 7]);
    loop {
        let length = tail.read(bytes.len() as u64, &mut buffer).unwrap();
        if length == 0 {
            assert_eq!(tail.len().unwrap(), bytes.len() as u64);
            return bytes;
        }
        bytes.extend_from_slice(&buffer[..length]);
    }
}

#[test]
fn the_newest_bytes_are_kept_in_order() {
    let home = tempfile::tempdir().unwrap();
    for step in [1, 3, 9, 10, 11, 25, 1000] {
        let mut tail = Tail::new(home.path().join("tail"), 10);
        let written: Vec<u8> = (0..60).map(|number| b'0' + number).collect();
        for (place, part) in written.chunks(step).enumerate() {
            tail.push(part);
            let so_far = &written[..(place * step + part.len())];
            assert_eq!(all(&tail), so_far[so_far.len().saturating_sub(10)..], "steps of {step}");
        }
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "the file has no name");
}

#[test]
fn a_character_that_was_half_overwritten_is_left_out() {
    let home = tempfile::tempdir().unwrap();
    let mut tail = Tail::new(home.path().join("tail"), 5);
    tail.push("€€".as_bytes());
    assert_eq!(all(&tail), "€".as_bytes());
    let mut whole = Tail::new(home.path().join("tail"), 6);
    whole.push("€€".as_bytes());
    assert_eq!(all(&whole), "€€".as_bytes());
}

#[test]
fn without_room_or_disk_nothing_is_kept_and_nothing_fails() {
    let mut none = Tail::new("/nonexistent/tail".into(), 0);
    none.push(b"abc");
    assert_eq!(none.len().unwrap(), 0);
    let mut broken = Tail::new("/nonexistent/tail".into(), 10);
    broken.push(b"abc");
    broken.push(b"def");
    assert_eq!(broken.len().unwrap(), 0);
}
