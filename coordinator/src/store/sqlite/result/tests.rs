//! Claims about the result.

use super::{character_end, character_start};

#[test]
fn a_character_is_never_split() {
    let bytes = "aäöü€".as_bytes();
    for place in 0..=bytes.len() {
        let end = character_end(bytes, place);
        let start = character_start(bytes, place);
        assert!(std::str::from_utf8(&bytes[..end]).is_ok() && end <= place, "{place}");
        assert!(std::str::from_utf8(&bytes[start..]).is_ok() && start >= place, "{place}");
    }
}
