use super::*;

#[test]
fn delays_grow_from_a_fifth_of_a_second_to_ten_seconds_and_start_again_after_a_reset() {
    let mut backoff = Backoff::default();
    let first = backoff.next();
    assert!(first >= FIRST / 2 && first <= FIRST, "{first:?}");
    for _ in 0..40 {
        assert!(backoff.next() <= LONGEST);
    }
    assert!(backoff.next() >= LONGEST / 2);
    backoff.reset();
    assert!(backoff.next() <= FIRST);
}
