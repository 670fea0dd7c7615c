//! What the doctor found, for people.

use std::fmt::Write as _;

use super::Row;
use crate::confinement::Level;

/// A line for each wall, the fix below what is missing, and the verdict.
pub(super) fn text(rows: &[Row], is_well: bool, level: Level) -> String {
    let mut text = format!("{:<12} {:<9} what was seen\n", "layer", "holds");
    for row in rows {
        let holds = match (row.holds, row.required) {
            (true, _) => "yes",
            (false, true) => "NO",
            (false, false) => level.lacks(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<12} {holds:<9} {}", row.layer, row.seen.replace('\n', " "));
        if let Some(fix) = &row.fix {
            let _ = writeln!(text, "{:<22} fix: {fix}", "");
        }
    }
    let verdict = if is_well { level.verdict() } else { "Below the minimum: a worker does not start here." };
    text + "\n" + verdict + "\n"
}
