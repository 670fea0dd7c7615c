use super::*;

#[test]
fn a_name_with_brackets_and_numbers_does_not_shift_the_fields() {
    let stat = "7 (a) 1 (b) S 1 7 7 0 -1 4194560 90 1 0 0 11 22 33 44 20 0 1 0 5 1000 250 18446744073709551615";
    let stat = parse(stat).unwrap();
    assert_eq!((stat.ticks, stat.rss_pages), (110, 250));
}

#[test]
fn a_line_that_is_cut_off_counts_nothing() {
    assert!(parse("7 (a) S 1 7").is_none());
    assert!(parse("").is_none());
}
