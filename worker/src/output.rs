//! What an attempt's processes write: read as it comes, sent live up to half of what is kept, the newest other half
//! held back in a ring and sent at the end. The middle is dropped; a line says where, and how much it was.
//!
//! Memory is bounded: when the coordinator is slow, reading stops and the task waits. Nothing is ever split inside a
//! UTF-8 character.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::Stream;
use protocol::event::EventBody;
use protocol::limits::{MAX_WRITTEN_BYTES, left_out};
use protocol::outcome::StreamBytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

pub(crate) use leftover::Leftover;
use tail::Tail;

mod cut;
mod leftover;
pub(crate) mod live;
mod tail;

/// Output that waits for the coordinator, beyond which reading stops.
const BUFFER_BYTES: usize = 4 << 20;
const READ_BYTES: usize = 64 << 10;
/// How long to wait for the end of the streams once every process is gone.
const CLOSE: Duration = Duration::from_secs(2);

/// The output of one attempt.
pub(crate) struct Output {
    shared: Arc<Shared>,
    readers: JoinSet<()>,
}

struct Shared {
    state: Mutex<State>,
    /// Something waits to be sent.
    ready: Notify,
    /// There is room to read on.
    room: Notify,
    /// A stream is over what may be written at all.
    flooded: Notify,
}

struct State {
    /// The number of the first event in flight.
    next: u64,
    /// Events that were numbered, and perhaps sent, and are not acknowledged.
    in_flight: Vec<EventBody>,
    pending: Vec<Piece>,
    pending_bytes: usize,
    stdout: Kept,
    stderr: Kept,
    last_output_at: Instant,
    is_closing: bool,
    /// The coordinator takes no more: what comes is only counted.
    is_refused: bool,
}

/// What was written, and what of it was not kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) written: StreamBytes,
    pub(crate) dropped: StreamBytes,
}

/// Bytes of one stream, whole characters if they are text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    stream: Stream,
    bytes: Vec<u8>,
}

/// One stream's account.
struct Kept {
    written: u64,
    /// How much more is sent live.
    head_left: u64,
    /// What came after that.
    tailed: u64,
    /// What the coordinator did not take.
    refused: u64,
    /// The beginning of a character whose rest was not read yet.
    partial: Vec<u8>,
    tail: Tail,
}

impl Output {
    /// Keeps `limit` bytes of each stream; the rings are files in `directory`.
    pub(crate) fn new(limit: u64, directory: &std::path::Path) -> Self {
        let kept = |name: &str| Kept {
            written: 0,
            head_left: limit.div_ceil(2),
            tailed: 0,
            refused: 0,
            partial: Vec::new(),
            tail: Tail::new(directory.join(name), limit / 2),
        };
        let state = State {
            next: 1,
            in_flight: Vec::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            stdout: kept("tail-stdout"),
            stderr: kept("tail-stderr"),
            last_output_at: Instant::now(),
            is_closing: false,
            is_refused: false,
        };
        let shared =
            Shared { state: Mutex::new(state), ready: Notify::new(), room: Notify::new(), flooded: Notify::new() };
        Self { shared: Arc::new(shared), readers: JoinSet::new() }
    }

    /// Reads both streams until they end.
    pub(crate) fn read(&mut self, stdout: ChildStdout, stderr: ChildStderr) {
        self.shared.lock().last_output_at = Instant::now();
        self.readers.spawn(read(Arc::clone(&self.shared), Stream::Stdout, stdout));
        self.readers.spawn(read(Arc::clone(&self.shared), Stream::Stderr, stderr));
    }

    /// Adds a line of the worker's own to standard error, as a shell would.
    pub(crate) fn say(&self, line: &str) {
        self.shared.take(Stream::Stderr, format!("cw-worker: {line}\n").as_bytes());
    }

    /// Waits until nothing was written for this long. Safe to cancel.
    pub(crate) async fn idle(&self, time: Duration) {
        loop {
            let (until, is_full) = {
                let state = self.shared.lock();
                (state.last_output_at + time, state.is_full())
            };
            // A task that waits for us to read is not idle.
            if Instant::now() >= until && !is_full {
                return;
            }
            sleep_until(until.max(Instant::now() + Duration::from_millis(100))).await;
        }
    }

    /// Waits until a stream is over what may be written at all. Safe to cancel.
    pub(crate) async fn flooded(&self) {
        self.shared.flooded.notified().await;
    }

    /// Reads what is left once the processes are gone; hands over all that was not acknowledged, and what was written.
    pub(crate) async fn close(mut self) -> (Leftover, Account) {
        self.shared.lock().is_closing = true;
        self.shared.room.notify_waiters();
        let ended = timeout(CLOSE, async { while self.readers.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            tracing::warn!("a process that could not be ended holds the output open; what it writes is dropped");
            self.readers.shutdown().await;
        }
        let mut state = self.shared.lock();
        state.flush(Stream::Stdout);
        state.flush(Stream::Stderr);
        let written = StreamBytes { stdout: state.stdout.written, stderr: state.stderr.written };
        let dropped = StreamBytes { stdout: state.mark(Stream::Stdout), stderr: state.mark(Stream::Stderr) };
        (state.hand_over(), Account { written, dropped })
    }
}

async fn read(shared: Arc<Shared>, stream: Stream, mut from: impl AsyncRead + Unpin) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        shared.wait_for_room().await;
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => shared.take(stream, &buffer[..length]),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for_room(&self) {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if !self.lock().is_full() {
                return;
            }
            room.await;
        }
    }

    fn take(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.lock();
        state.take(stream, bytes);
        let written = state.kept(stream).written;
        let is_pending = state.pending_bytes > 0;
        drop(state);
        if written > MAX_WRITTEN_BYTES {
            self.flooded.notify_one();
        }
        if is_pending {
            self.ready.notify_one();
        }
    }
}

impl Kept {
    fn hold_back(&mut self, bytes: &[u8]) {
        self.tailed += bytes.len() as u64;
        self.tail.push(bytes);
    }

    /// Bytes between head and tail that are gone, or all that were not taken.
    fn dropped(&self) -> u64 {
        self.refused + self.tailed - self.tail.len().unwrap_or(0)
    }
}

impl State {
    fn is_full(&self) -> bool {
        self.pending_bytes >= BUFFER_BYTES && !self.is_closing
    }

    fn kept(&mut self, stream: Stream) -> &mut Kept {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        self.last_output_at = Instant::now();
        let kept = self.kept(stream);
        kept.written += bytes.len() as u64;
        if kept.head_left == 0 {
            return kept.hold_back(bytes);
        }
        let mut bytes = [std::mem::take(&mut kept.partial), bytes.to_vec()].concat();
        if bytes.len() as u64 >= kept.head_left {
            let room = usize::try_from(kept.head_left).unwrap_or(usize::MAX);
            let end = cut::whole(&bytes[..room]);
            kept.head_left = 0;
            kept.hold_back(&bytes[end..]);
            bytes.truncate(end);
        } else {
            kept.partial = bytes.split_off(cut::whole(&bytes));
            kept.head_left -= bytes.len() as u64;
        }
        self.add(stream, bytes);
    }

    /// What still looked like the beginning of a character was none.
    fn flush(&mut self, stream: Stream) {
        let partial = std::mem::take(&mut self.kept(stream).partial);
        self.add(stream, partial);
    }

    /// Puts a line where the middle is missing, and says how much of it is.
    fn mark(&mut self, stream: Stream) -> u64 {
        let dropped = self.kept(stream).dropped();
        if dropped > 0 && !self.is_refused {
            self.add(stream, left_out(dropped).into_bytes());
        }
        dropped
    }

    fn add(&mut self, stream: Stream, mut bytes: Vec<u8>) {
        if self.is_refused {
            self.kept(stream).refused += bytes.len() as u64;
            return;
        }
        self.pending_bytes += bytes.len();
        match self.pending.last_mut() {
            Some(last) if last.stream == stream && last.bytes.len() < cut::BATCH_BYTES => last.bytes.append(&mut bytes),
            Some(_) | None if bytes.is_empty() => {}
            Some(_) | None => self.pending.push(Piece { stream, bytes }),
        }
    }

    fn hand_over(&mut self) -> Leftover {
        let tail = |kept: &mut Kept| std::mem::replace(&mut kept.tail, Tail::new("".into(), 0));
        Leftover {
            first: self.next,
            in_flight: std::mem::take(&mut self.in_flight),
            pieces: std::mem::take(&mut self.pending),
            tails: [(Stream::Stdout, tail(&mut self.stdout)), (Stream::Stderr, tail(&mut self.stderr))],
        }
    }
}

#[cfg(test)]
mod tests;
