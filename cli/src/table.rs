//! Tables for people: columns aligned, the last one cut where the terminal ends, every cell harmless. Pure.

use protocol::Timestamp;
use unicode_width::UnicodeWidthStr as _;

use crate::terminal::harmless_line;

const GAP: &str = "  ";
const MIN_LAST_COLUMN: usize = 8;

/// Rows under headings.
#[derive(Debug)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row. What stands in it may come from anyone.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        self.rows.push(cells.into_iter().map(|cell| dash_if_empty(harmless_line(cell.as_ref()))).collect());
    }

    /// The table as text; `paint` colours a cell that is already in place, by its column and its text.
    pub(crate) fn render(&self, width: Option<usize>, paint: impl Fn(usize, &str) -> Option<String>) -> String {
        let widths = self.widths(width);
        let headings: Vec<String> = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
        let mut text = line(&headings, &widths, |_, _| None);
        for row in &self.rows {
            text.push_str(&line(row, &widths, &paint));
        }
        text
    }

    fn widths(&self, terminal: Option<usize>) -> Vec<usize> {
        let cell_width = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |cell| cell.width());
        let mut widths: Vec<usize> = (0..self.headings.len())
            .map(|column| {
                let widest = self.rows.iter().map(|row| cell_width(row, column)).max().unwrap_or(0);
                widest.max(self.headings[column].width())
            })
            .collect();
        if let (Some(terminal), Some((last, others))) = (terminal, widths.split_last_mut()) {
            let taken: usize = others.iter().map(|width| *width + GAP.len()).sum();
            *last = (*last).min(terminal.saturating_sub(taken).max(MIN_LAST_COLUMN));
        }
        widths
    }
}

fn dash_if_empty(cell: String) -> String {
    if cell.is_empty() { "-".to_owned() } else { cell }
}

fn line(cells: &[String], widths: &[usize], paint: impl Fn(usize, &str) -> Option<String>) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let cell = cut(cell, *width);
        let is_last = column + 1 == cells.len();
        let padding = if is_last { 0 } else { width.saturating_sub(cell.width()) + GAP.len() };
        line.push_str(&paint(column, &cell).unwrap_or(cell));
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line.push('\n');
    line
}

/// The text, cut so that it takes at most that many columns.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if kept.width() >= width {
            kept.pop();
            break;
        }
    }
    kept.push('…');
    kept
}

/// How long ago, as a person says it: `12s`, `3m`, `5h`, `2d`.
pub(crate) fn age(now: Timestamp, then: Timestamp) -> String {
    span(now.ms_since(then))
}

/// A span of milliseconds, as a person says it.
pub(crate) fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How long something took, as a person says it: `6ms`, `1.2s`, then as a span.
pub(crate) fn took(ms: i64) -> String {
    match ms.max(0) {
        ms @ 0..1000 => format!("{ms}ms"),
        ms @ 1000..60_000 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        ms => span(ms),
    }
}

/// Bytes, as a person says them: `512 B`, `1.5 KiB`, `512 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = ((bytes.ilog2() / 10) as usize).min(UNITS.len());
    let tenths = u128::from(bytes) * 10 / (1 << (10 * power));
    let unit = UNITS[power - 1];
    if tenths.is_multiple_of(10) {
        format!("{} {unit}", tenths / 10)
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests;
