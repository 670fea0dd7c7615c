//! What an attempt wrote and nobody acknowledged yet, as batches in the order in which they must be sent.

use std::io;
use std::sync::Arc;

use protocol::Stream;
use protocol::event::EventBody;

use super::cut::{self, Batch};
use super::{Piece, Tail};

/// The unacknowledged rest of an attempt's output.
pub(crate) struct Leftover {
    /// The number of its first event.
    pub(crate) first: u64,
    /// Events that were perhaps sent: they keep their numbers and their bytes.
    pub(crate) in_flight: Vec<EventBody>,
    pub(super) pieces: Vec<Piece>,
    pub(super) tails: [(Stream, Tail); 2],
}

impl Leftover {
    /// Of an attempt that wrote nothing.
    pub(crate) fn nothing() -> Self {
        let none = || Tail::new("".into(), 0);
        let tails = [(Stream::Stdout, none()), (Stream::Stderr, none())];
        Self { first: 1, in_flight: Vec::new(), pieces: Vec::new(), tails }
    }

    /// Its batches, from the first each time that this is called.
    pub(crate) fn batches(self: &Arc<Self>) -> Batches {
        Batches { left: Arc::clone(self), sent_in_flight: false, piece: 0, offset: 0, tail: 0, tail_place: 0 }
    }
}

/// Batches of a leftover; only one is in memory at a time.
pub(crate) struct Batches {
    left: Arc<Leftover>,
    sent_in_flight: bool,
    piece: usize,
    offset: usize,
    tail: usize,
    tail_place: u64,
}

impl Iterator for Batches {
    type Item = io::Result<Vec<EventBody>>;

    fn next(&mut self) -> Option<Self::Item> {
        if !std::mem::replace(&mut self.sent_in_flight, true) && !self.left.in_flight.is_empty() {
            return Some(Ok(self.left.in_flight.clone()));
        }
        if self.piece < self.left.pieces.len() {
            return Some(Ok(self.next_of_pieces()));
        }
        self.next_of_tails().transpose()
    }
}

impl Batches {
    fn next_of_pieces(&mut self) -> Vec<EventBody> {
        let mut batch = Batch::default();
        while let Some(piece) = self.left.pieces.get(self.piece) {
            let taken = batch.add(piece, self.offset);
            self.offset += taken;
            if self.offset == piece.bytes.len() {
                (self.piece, self.offset) = (self.piece + 1, 0);
            } else if taken == 0 {
                break;
            }
        }
        batch.into_events()
    }

    fn next_of_tails(&mut self) -> io::Result<Option<Vec<EventBody>>> {
        let left = Arc::clone(&self.left);
        while let Some((stream, tail)) = left.tails.get(self.tail) {
            let mut bytes = vec![0; cut::BATCH_BYTES];
            let length = tail.read(self.tail_place, &mut bytes)?;
            if length == 0 {
                (self.tail, self.tail_place) = (self.tail + 1, 0);
                continue;
            }
            bytes.truncate(length);
            let is_last = self.tail_place + length as u64 == tail.len()?;
            if !is_last {
                bytes.truncate(cut::whole(&bytes));
            }
            let mut batch = Batch::default();
            self.tail_place += batch.add(&Piece { stream: *stream, bytes }, 0) as u64;
            return Ok(Some(batch.into_events()));
        }
        Ok(None)
    }
}
