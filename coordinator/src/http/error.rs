//! The one conversion from what went wrong to what a caller reads.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::path::PathRefusal;
use protocol::{Code, Invalid, Problem};

use crate::lifecycle::Rejected;
use crate::store::{StoreError, WorkspaceError};
use crate::workspace::{IntakeError, ReadError, SearchError};

/// A request that was refused. Nothing changed.
#[derive(Debug)]
pub struct Refusal(Box<Problem>);

impl Refusal {
    /// Refused for this reason.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(code, detail)))
    }

    /// The same, with the task that it is about.
    #[must_use]
    pub fn of(mut self, task: protocol::TaskId) -> Self {
        self.0.holder = Some(task);
        self
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        let mut problem = Problem::new(Code::InvalidField, invalid.to_string());
        problem.errors = vec![invalid];
        Self(Box::new(problem))
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        match error {
            StoreError::NotFound => Self::new(Code::NotFound, detail),
            StoreError::Rejected(Rejected::LeaseLost) => Self::new(Code::LeaseLost, detail),
            StoreError::Rejected(Rejected::AlreadyDone(_)) => Self::new(Code::AlreadyDone, detail),
            StoreError::Rejected(Rejected::NotQueued) | StoreError::NotItsKey(_) => Self::new(Code::Conflict, detail),
            StoreError::EventGap { expected } => {
                let mut refusal = Self::new(Code::EventGap, detail);
                refusal.0.expected = Some(expected);
                refusal
            }
            StoreError::BadEvent(_) => Self::new(Code::InvalidField, detail),
            StoreError::TooManyEvents | StoreError::TooManyUploads => Self::new(Code::TooLarge, detail),
            StoreError::Workspace(error) => workspace(&error),
            StoreError::IdempotencyMismatch => Self::new(Code::IdempotencyMismatch, detail),
            StoreError::DiskFull => disk_full(),
            StoreError::Objects(error) if error.kind() == std::io::ErrorKind::StorageFull => disk_full(),
            StoreError::Objects(_) => {
                tracing::error!(error = detail, "the object store failed");
                Self::new(
                    Code::Internal,
                    "the coordinator's object store failed; its log says more under this request_id",
                )
            }
            StoreError::Closed => Self::new(Code::Unavailable, "the coordinator is stopping; try again in a moment"),
            StoreError::Database(_) | StoreError::Corrupt(_) => {
                tracing::error!(error = detail, "the database failed");
                Self::new(Code::Internal, "the coordinator's database failed; its log says more under this request_id")
            }
        }
    }
}

fn workspace(error: &WorkspaceError) -> Refusal {
    let mut refusal = Refusal::new(workspace_code(error), error.to_string());
    if let WorkspaceError::Quota { used, allowed } = error {
        refusal.0.used_bytes = Some(*used);
        refusal.0.allowed_bytes = Some(*allowed);
    }
    if let WorkspaceError::Busy { holder } = error {
        refusal.0.holder = Some(*holder);
    }
    refusal
}

const fn workspace_code(error: &WorkspaceError) -> Code {
    match error {
        WorkspaceError::NoSession | WorkspaceError::NoEntry(_) | WorkspaceError::NoSnapshot(_) => Code::NotFound,
        WorkspaceError::SessionExists | WorkspaceError::Exists(_) | WorkspaceError::NoStage(_) => Code::Conflict,
        WorkspaceError::AnotherRepo(_) => Code::WrongRepo,
        WorkspaceError::Busy { .. } => Code::SessionBusy,
        WorkspaceError::Quota { .. } | WorkspaceError::TooManyEntries => Code::QuotaExceeded,
        WorkspaceError::Precondition => Code::PreconditionFailed,
        WorkspaceError::IntoItself | WorkspaceError::BadStage(_) => Code::InvalidField,
        WorkspaceError::NotADirectory(_) => Code::NotADirectory,
        WorkspaceError::IsADirectory(_) => Code::IsADirectory,
        WorkspaceError::IsASymlink { .. } => Code::IsASymlink,
        WorkspaceError::Path(refusal) => refusal.code(),
    }
}

impl From<PathRefusal> for Refusal {
    fn from(refusal: PathRefusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        let detail = error.to_string();
        match error {
            ReadError::Store(error) => error.into(),
            ReadError::TooLarge(_) => Self::new(Code::TooLarge, detail),
            ReadError::NotText => Self::new(Code::NotText, detail),
            ReadError::NoMatch(_) => Self::new(Code::NoMatch, detail),
            ReadError::AmbiguousMatch { .. } => Self::new(Code::AmbiguousMatch, detail),
        }
    }
}

impl From<SearchError> for Refusal {
    fn from(error: SearchError) -> Self {
        let detail = error.to_string();
        match error {
            SearchError::Store(error) => error.into(),
            SearchError::Glob(_) | SearchError::Expression(_) => Self::new(Code::InvalidQuery, detail),
        }
    }
}

impl From<IntakeError> for Refusal {
    fn from(error: IntakeError) -> Self {
        let detail = error.to_string();
        match error {
            IntakeError::Store(error) => error.into(),
            IntakeError::Path { refusal, .. } => Self::new(refusal.code(), detail),
            IntakeError::Broken(_) => Self::new(Code::InvalidField, detail),
            IntakeError::TooLarge(_) => Self::new(Code::QuotaExceeded, detail),
        }
    }
}

fn disk_full() -> Refusal {
    Refusal::new(Code::DiskFull, "the coordinator's disk is full: nothing was changed; free some space and try again")
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // The body is written at the door, where the request's id is known.
        response.extensions_mut().insert(self.0);
        response
    }
}

/// Writes the problem, if there is one, with the id under which the log has it.
pub(super) fn with_request_id(mut response: Response, request_id: &str) -> Response {
    let Some(mut problem) = response.extensions_mut().remove::<Box<Problem>>() else { return response };
    request_id.clone_into(&mut problem.request_id);
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    *response.body_mut() = Body::from(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(Problem::MEDIA_TYPE));
    if problem.status == 401 {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if problem.status == 503 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The caller's id for the request if it is harmless in a log, else a new one.
pub(super) fn request_id(headers: &HeaderMap) -> String {
    let plain = |text: &&str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let said = headers.get("x-request-id").and_then(|value| value.to_str().ok()).filter(plain);
    said.map_or_else(new_request_id, str::to_owned)
}

fn new_request_id() -> String {
    let mut bytes = [0u8; 8];
    // cannot fail: the kernel's source is ready; an id of zeros would still be an id.
    let _ = getrandom::fill(&mut bytes);
    format!("req_{:016x}", u64::from_be_bytes(bytes))
}
