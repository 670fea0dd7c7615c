use super::*;

#[test]
fn no_two_attempts_have_one_slot_and_a_freed_one_is_taken_again() {
    let slots = Slots::default();
    let (first, second) = (slots.take(None), slots.take(None));
    assert_eq!((first.number, second.number), (0, 1));
    drop(first);
    assert_eq!(slots.take(None).number, 0);
}

#[test]
fn a_number_that_is_wanted_is_given_unless_it_is_taken() {
    let slots = Slots::default();
    let first = slots.take(Some(2));
    assert_eq!((first.number, slots.take(Some(2)).number), (2, 0));
}
