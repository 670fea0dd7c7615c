//! What the programs of code-workers say to each other: the types of every message, the rules that make one valid,
//! and the one number that says which generation of them is spoken.
//!
//! This crate never touches the network, the disk, the clock or the environment.

pub mod admin;
pub mod artifact;
pub mod event;
pub mod id;
pub mod lease;
pub mod limits;
pub mod name;
pub mod outcome;
pub mod path;
pub mod problem;
pub mod spec;
pub mod task;
pub mod time;
pub mod unit;
mod validate;
pub mod why;
pub mod workspace;

pub use artifact::{Artifact, Skipped};
pub use event::{EventBatch, OutputBytes, Stream, WorkerEvent};
pub use id::{KeyId, LeaseId, StageId, TaskId, WorkerId};
pub use lease::{LeaseGrant, LeaseRequest, Release, Renew, Renewed, Stop, WorkerInfo, WorkerState};
pub use limits::Limits;
pub use name::{RepoName, SessionName};
pub use outcome::{Outcome, Reason, Report, TaskState};
pub use problem::{Code, Problem};
pub use spec::{Run, Spec};
pub use task::{TaskResult, TaskRow, TaskView};
pub use time::Timestamp;
pub use validate::Invalid;

/// The generation of messages that this build speaks. It grows when a message changes its meaning.
pub const PROTOCOL: u32 = 1;

/// The oldest generation that this build still understands: its direct neighbour, once there is one.
pub const OLDEST_PROTOCOL: u32 = 1;

/// The header in which each side says its generation.
pub const PROTOCOL_HEADER: &str = "cw-protocol";

/// Decodes a message, and names the field that is wrong when it is not one.
///
/// # Errors
/// The field's path (`run.code`, `labels`, empty for the whole) and what was wrong with it.
pub fn decode<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, Invalid> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let field = match error.path().to_string() {
            path if path == "." => String::new(),
            path => path,
        };
        Invalid::new(field, error.into_inner().to_string())
    })?;
    reader.end().map_err(|error| Invalid::new("", error.to_string()))?;
    Ok(value)
}

#[cfg(test)]
mod tests;
