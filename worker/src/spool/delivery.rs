//! Brings one report to the coordinator: the events that are left, then the report. It can be stopped and goes on where
//! it was.

use std::io;

use protocol::event::EventBody;
use protocol::{Code, LeaseId, Report};

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
    batches: B,
    current: Numbered,
}

impl<B: Iterator<Item = io::Result<Vec<EventBody>>>> Delivery<B> {
    /// Events are numbered from `first`.
    pub(crate) fn new(lease: LeaseId, report: Report, first: u64, batches: B) -> Self {
        Self { lease, report, batches, current: Numbered { next: first, events: Vec::new() } }
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
        loop {
            send(client, self.lease, &mut self.current).await?;
            match self.batches.next() {
                Some(Ok(events)) => self.current.events = events,
                Some(Err(error)) => return Ok(Some(error)),
                None => break,
            }
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
