//! What happens during an attempt: from the worker in numbered batches, to clients as a stream.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::id::WorkerId;
use crate::outcome::{Reason, TaskState};
use crate::time::Timestamp;

/// Events of one lease. A repeat is harmless, a gap is refused with the expected number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventBatch {
    /// The events, numbered upwards without a gap.
    pub events: Vec<WorkerEvent>,
}

/// The answer to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsAccepted {
    /// The number of the last event that is kept.
    pub accepted: u64,
}

/// One event of a lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerEvent {
    /// Its number, from 1 in each lease.
    pub number: u64,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// What happened, as the worker says it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventBody {
    /// The process wrote something.
    Output {
        /// Where it wrote.
        stream: Stream,
        /// What it wrote.
        #[serde(flatten)]
        bytes: OutputBytes,
    },
    /// It got somewhere.
    Progress {
        /// Where, in the task's own words.
        data: serde_json::Value,
    },
    /// An agent used a tool.
    Tool {
        /// Which, and with what.
        data: serde_json::Value,
    },
    /// An agent said something.
    Message {
        /// What.
        data: serde_json::Value,
    },
    /// An agent spent something.
    Usage {
        /// What.
        data: serde_json::Value,
    },
    /// Something went wrong that did not end the attempt.
    Error {
        /// What.
        data: serde_json::Value,
    },
}

/// Where a process writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Bytes of output: as text when they are text, else in base64, so that none is changed on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputBytes {
    /// Valid UTF-8.
    Text(String),
    /// Anything else.
    Base64(String),
}

impl OutputBytes {
    /// Wraps bytes, as text if they are.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Base64(BASE64_STANDARD.encode(error.as_bytes())),
        }
    }

    /// The bytes themselves.
    ///
    /// # Errors
    /// When the base64 is not valid.
    pub fn into_bytes(self) -> Result<Vec<u8>, base64::DecodeError> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Base64(encoded) => BASE64_STANDARD.decode(encoded),
        }
    }
}

/// A change of state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateEvent {
    /// The new state.
    pub state: TaskState,
    /// Why: of a done task its reason, of one that is queued again what ended the attempt.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// The attempt that began or ended; 0 before the first.
    pub attempt: u32,
    /// The worker that has or had it.
    #[serde(default)]
    pub worker: Option<WorkerId>,
    /// When.
    pub at: Timestamp,
}
