//! What a refused request is answered with: RFC 9457, with a code that programs can rely on.

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::validate::Invalid;

/// An error as it stands in an `application/problem+json` body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A name for the kind of problem, as a URI.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem, in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong this time, and what to do next when a person can do something.
    pub detail: String,
    /// The stable code.
    pub code: Code,
    /// What to look for in the coordinator's log.
    #[serde(default)]
    pub request_id: String,
    /// The fields that were wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Invalid>,
    /// The event number that was expected, after a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// Bytes that a session has, or would have, when that is over its quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Bytes that it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_bytes: Option<u64>,
    /// The task that works in a busy session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<TaskId>,
}

impl Problem {
    /// The media type of a problem.
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    /// A problem of this code.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:code-workers:problem:{}", code.as_str()),
            title: code.as_str().replace('_', " "),
            status: code.status(),
            detail: detail.into(),
            code,
            request_id: String::new(),
            errors: Vec::new(),
            expected: None,
            used_bytes: None,
            allowed_bytes: None,
            holder: None,
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $status:literal;)+) => {
        /// The closed list of codes, each with its status.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Code {
            $($(#[$doc])* $variant,)+
            /// A code of a newer coordinator.
            #[serde(other)]
            Unknown,
        }

        impl Code {
            /// All that this build knows.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ Self::Unknown => "unknown" }
            }

            /// The HTTP status that goes with it.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ Self::Unknown => 500 }
            }
        }
    };
}

codes! {
    /// The body is not JSON.
    InvalidJson = "invalid_json", 400;
    /// An id in the path is not one.
    InvalidId = "invalid_id", 400;
    /// A query parameter is unknown or wrong.
    InvalidQuery = "invalid_query", 400;
    /// A header is wrong.
    InvalidHeader = "invalid_header", 400;
    /// No key came with the request.
    KeyMissing = "key_missing", 401;
    /// The key is not known.
    KeyUnknown = "key_unknown", 401;
    /// The key's time is over.
    KeyExpired = "key_expired", 401;
    /// The key was taken back.
    KeyRevoked = "key_revoked", 401;
    /// The key's role does not allow this.
    WrongRole = "wrong_role", 403;
    /// The key is for other repos.
    WrongRepo = "wrong_repo", 403;
    /// The path could lead out of the workspace, or break whoever handles it.
    UnsafePath = "unsafe_path", 403;
    /// The path has the name of a file with credentials.
    SensitivePath = "sensitive_path", 403;
    /// The path belongs to the operator's overlays.
    ReadOnly = "read_only", 403;
    /// The `Host` is not one of ours.
    HostNotAllowed = "host_not_allowed", 403;
    /// The `Origin` is not one of ours.
    OriginNotAllowed = "origin_not_allowed", 403;
    /// There is no such thing, or no such route.
    NotFound = "not_found", 404;
    /// The file is listed, but its bytes were not kept.
    NotStored = "not_stored", 404;
    /// The route exists, but not for this method.
    MethodNotAllowed = "method_not_allowed", 405;
    /// The body did not arrive in time.
    BodyTimeout = "body_timeout", 408;
    /// The lease is not the task's current one, or another key's.
    LeaseLost = "lease_lost", 409;
    /// The task is done.
    AlreadyDone = "already_done", 409;
    /// Events are missing before these.
    EventGap = "event_gap", 409;
    /// What would be changed is in use.
    Conflict = "conflict", 409;
    /// Another task works in the session.
    SessionBusy = "session_busy", 409;
    /// A file or a link stands where a directory must be.
    NotADirectory = "not_a_directory", 409;
    /// A directory stands where a file must be.
    IsADirectory = "is_a_directory", 409;
    /// A symlink stands where a file must be; none is followed.
    IsASymlink = "is_a_symlink", 409;
    /// The file is another than the caller thinks.
    PreconditionFailed = "precondition_failed", 412;
    /// The session would have more than it may.
    QuotaExceeded = "quota_exceeded", 413;
    /// The body is too large.
    TooLarge = "too_large", 413;
    /// The body is not declared as JSON.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// The file does not have the bytes that were asked for.
    InvalidRange = "invalid_range", 416;
    /// The file is not text.
    NotText = "not_text", 422;
    /// What was to be replaced is not in the file.
    NoMatch = "no_match", 422;
    /// What was to be replaced is in the file more than once.
    AmbiguousMatch = "ambiguous_match", 422;
    /// A field is missing, unknown or wrong.
    InvalidField = "invalid_field", 422;
    /// The idempotency key was used with another body.
    IdempotencyMismatch = "idempotency_mismatch", 422;
    /// The other side speaks a generation of messages that is not understood here.
    ProtocolUnsupported = "protocol_unsupported", 426;
    /// Something broke here.
    Internal = "internal", 500;
    /// The coordinator is stopping or too busy.
    Unavailable = "unavailable", 503;
    /// The coordinator's disk is full.
    DiskFull = "disk_full", 507;
}
