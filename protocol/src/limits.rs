//! What a process may use. Absent means the default of its kind.

use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;

/// Output of one stream that is kept, in bytes, when the spec does not say.
pub const DEFAULT_OUTPUT_BYTES: u64 = 10 * MIB;

/// Output of one stream that stands in the result itself, in bytes.
pub const RESULT_OUTPUT_BYTES: usize = 1 << 20;

/// Output of one stream, in bytes, beyond which a task ends with `output_limit`.
pub const MAX_WRITTEN_BYTES: u64 = 1024 * MIB;

/// How deep the brackets of a return value may be nested. Readers of JSON give up at 128 levels, and a value that comes in
/// goes out again a few levels deeper.
pub const MAX_VALUE_DEPTH: usize = 100;

/// Limits of one task; each is optional.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory of all its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processor time of all its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<u32>,
    /// Processes and threads at one time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// The largest file it may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size_bytes: Option<u64>,
    /// Open files of one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u32>,
    /// Disk that all its files may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Output of one stream that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// What an agent may spend, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// How many turns an agent may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
}

impl Limits {
    /// Whether anything is asked that a worker must be able to enforce on the process itself.
    #[must_use]
    pub fn needs_enforcement(&self) -> bool {
        Self { output_bytes: None, ..*self } != Self::default()
    }

    /// Output of one stream that is kept, in bytes.
    #[must_use]
    pub fn output_bytes(&self) -> u64 {
        self.output_bytes.unwrap_or(DEFAULT_OUTPUT_BYTES)
    }
}

/// The line that stands where bytes of a stream are missing: nobody takes head and tail for one text.
#[must_use]
pub fn left_out(bytes: u64) -> String {
    format!("\n[… {bytes} bytes left out …]\n")
}
