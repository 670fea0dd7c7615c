use std::time::Duration;

use super::Spread;

fn spread_of(ms: impl IntoIterator<Item = u64>) -> Option<Spread> {
    Spread::of(ms.into_iter().map(Duration::from_millis).collect())
}

#[test]
fn no_times_have_no_spread() {
    assert_eq!(spread_of([]), None);
}

#[test]
fn one_time_is_every_figure() {
    let seven = Duration::from_millis(7);
    assert_eq!(spread_of([7]), Some(Spread { p50: seven, p95: seven, p99: seven, max: seven, samples: 1 }));
}

#[test]
fn figures_are_nearest_ranks_of_unordered_times() {
    let spread = spread_of((1..=200).rev()).unwrap();
    assert_eq!(spread.p50, Duration::from_millis(100));
    assert_eq!(spread.p95, Duration::from_millis(190));
    assert_eq!(spread.p99, Duration::from_millis(198));
    assert_eq!(spread.max, Duration::from_millis(200));
}

#[test]
fn one_slow_time_in_fifty_shows_in_p99_and_not_in_p50() {
    let spread = spread_of((0..49).map(|_| 1).chain([900])).unwrap();
    assert_eq!((spread.p50, spread.p99), (Duration::from_millis(1), Duration::from_millis(900)));
}
