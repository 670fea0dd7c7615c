//! What goes over the socket between the worker and the stages: two framed plans one way, then a JSON line each: orders
//! one way, notes the other. Its end tells each side that the other one died. No secret of the worker goes over it.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::limits::Passed;

const MAX_PLAN_BYTES: u32 = 64 << 20;

/// What the worker tells `init`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// End every process: TERM, then KILL when this time is over.
    Stop {
        /// The time between, in milliseconds.
        grace_ms: u64,
    },
}

/// What the stages tell the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    /// The confinement could not be built, and nothing ran.
    Unconfined {
        /// Which step failed, and why.
        message: String,
    },
    /// The walls stand, and a process waits behind them to be the program.
    Waiting,
    /// The listeners that were asked for come with this line.
    Listening,
    /// The program runs.
    Started,
    /// It does not.
    NotStarted {
        /// The code that a shell would give: 127 not found, 126 not executable.
        code: i32,
        /// Why.
        message: String,
    },
    /// All processes are gone.
    Ended(End),
}

/// How the processes of an attempt ended, and what they used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct End {
    /// How the program itself ended.
    pub(crate) status: Status,
    /// The limit for which they were ended.
    pub(crate) passed: Option<Passed>,
    /// From the start of the program to the end of the last of them.
    pub(crate) wall_ms: u64,
    /// Processor time of all of them.
    pub(crate) cpu_ms: u64,
    /// The most memory that was seen: of one of them, or of all at a sample.
    pub(crate) peak_memory_bytes: u64,
    /// Whether looks at all of them saw more than the kernel told of those that were reaped.
    pub(crate) is_sampled: bool,
    /// What the program handed back.
    pub(crate) returned: Returned,
}

/// What came over the descriptor for the return value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Returned {
    /// Nothing.
    #[default]
    Nothing,
    /// These bytes, which may be anything.
    Text(String),
    /// More than is kept.
    TooLarge,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// By itself.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
}

/// A plan as it is sent.
pub(crate) fn frame<T: Serialize>(plan: &T) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(plan)?;
    let length = u32::try_from(json.len()).map_err(io::Error::other)?;
    Ok([&length.to_le_bytes()[..], &json].concat())
}

/// Reads one plan and not a byte more: what follows is for the next stage.
pub(crate) fn read_frame<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_PLAN_BYTES {
        return Err(io::Error::other("this is started by `cw-worker run`, not by hand"));
    }
    let mut json = vec![0; length as usize];
    from.read_exact(&mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

/// Says something to a worker that may be gone.
pub(crate) fn say(mut to: impl Write, note: &Note) {
    if let Ok(mut line) = serde_json::to_vec(note) {
        line.push(b'\n');
        let _ = to.write_all(&line);
    }
}
