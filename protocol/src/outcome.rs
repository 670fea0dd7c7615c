//! How an attempt ended, and what a client sees of it. The worker says the outcome; the coordinator derives the rest.

use serde::{Deserialize, Serialize};

use crate::artifact::{Artifact, Skipped};
use crate::id::StageId;

/// How an attempt ended, as the worker saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The process left by itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// A signal that the worker did not send ended the process.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// The deadline passed.
    Timeout,
    /// It wrote nothing for too long.
    IdleTimeout,
    /// The worker stopped it because it was told to.
    Cancelled,
    /// It used more memory than it may.
    Oom,
    /// It used more processor time than it may.
    CpuLimit,
    /// It filled more disk than it may.
    DiskLimit,
    /// It wrote more output than it may.
    OutputLimit,
    /// It spent more than it may.
    Budget,
    /// It never started: the worker could not prepare it.
    SetupFailed {
        /// What failed, for a person.
        detail: String,
    },
    /// It never started: the confinement that it must have could not be built.
    ConfinementUnavailable {
        /// What was missing, for a person.
        detail: String,
    },
    /// It never started: the operator's policy forbids it.
    PolicyDenied {
        /// The word that was refused.
        detail: String,
    },
    /// The agent failed in its own way.
    AgentError {
        /// The last of what it said.
        detail: String,
    },
    /// It ran, but its files could not be kept.
    PushFailed {
        /// What failed, for a person.
        detail: String,
    },
}

impl Outcome {
    /// The word that a client sees for this outcome.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Exited { code: 0 } => Reason::Ok,
            Self::Exited { .. } => Reason::ExitNonzero,
            Self::Signalled { .. } => Reason::Signalled,
            Self::Timeout => Reason::Timeout,
            Self::IdleTimeout => Reason::IdleTimeout,
            Self::Cancelled => Reason::Cancelled,
            Self::Oom => Reason::Oom,
            Self::CpuLimit => Reason::CpuLimit,
            Self::DiskLimit => Reason::DiskLimit,
            Self::OutputLimit => Reason::OutputLimit,
            Self::Budget => Reason::Budget,
            Self::SetupFailed { .. } => Reason::SetupFailed,
            Self::ConfinementUnavailable { .. } => Reason::ConfinementUnavailable,
            Self::PolicyDenied { .. } => Reason::PolicyDenied,
            Self::AgentError { .. } => Reason::AgentError,
            Self::PushFailed { .. } => Reason::PushFailed,
        }
    }

    /// Whether a process ran to this end, and what it changed is known.
    #[must_use]
    pub const fn has_run(&self) -> bool {
        match self {
            Self::Exited { .. }
            | Self::Signalled { .. }
            | Self::Timeout
            | Self::IdleTimeout
            | Self::Oom
            | Self::CpuLimit
            | Self::DiskLimit
            | Self::OutputLimit
            | Self::Budget
            | Self::AgentError { .. } => true,
            Self::Cancelled
            | Self::SetupFailed { .. }
            | Self::ConfinementUnavailable { .. }
            | Self::PolicyDenied { .. }
            | Self::PushFailed { .. } => false,
        }
    }

    /// The exit code, when the process left by itself.
    #[must_use]
    pub const fn exit_code(&self) -> Option<i32> {
        if let Self::Exited { code } = self { Some(*code) } else { None }
    }

    /// The signal, when one ended the process.
    #[must_use]
    pub const fn signal(&self) -> Option<i32> {
        if let Self::Signalled { signal } = self { Some(*signal) } else { None }
    }

    /// What the worker adds for a person.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::SetupFailed { detail }
            | Self::ConfinementUnavailable { detail }
            | Self::PolicyDenied { detail }
            | Self::AgentError { detail }
            | Self::PushFailed { detail } => Some(detail),
            Self::Exited { .. }
            | Self::Signalled { .. }
            | Self::Timeout
            | Self::IdleTimeout
            | Self::Cancelled
            | Self::Oom
            | Self::CpuLimit
            | Self::DiskLimit
            | Self::OutputLimit
            | Self::Budget => None,
        }
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// All of them, in the order in which they are declared.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The one that this word stands for.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// Why a task is done. The list is closed.
    Reason {
        /// It did what it should.
        Ok = "ok",
        /// Its deadline passed.
        Timeout = "timeout",
        /// It wrote nothing for too long.
        IdleTimeout = "idle_timeout",
        /// A client asked for it.
        Cancelled = "cancelled",
        /// Its exit code was not 0.
        ExitNonzero = "exit_nonzero",
        /// A signal ended it.
        Signalled = "signalled",
        /// It used too much memory.
        Oom = "oom",
        /// It used too much processor time.
        CpuLimit = "cpu_limit",
        /// It filled too much disk.
        DiskLimit = "disk_limit",
        /// It wrote too much output.
        OutputLimit = "output_limit",
        /// Its files are over the session's quota.
        Quota = "quota",
        /// It spent what it may spend.
        Budget = "budget",
        /// A client changed the same files meanwhile.
        Conflict = "conflict",
        /// Its files could not be kept.
        PushFailed = "push_failed",
        /// It could not be prepared.
        SetupFailed = "setup_failed",
        /// Its confinement could not be built.
        ConfinementUnavailable = "confinement_unavailable",
        /// The operator's policy forbids it.
        PolicyDenied = "policy_denied",
        /// The agent failed in its own way.
        AgentError = "agent_error",
        /// Its workers vanished.
        LeaseLost = "lease_lost",
    }
}

impl Reason {
    /// The state in which a task with this reason ends.
    #[must_use]
    pub const fn state(self) -> TaskState {
        match self {
            Self::Ok => TaskState::Completed,
            Self::Timeout | Self::IdleTimeout => TaskState::TimedOut,
            Self::Cancelled => TaskState::Cancelled,
            Self::ExitNonzero
            | Self::Signalled
            | Self::Oom
            | Self::CpuLimit
            | Self::DiskLimit
            | Self::OutputLimit
            | Self::Quota
            | Self::Budget
            | Self::Conflict
            | Self::PushFailed
            | Self::SetupFailed
            | Self::ConfinementUnavailable
            | Self::PolicyDenied
            | Self::AgentError
            | Self::LeaseLost => TaskState::Failed,
        }
    }
}

words! {
    /// What a client sees of a task's life.
    TaskState {
        /// It waits.
        Queued = "queued",
        /// A worker has it.
        Running = "running",
        /// It did what it should.
        Completed = "completed",
        /// It was too slow.
        TimedOut = "timed_out",
        /// A client did not want it any more.
        Cancelled = "cancelled",
        /// It did not do what it should.
        Failed = "failed",
    }
}

impl TaskState {
    /// Whether nothing can change it any more.
    #[must_use]
    pub const fn is_done(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// The worker's message that ends an attempt. Only the outcome is required.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// The number of the last event that the worker sent for this lease; the report waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event: Option<u64>,
    /// Bytes that the process wrote.
    #[serde(default)]
    pub written_bytes: StreamBytes,
    /// Bytes of these that the worker did not keep; a line in the output says where.
    #[serde(default, skip_serializing_if = "StreamBytes::is_none")]
    pub dropped_bytes: StreamBytes,
    /// What `handler(event)` returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_value: Option<serde_json::Value>,
    /// What the process used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The confinement that was in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confinement: Option<String>,
    /// Files that came of it; what was uploaded is published, whatever is said of it here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Files that are not among them, or not uploaded, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// The changes of the workspace that this report publishes: a stage that its lease uploaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageId>,
}

impl Report {
    /// A report that says only how it ended.
    #[must_use]
    pub const fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            last_event: None,
            written_bytes: StreamBytes { stdout: 0, stderr: 0 },
            dropped_bytes: StreamBytes { stdout: 0, stderr: 0 },
            return_value: None,
            usage: None,
            confinement: None,
            artifacts: Vec::new(),
            skipped: Vec::new(),
            stage: None,
        }
    }
}

/// A number of bytes for each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StreamBytes {
    /// Bytes of standard output.
    #[serde(default)]
    pub stdout: u64,
    /// Bytes of standard error.
    #[serde(default)]
    pub stderr: u64,
}

impl StreamBytes {
    /// Whether there are none.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.stdout == 0 && self.stderr == 0
    }
}

/// What the processes of an attempt used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// From the start of the program to the end of its last process.
    pub wall_ms: u64,
    /// Processor time, user and system.
    #[serde(default)]
    pub cpu_ms: Option<u64>,
    /// The most memory at one time.
    #[serde(default)]
    pub peak_memory_bytes: Option<u64>,
    /// Where the figures come from: `cgroup`, `rusage` or `sampled`.
    pub source: String,
}
