//! Brings one report to the coordinator: the events that are left, then the report. It can be stopped and goes on where
//! it was.

use std::io;

use protocol::event::EventBody;
use protocol::{Code, LeaseId, Report, Stream};

use super::numbering::{Numbered, send};
use crate::client::{CallError, Client};

/// How a delivery came to an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The coordinator has it.
    Acknowledged,
    /// The lease is another's now: nobody wants it.
    LeaseLost,
    /// The key is refused: it may be taken again one day.
    KeyRefused,
    /// It can never be delivered, and why.
    Undeliverable(String),
}

/// A report on its way.
pub(crate) struct Delivery<B> {
    pub(crate) lease: LeaseId,
    report: Report,
    /// None once the coordinator takes no more events.
    batches: Option<B>,
    current: Numbered,
}

impl<B: Iterator<Item = io::Result<Vec<EventBody>>>> Delivery<B> {
    /// Events are numbered from `first`.
    pub(crate) fn new(lease: LeaseId, report: Report, first: u64, batches: B) -> Self {
        Self { lease, report, batches: Some(batches), current: Numbered { next: first, events: Vec::new() } }
    }

    /// Goes as far as it gets. An error is worth another try, later.
    pub(crate) async fn go(&mut self, client: &Client) -> Result<Settled, CallError> {
        match self.send(client).await {
            Ok(None) => Ok(Settled::Acknowledged),
            Ok(Some(unreadable)) => Ok(Settled::Undeliverable(unreadable.to_string())),
            Err(error) => settle(error),
        }
    }

    async fn send(&mut self, client: &Client) -> Result<Option<io::Error>, CallError> {
        if let Some(unreadable) = self.send_events(client).await? {
            return Ok(Some(unreadable));
        }
        self.report.last_event = Some(self.current.next - 1).filter(|last| *last > 0);
        match client.report(self.lease, &self.report).await {
            // Events that were acknowledged are gone over there, and here: the report is worth more.
            Err(CallError::Refused(problem)) if problem.code == Code::EventGap => {
                self.report.last_event = problem.expected.and_then(|expected| expected.checked_sub(1));
                client.report(self.lease, &self.report).await.map(|_| None)
            }
            answer => answer.map(|_| None),
        }
    }

    async fn send_events(&mut self, client: &Client) -> Result<Option<io::Error>, CallError> {
        while let Some(batches) = &mut self.batches {
            match send(client, self.lease, &mut self.current).await {
                Err(error) if error.is_too_large() => {
                    tracing::warn!(lease = %self.lease, "the rest of the output is dropped: {error}");
                    self.drop_rest();
                    break;
                }
                sent => sent?,
            }
            match batches.next() {
                Some(Ok(events)) => self.current.events = events,
                Some(Err(error)) => return Ok(Some(error)),
                None => break,
            }
        }
        Ok(None)
    }

    /// The report is worth more than the events that are left; it says how much they were, as far as they can be read.
    fn drop_rest(&mut self) {
        let rest = self.batches.take().into_iter().flatten().map_while(Result::ok).flatten();
        for event in self.current.events.drain(..).chain(rest) {
            let EventBody::Output { stream, bytes } = event else { continue };
            let dropped = match stream {
                Stream::Stdout => &mut self.report.dropped_bytes.stdout,
                Stream::Stderr => &mut self.report.dropped_bytes.stderr,
            };
            *dropped += bytes.into_bytes().map_or(0, |bytes| bytes.len() as u64);
        }
    }
}

fn settle(error: CallError) -> Result<Settled, CallError> {
    match error.status() {
        _ if error.is_lease_lost() => Ok(Settled::LeaseLost),
        Some(401 | 403) => Ok(Settled::KeyRefused),
        // 408 and 429 are about the moment, not about the report.
        Some(status @ 400..=499) if !matches!(status, 408 | 429) => Ok(Settled::Undeliverable(error.to_string())),
        Some(_) | None => Err(error),
    }
}
