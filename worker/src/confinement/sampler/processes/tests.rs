use super::*;

#[test]
fn a_name_with_brackets_numbers_and_any_bytes_does_not_shift_the_fields() {
    let stat = b"7 (a) 1 (b\xff) Z 1 7 7 0 -1 4194560 90 1 0 0 11 22 33 44 20 0 5 0 99 1000 250 18446744073709551615";
    let stat = Stat::parse(stat).unwrap();
    assert_eq!((stat.ticks, stat.reaped_ticks, stat.rss_pages), (33, 77, 250));
    assert_eq!((stat.is_dead, stat.threads, stat.started), (true, 5, 99));
}

#[test]
fn a_line_that_is_cut_off_counts_nothing() {
    assert!(Stat::parse(b"7 (a) S 1 7").is_none());
    assert!(Stat::parse(b"").is_none());
}
