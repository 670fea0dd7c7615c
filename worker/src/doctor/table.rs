//! What the doctor found, for people.

use std::fmt::Write as _;

use super::Row;

/// A line for each wall, the fix below what is missing, and the verdict.
pub(super) fn text(rows: &[Row], is_well: bool) -> String {
    let mut text = format!("{:<12} {:<9} what was seen\n", "layer", "holds");
    for row in rows {
        let holds = match (row.holds, row.required) {
            (true, _) => "yes",
            (false, true) => "NO",
            (false, false) => "no, extra",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<12} {holds:<9} {}", row.layer, row.seen.replace('\n', " "));
        if let Some(fix) = &row.fix {
            let _ = writeln!(text, "{:<22} fix: {fix}", "");
        }
    }
    text += if is_well {
        "\nThe minimum holds: tasks are confined by bubblewrap.\n"
    } else {
        "\nBelow the minimum: a worker does not start here.\n"
    };
    text
}
