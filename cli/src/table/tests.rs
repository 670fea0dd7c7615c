use super::*;

fn two_columns() -> Table {
    let mut table = Table::new(&["NAME", "TEXT"]);
    table.row(["日本", "short"]);
    table.row(["ab", "a much longer text than fits"]);
    table.row(["", "x\x1b[2J\ny"]);
    table
}

#[test]
fn columns_align_by_what_the_terminal_shows() {
    let text = two_columns().render(None, |_, _| None);
    assert_eq!(text, "NAME  TEXT\n日本  short\nab    a much longer text than fits\n-     x␛[2J y\n");
}

#[test]
fn last_column_is_cut_where_the_terminal_ends() {
    let text = two_columns().render(Some(20), |_, _| None);
    assert!(text.contains("ab    a much longer…\n"), "{text}");
    assert!(text.lines().all(|line| line.width() <= 20), "{text}");
}

#[test]
fn colour_does_not_move_a_column() {
    let plain = two_columns().render(None, |_, _| None);
    let painted = two_columns().render(None, |column, cell| (column == 0).then(|| format!("<{cell}>")));
    assert_eq!(painted.replace(['<', '>'], ""), plain);
}

#[test]
fn short_times_are_told_finely() {
    assert_eq!([0, 999, 1250, 59_999, 61_000].map(took), ["0ms", "999ms", "1.2s", "59.9s", "1m"]);
}

#[test]
fn ages_are_short() {
    let at = Timestamp::from_ms;
    let ages = [0, 59_999, 60_000, 3_599_000, 3_600_000, 172_799_000, 172_800_000].map(|ms| age(at(ms), at(0)));
    assert_eq!(ages, ["0s", "59s", "1m", "59m", "1h", "47h", "2d"]);
    assert_eq!(age(at(0), at(5000)), "0s");
}

#[test]
fn bytes_are_said_in_the_largest_unit_that_fits() {
    let said = [0, 1023, 1024, 1536, 512 << 20, 5 << 30, (1 << 20) - 1, u64::MAX].map(bytes);
    assert_eq!(said, ["0 B", "1023 B", "1 KiB", "1.5 KiB", "512 MiB", "5 GiB", "1023.9 KiB", "16383.9 PiB"]);
}
