//! Carries bytes between two streams, both ways at once, in memory that never grows: a buffer for each direction, which
//! is read into only when all of it was written on. It never looks at a byte.
//!
//! Each direction ends by itself:
//!
//! ```text
//! Open ──end of file──> Ending ──all written, end passed on──> Ended
//!   └──────── error ──────┴───────────────────────────────────> Broken
//! ```
//!
//! The end of one direction is passed on (half-close) while the other goes on: a client that says "that was all" still
//! gets its answer. A write error breaks one direction alone, since the peer may have sent its answer before it hung up;
//! a read error ends both, for nothing more can come from there.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep};

/// The memory that a direction takes.
pub const BUFFER_BYTES: usize = 16 << 10;

/// How a relay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both directions came to their end, and all bytes were written.
    Whole,
    /// One side broke off; bytes may be missing.
    Broken,
    /// Nothing moved for too long.
    Idle,
}

/// Where the bytes that were written are counted, as they are.
#[derive(Debug, Clone, Copy)]
pub struct Carried<'a> {
    /// From the first stream to the second.
    pub out: &'a AtomicU64,
    /// From the second stream to the first.
    pub back: &'a AtomicU64,
}

/// Carries bytes until both directions have ended, one side breaks, or nothing moved for `idle`. Dropping it stops at
/// once. The streams are left to the caller to close.
pub async fn relay<A, B>(near: &mut A, far: &mut B, idle: Duration, carried: Carried<'_>) -> End
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let mut out = Direction::new(carried.out);
    let mut back = Direction::new(carried.back);
    let mut moved_at = Instant::now();
    let mut alarm = pin!(sleep(idle));
    poll_fn(|cx| {
        let before = out.steps + back.steps;
        let polled = (out.poll(cx, near, far, back.state), back.poll(cx, far, near, out.state));
        if let Some(end) = end(&out, &back, polled) {
            return Poll::Ready(end);
        }
        if out.steps + back.steps != before {
            moved_at = Instant::now();
        }
        // The alarm is set anew only when it rings: setting it for each byte would cost more than carrying it.
        while alarm.as_mut().poll(cx).is_ready() {
            if moved_at.elapsed() >= idle {
                return Poll::Ready(End::Idle);
            }
            alarm.as_mut().reset(moved_at + idle);
        }
        Poll::Pending
    })
    .await
}

fn end(out: &Direction<'_>, back: &Direction<'_>, polled: (Poll<()>, Poll<()>)) -> Option<End> {
    match (out.state, back.state) {
        (State::Ended, State::Ended) => Some(End::Whole),
        (State::Unreadable, _) | (_, State::Unreadable) => Some(End::Broken),
        _ if polled.0.is_ready() && polled.1.is_ready() => Some(End::Broken),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Ending,
    Ended,
    /// Broken where it is read from.
    Unreadable,
    /// Broken where it is written to.
    Unwritable,
}

struct Direction<'a> {
    buffer: Box<[u8]>,
    /// What is read and not yet written.
    pending: std::ops::Range<usize>,
    state: State,
    /// Reads and writes that moved something.
    steps: u64,
    carried: &'a AtomicU64,
}

impl<'a> Direction<'a> {
    fn new(carried: &'a AtomicU64) -> Self {
        Self { buffer: vec![0; BUFFER_BYTES].into_boxed_slice(), pending: 0..0, state: State::Open, steps: 0, carried }
    }

    /// Ready when this direction is over, one way or the other. Where the opposite one broke, an end may stand for the
    /// reset that the failed write already reported: it is not passed on as an end.
    fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W, opposite: State) -> Poll<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            match self.state {
                State::Ended | State::Unreadable | State::Unwritable => return Poll::Ready(()),
                _ if !self.pending.is_empty() => ready!(self.poll_write(cx, to)),
                State::Open => {
                    if self.poll_read(cx, from).is_pending() {
                        // Streams that buffer would otherwise hold back the last bytes of a question.
                        let flushed = ready!(Pin::new(to).poll_flush(cx));
                        self.unless_failed(flushed, State::Unwritable);
                        return if self.state == State::Open { Poll::Pending } else { Poll::Ready(()) };
                    }
                }
                State::Ending if opposite == State::Unwritable => return Poll::Ready(()),
                State::Ending => {
                    let ended = ready!(Pin::new(&mut *to).poll_shutdown(cx));
                    self.state = State::Ended;
                    self.steps += 1;
                    self.unless_failed(ended, State::Unwritable);
                }
            }
        }
    }

    fn poll_read<R: AsyncRead + Unpin>(&mut self, cx: &mut Context<'_>, from: &mut R) -> Poll<()> {
        let mut buffer = ReadBuf::new(&mut self.buffer);
        let read = ready!(Pin::new(from).poll_read(cx, &mut buffer));
        self.pending = 0..buffer.filled().len();
        self.steps += 1;
        if self.pending.is_empty() {
            self.state = State::Ending;
        }
        self.unless_failed(read, State::Unreadable);
        Poll::Ready(())
    }

    fn poll_write<W: AsyncWrite + Unpin>(&mut self, cx: &mut Context<'_>, to: &mut W) -> Poll<()> {
        let bytes = &self.buffer[self.pending.clone()];
        let written = match ready!(Pin::new(to).poll_write(cx, bytes)) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            written => written,
        };
        self.steps += 1;
        if let Ok(length) = written {
            self.pending.start += length;
            self.carried.fetch_add(length as u64, Ordering::Relaxed);
        }
        self.unless_failed(written.map(drop), State::Unwritable);
        Poll::Ready(())
    }

    fn unless_failed(&mut self, done: io::Result<()>, failed: State) {
        if done.is_err() {
            self.state = failed;
        }
    }
}
