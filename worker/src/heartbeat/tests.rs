use super::*;

#[test]
fn a_renewal_that_hangs_leaves_time_for_another() {
    let seconds = Duration::from_secs;
    // 30 s to live, held for 10 s, sent when a third of the time is over.
    assert_eq!(patience(seconds(20), 10), seconds(15));
    assert_eq!(patience(seconds(80), 40), seconds(60));
    assert_eq!(patience(seconds(5), 0), Duration::from_millis(2500));
    assert!(patience(seconds(2), 1) < seconds(2));
}

#[test]
fn a_lease_counts_from_when_its_renewal_was_sent() {
    let sent_at = Instant::now().checked_sub(Duration::from_secs(31)).unwrap();
    assert!(!pulse(sent_at, Renewed { ttl_s: 30, stop: None }).is_valid());
    assert!(pulse(sent_at, Renewed { ttl_s: 60, stop: None }).is_valid());
}
