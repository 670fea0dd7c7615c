//! Claims about the clock.

use super::Clock;

#[test]
fn the_timeline_never_begins_before_the_newest_stored_instant() {
    let future = Clock::start(None).now().at.plus_s(3_600);
    let clock = Clock::start(Some(future));
    assert!(clock.now().at >= future);
    assert!(clock.now().wall < future);
}
