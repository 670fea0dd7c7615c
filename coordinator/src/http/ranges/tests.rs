//! Claims about ranges.

use axum::http::{HeaderMap, HeaderValue, header};

use super::range;

fn asked(text: &str) -> Option<Option<(u64, u64)>> {
    let mut headers = HeaderMap::new();
    headers.insert(header::RANGE, HeaderValue::from_str(text).unwrap());
    range(&headers, 10, "\"x\"").ok().map(|found| found.map(|found| (found.start, found.end)))
}

#[test]
fn a_range_is_cut_to_the_file() {
    assert_eq!(asked("bytes=0-3"), Some(Some((0, 4))));
    assert_eq!(asked("bytes=4-"), Some(Some((4, 10))));
    assert_eq!(asked("bytes=-3"), Some(Some((7, 10))));
    assert_eq!(asked("bytes=-99"), Some(Some((0, 10))));
    assert_eq!(asked("bytes=5-18446744073709551615"), Some(Some((5, 10))));
}

#[test]
fn a_range_beyond_the_file_is_refused_and_nonsense_is_ignored() {
    for beyond in ["bytes=10-", "bytes=11-12", "bytes=-0"] {
        assert_eq!(asked(beyond), None, "{beyond}");
    }
    for nonsense in
        ["bytes=", "bytes=-", "bytes=a-b", "bytes=3-1", "lines=1-2", "bytes=0-1,3-4", "bytes=99999999999999999999-"]
    {
        assert_eq!(asked(nonsense), Some(None), "{nonsense}");
    }
}
