//! Events get their numbers when they are sent. A batch that was perhaps received keeps its number and its bytes, so a
//! repeat is harmless; after a gap the numbers go on from where the coordinator says.

use protocol::event::{EventBody, WorkerEvent};
use protocol::{Code, EventBatch, LeaseId};

use crate::client::{CallError, Client};

/// How often one batch may be renumbered before the refusal is believed.
const MAX_GAPS: u32 = 3;

/// Events, and the number of the first of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Numbered {
    pub(crate) next: u64,
    pub(crate) events: Vec<EventBody>,
}

impl Numbered {
    fn batch(&self) -> EventBatch {
        let numbered = self.events.iter().zip(self.next..);
        EventBatch { events: numbered.map(|(body, number)| WorkerEvent { number, body: body.clone() }).collect() }
    }

    /// Goes on from the number that the coordinator wants next: what it has is not sent again, what it lost gets the
    /// lost numbers.
    fn go_on_from(&mut self, expected: u64) {
        let known = usize::try_from(expected.saturating_sub(self.next)).unwrap_or(usize::MAX);
        self.events.drain(..known.min(self.events.len()));
        self.next = expected;
    }
}

/// Sends a batch once, and what a gap leaves of it. After success it is empty.
pub(crate) async fn send(client: &Client, lease: LeaseId, batch: &mut Numbered) -> Result<(), CallError> {
    let mut gaps = 0;
    while !batch.events.is_empty() {
        let end = batch.next + batch.events.len() as u64;
        match client.events(lease, &batch.batch()).await {
            Ok(answer) => batch.go_on_from(end.min(answer.accepted + 1)),
            Err(CallError::Refused(problem)) if problem.code == Code::EventGap && gaps < MAX_GAPS => {
                batch.go_on_from(problem.expected.unwrap_or(1));
            }
            Err(error) => return Err(error),
        }
        gaps += 1;
        if gaps > MAX_GAPS && !batch.events.is_empty() {
            return Err(CallError::NotUnderstood("it takes none of these events".into()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
