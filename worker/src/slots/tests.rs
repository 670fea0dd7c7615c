use super::*;

#[test]
fn no_two_attempts_have_one_slot_and_a_freed_one_is_taken_again() {
    let slots = Slots::default();
    let (first, second) = (slots.take(), slots.take());
    assert_eq!((first.number, second.number), (0, 1));
    drop(first);
    assert_eq!(slots.take().number, 0);
}
