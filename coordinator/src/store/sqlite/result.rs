//! What came of a task, put together once, when it is done: what the worker reported, and head and tail of its output.

use protocol::limits::{RESULT_OUTPUT_BYTES, left_out};
use protocol::outcome::StreamBytes;
use protocol::{Stream, TaskResult};
use rusqlite::Connection;

use super::artifacts;
use super::events::stream_column;
use super::row::Stored;
use super::verbs::Said;
use crate::store::types::StoreError;

/// Bytes kept at each end of a stream.
const END_BYTES: usize = RESULT_OUTPUT_BYTES / 2;

/// Writes the result of a task that was just done.
pub(super) fn save(db: &Connection, stored: &Stored, said: Option<Said<'_>>) -> Result<(), StoreError> {
    let (report, published) = said.map_or((None, None), |said| (Some(said.report), said.published));
    let written = report.map(|report| report.written_bytes).unwrap_or_default();
    let dropped = report.map(|report| report.dropped_bytes).unwrap_or_default();
    let stdout = ends(db, stored, Stream::Stdout, (written.stdout, dropped.stdout))?;
    let stderr = ends(db, stored, Stream::Stderr, (written.stderr, dropped.stderr))?;
    let artifacts = report.map_or_else(|| Ok(Vec::new()), |report| artifacts::publish(db, stored, report))?;
    let outcome = report.map(|report| &report.outcome);
    let result = TaskResult {
        exit_code: outcome.and_then(protocol::Outcome::exit_code),
        signal: outcome.and_then(protocol::Outcome::signal),
        detail: outcome.and_then(|outcome| outcome.detail().map(cut_detail)),
        dropped_bytes: StreamBytes { stdout: stdout.dropped, stderr: stderr.dropped },
        written_bytes: StreamBytes { stdout: stdout.written, stderr: stderr.written },
        stdout: stdout.text,
        stderr: stderr.text,
        return_value: report.and_then(|report| report.return_value.clone()),
        usage: report.and_then(|report| report.usage.clone()),
        confinement: report.and_then(|report| report.confinement.clone()),
        skipped: report.map(|report| artifacts::skipped(report, &artifacts)).unwrap_or_default(),
        artifacts,
        published,
    };
    let json = serde_json::to_string(&result).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    db.prepare_cached("INSERT INTO results (task, json) VALUES (?1, ?2)")?.execute((stored.seq, json))?;
    Ok(())
}

fn cut_detail(detail: &str) -> String {
    detail.chars().take(4096).collect()
}

struct Ends {
    text: String,
    written: u64,
    dropped: u64,
}

/// Head and tail of what one stream of the newest attempt wrote, by the worker's account of it.
fn ends(db: &Connection, stored: &Stored, stream: Stream, (written, dropped): (u64, u64)) -> Result<Ends, StoreError> {
    if stored.lease_events == 0 {
        return Ok(Ends { text: String::new(), written, dropped: written });
    }
    let head = read(db, stored, stream, Order::Forwards)?;
    let (kept, text, shown) = if head.is_cut {
        let kept = stored_bytes(db, stored, stream)?;
        let mut tail = read(db, stored, stream, Order::Backwards)?;
        tail.parts.reverse();
        let (head, tail) = (head.parts.concat(), tail.parts.concat());
        let shown = (head.len() + tail.len()) as u64;
        (kept, joined(&head, &tail, kept.saturating_sub(shown)), shown)
    } else {
        let whole = head.parts.concat();
        let length = whole.len() as u64;
        (length, String::from_utf8_lossy(&whole).into_owned(), length)
    };
    // An attempt that ended without a report left no account; one that dropped something kept a line that nobody wrote.
    let written = if dropped == 0 { written.max(kept) } else { written };
    let lost = dropped.max(written.saturating_sub(kept));
    Ok(Ends { text, written, dropped: lost.saturating_add(kept.saturating_sub(shown)) })
}

fn stored_bytes(db: &Connection, stored: &Stored, stream: Stream) -> Result<u64, StoreError> {
    let bytes: i64 = db
        .prepare_cached(
            "SELECT coalesce(sum(length(data)), 0) FROM events WHERE task = ?1 AND attempt = ?2 AND kind = ?3",
        )?
        .query_row((stored.seq, stored.task.attempt, stream_column(stream)), |row| row.get(0))?;
    Ok(bytes.cast_unsigned())
}

enum Order {
    Forwards,
    Backwards,
}

struct Piece {
    parts: Vec<Vec<u8>>,
    is_cut: bool,
}

/// Reads a stream from one of its ends, at most as much as a result shows.
fn read(db: &Connection, stored: &Stored, stream: Stream, order: Order) -> Result<Piece, StoreError> {
    let mut statement = db.prepare_cached(match order {
        Order::Forwards => "SELECT data FROM events WHERE task = ?1 AND attempt = ?2 AND kind = ?3 ORDER BY number",
        Order::Backwards => {
            "SELECT data FROM events WHERE task = ?1 AND attempt = ?2 AND kind = ?3 ORDER BY number DESC"
        }
    })?;
    let most = match order {
        // A stream that fits as a whole is shown as a whole.
        Order::Forwards => 2 * END_BYTES,
        Order::Backwards => END_BYTES,
    };
    let mut rows = statement.query((stored.seq, stored.task.attempt, stream_column(stream)))?;
    let mut piece = Piece { parts: Vec::new(), is_cut: false };
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let data = row.get_ref(0)?.as_bytes().map_err(rusqlite::Error::from)?;
        if bytes + data.len() > most {
            piece.is_cut = true;
            cut(&mut piece, data, bytes, &order);
            break;
        }
        bytes += data.len();
        piece.parts.push(data.to_vec());
    }
    Ok(piece)
}

/// Takes what still fits of the part that does not; of a long stream the head is only half of what was read.
fn cut(piece: &mut Piece, data: &[u8], bytes: usize, order: &Order) {
    match order {
        Order::Forwards => {
            piece.parts.push(data.to_vec());
            let mut head = piece.parts.concat();
            head.truncate(character_end(&head, END_BYTES));
            piece.parts = vec![head];
        }
        Order::Backwards => {
            let start = data.len() - (END_BYTES - bytes);
            piece.parts.push(data[character_start(data, start)..].to_vec());
        }
    }
}

/// The last place at or before `place` that does not split a character.
fn character_end(bytes: &[u8], place: usize) -> usize {
    (place.saturating_sub(3)..=place.min(bytes.len())).rev().find(|end| is_boundary(bytes, *end)).unwrap_or(place)
}

/// The first place at or after `place` that does not split a character.
fn character_start(bytes: &[u8], place: usize) -> usize {
    (place..=(place + 3).min(bytes.len())).find(|start| is_boundary(bytes, *start)).unwrap_or(place)
}

fn is_boundary(bytes: &[u8], place: usize) -> bool {
    bytes.get(place).is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000)
}

fn joined(head: &[u8], tail: &[u8], between: u64) -> String {
    let mut text = String::from_utf8_lossy(head).into_owned();
    text.push_str(&left_out(between));
    text.push_str(&String::from_utf8_lossy(tail));
    text
}

#[cfg(test)]
mod tests;
