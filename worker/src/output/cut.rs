//! Where output may be cut: into events whose JSON fits a request, and never inside a UTF-8 character.

use protocol::event::{EventBody, OutputBytes};

use super::Piece;

/// Bytes of output in one batch, about.
pub(crate) const BATCH_BYTES: usize = 32 << 10;
/// The coordinator takes 64 KiB; what escaping adds is counted.
const MAX_BATCH_JSON: usize = 60 << 10;
/// Everything in an event's JSON but its text: names, number, braces.
const EVENT_JSON: usize = 96;

/// How many of these bytes end with a whole character: all of them, or up to three less.
pub(crate) fn whole(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let begin = bytes.len() - back;
        let length = match bytes[begin] {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        return if length > back { begin } else { bytes.len() };
    }
    bytes.len()
}

/// How many bytes at the beginning belong to a character that began earlier: three at most.
pub(crate) fn stray(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xBF)).count()
}

/// Fills batches from pieces of output.
#[derive(Default)]
pub(crate) struct Batch {
    events: Vec<EventBody>,
    json_bytes: usize,
    raw_bytes: usize,
}

impl Batch {
    /// Adds the beginning of a piece; says how much of it. 0: the batch is full.
    pub(crate) fn add(&mut self, piece: &Piece, from: usize) -> usize {
        let rest = &piece.bytes[from..];
        let json_room = MAX_BATCH_JSON.saturating_sub(self.json_bytes + EVENT_JSON);
        let raw_room = BATCH_BYTES.saturating_sub(self.raw_bytes);
        let (length, json_bytes) = fit(rest, raw_room, json_room);
        if length > 0 {
            let bytes = OutputBytes::new(rest[..length].to_vec());
            self.events.push(EventBody::Output { stream: piece.stream, bytes });
            self.json_bytes += json_bytes + EVENT_JSON;
            self.raw_bytes += length;
        }
        length
    }

    pub(crate) fn into_events(self) -> Vec<EventBody> {
        self.events
    }
}

/// How much of these bytes fits, and how long it is as JSON.
fn fit(bytes: &[u8], raw_room: usize, json_room: usize) -> (usize, usize) {
    match std::str::from_utf8(&bytes[..bytes.len().min(raw_room + 4)]) {
        Ok(text) => fit_text(text, raw_room, json_room),
        // Cut inside the last character: what is before it is text.
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            let text = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            fit_text(text, raw_room, json_room)
        }
        Err(_) => {
            let length = bytes.len().min(raw_room).min(json_room / 4 * 3);
            (length, length.div_ceil(3) * 4)
        }
    }
}

fn fit_text(text: &str, raw_room: usize, json_room: usize) -> (usize, usize) {
    let mut json_bytes = 0;
    for (place, character) in text.char_indices() {
        let cost = json_cost(character);
        if place + character.len_utf8() > raw_room || json_bytes + cost > json_room {
            return (place, json_bytes);
        }
        json_bytes += cost;
    }
    (text.len(), json_bytes)
}

const fn json_cost(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\x08' | '\x0c' => 2,
        '\0'..='\x1f' => 6,
        _ => character.len_utf8(),
    }
}

#[cfg(test)]
mod tests;
