use protocol::workspace::frames::encode;
use sha2::{Digest as _, Sha256};

use super::*;

fn sum_of(bytes: &[u8]) -> Sum {
    Sha256::digest(bytes).into()
}

fn blob(bytes: &[u8]) -> Vec<u8> {
    let frame = BlobFrame::Blob { sha256: entry::hexadecimal(&sum_of(bytes)), size: bytes.len() as u64 };
    [&encode(&frame).unwrap()[..], bytes].concat()
}

fn end(count: u64) -> Vec<u8> {
    encode(&BlobFrame::End { count }).unwrap()
}

/// What was taken of a stream of `abc` and `defg`.
fn taken(stream: &[u8]) -> (u64, Result<(), String>) {
    let place = tempfile::tempdir().unwrap();
    let cache = Cache::open(place.path().to_path_buf(), 1 << 20).unwrap();
    let wanted = HashMap::from([(sum_of(b"abc"), 3), (sum_of(b"defg"), 4)]);
    let mut taken = 0;
    let done = take_in(&mut &*stream, &wanted, &cache, &mut taken);
    (taken, done.map_err(|error| format!("{error:#}")))
}

#[test]
fn a_whole_stream_is_taken_in() {
    assert_eq!(taken(&[blob(b"defg"), blob(b"abc"), end(2)].concat()), (2, Ok(())));
}

#[test]
fn one_that_is_cut_off_anywhere_is_not_whole_and_what_came_before_counts() {
    let stream = [blob(b"abc"), blob(b"defg"), end(2)].concat();
    for length in 0..stream.len() {
        let (count, done) = taken(&stream[..length]);
        assert!(done.is_err(), "{length} bytes of it");
        assert_eq!(count >= 1, length >= blob(b"abc").len());
    }
}

#[test]
fn a_stream_that_lies_is_refused() {
    let said = |sum: &[u8], size, bytes: &[u8]| {
        let frame = BlobFrame::Blob { sha256: entry::hexadecimal(&sum_of(sum)), size };
        [&encode(&frame).unwrap()[..], bytes].concat()
    };
    for (stream, why) in [
        ([said(b"abc", 3, b"abX"), end(1)].concat(), "not what its sum says"),
        ([said(b"abc", 4, b"abcd"), end(1)].concat(), "has 4 bytes instead of 3"),
        ([said(b"abc", 1 << 40, b"abc"), end(1)].concat(), "bytes instead of 3"),
        ([said(b"xyz", 3, b"xyz"), end(1)].concat(), "not asked for"),
        ([blob(b"abc"), blob(b"defg"), end(3)].concat(), "counts 3 contents"),
        ([blob(b"abc"), end(1)].concat(), "1 contents came instead of 2"),
        ([blob(b"abc"), blob(b"defg"), end(2), b"x".to_vec()].concat(), "after its end"),
        (b"\xff\xff\xff\xff".to_vec(), "a header of it is over"),
        (b"\0\0\0\x02{}".to_vec(), "not understood"),
    ] {
        let (_, done) = taken(&stream);
        assert!(done.as_ref().is_err_and(|error| error.contains(why)), "{why}: {done:?}");
    }
}
