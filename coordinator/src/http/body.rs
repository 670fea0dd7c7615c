//! Reads what a caller sent: capped, in time, as JSON, and with the name of the field that is wrong.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, RawQuery, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use protocol::{Code, Invalid};
use serde::de::DeserializeOwned;

use super::App;
use super::error::Refusal;

/// A submission carries code and files.
pub const MAX_SUBMISSION_BYTES: usize = 8 << 20;
/// A report lists files.
pub const MAX_REPORT_BYTES: usize = 1 << 20;
/// Nothing else is large.
pub const MAX_BODY_BYTES: usize = 64 << 10;

/// What is around a value in a message takes a few levels, too.
const MAX_DEPTH: usize = protocol::limits::MAX_VALUE_DEPTH + 10;

/// A body of at most `CAP` bytes.
pub struct Capped<const CAP: usize>(pub Bytes);

/// A message of at most 64 KiB.
pub struct Message<T>(pub T);

impl<const CAP: usize> FromRequest<Arc<App>> for Capped<CAP> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Refusal> {
        check_type(request.headers())?;
        if is_too_long(request.headers(), CAP as u64) {
            discard(request.into_body());
            return Err(too_large(CAP));
        }
        read(request.into_body(), CAP, app.body_timeout).await.map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Message<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Refusal> {
        let Capped(bytes) = Capped::<MAX_BODY_BYTES>::from_request(request, app).await?;
        decode(if bytes.is_empty() { b"{}" } else { &bytes }).map(Self)
    }
}

/// How deep the brackets of a JSON text are nested.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Decodes JSON; what is not JSON at all has a code of its own.
///
/// # Errors
/// Which field is wrong.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    if depth(bytes) > MAX_DEPTH {
        return Err(Refusal::new(Code::InvalidJson, format!("the body is nested over {MAX_DEPTH} levels deep")));
    }
    protocol::decode(bytes).map_err(|invalid| match serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
        Ok(_) => invalid.into(),
        Err(error) => Refusal::new(Code::InvalidJson, format!("the body is not JSON: {error}")),
    })
}

fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.to_str().unwrap_or_default().to_ascii_lowercase();
    // A browser's form can be sent across origins without asking; JSON cannot.
    if kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json") {
        return Ok(());
    }
    Err(Refusal::new(Code::UnsupportedMediaType, "send the body as `Content-Type: application/json`"))
}

pub(super) fn too_large(cap: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::TooLarge, format!("the body has over {cap} bytes"))
}

/// A body that says that it is too large is refused unread.
pub(super) fn is_too_long(headers: &HeaderMap, cap: u64) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    length.is_some_and(|length| length > cap)
}

/// A body that trickles in keeps nobody waiting longer than `timeout`.
async fn read(mut body: Body, cap: usize, timeout: Duration) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(timeout, Limited::new(&mut body, cap).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            discard(body);
            Err(too_large(cap))
        }
        Ok(Err(_)) => Err(Refusal::new(Code::InvalidJson, "the body broke off")),
        Err(_) => Err(Refusal::new(Code::BodyTimeout, "the body did not arrive in time")),
    }
}

/// Lets a refused body flow into nothing for a moment, after the answer: a client that still sends into a closed connection
/// would see only that it broke.
pub(super) fn discard(body: Body) {
    const MOST_BYTES: usize = 64 << 20;
    const MOMENT: Duration = Duration::from_secs(2);
    tokio::spawn(tokio::time::timeout(MOMENT, async move {
        let mut rest = Limited::new(body, MOST_BYTES);
        while let Some(Ok(_)) = rest.frame().await {}
    }));
}

/// An id or a name in the path.
pub struct InPath<T>(pub T);

impl<T: FromStr<Err: std::fmt::Display> + Send, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let bad = |detail: String| Refusal::new(Code::InvalidId, detail);
        let Path(text) =
            Path::<String>::from_request_parts(parts, state).await.map_err(|error| bad(error.body_text()))?;
        text.parse().map(Self).map_err(|error: T::Err| bad(error.to_string()))
    }
}

/// The query, of which every parameter must be asked for: an unknown one is a mistake that would otherwise pass unseen.
pub struct Query(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = match RawQuery::from_request_parts(parts, state).await {
            Ok(RawQuery(query)) => query.unwrap_or_default(),
        };
        let bad = || Refusal::new(Code::InvalidQuery, "the query is not of the form name=value&…");
        let pairs: Vec<(String, String)> =
            axum::extract::Query::try_from_uri(&format!("/?{query}").parse().map_err(|_| bad())?).map_err(|_| bad())?.0;
        let mut parameters = BTreeMap::new();
        for (name, value) in pairs {
            if parameters.insert(name.clone(), value).is_some() {
                return Err(Refusal::new(Code::InvalidQuery, format!("`{name}` is given twice")));
            }
        }
        Ok(Self(parameters))
    }
}

impl Query {
    /// Takes a parameter out.
    ///
    /// # Errors
    /// When it is given and not valid.
    pub fn take<T: FromStr<Err: std::fmt::Display>>(&mut self, name: &str) -> Result<Option<T>, Refusal> {
        let Some(text) = self.0.remove(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|error| Refusal::new(Code::InvalidQuery, format!("`{name}`: {error}")))
    }

    /// Takes a parameter out as it is: an empty one is one that was given.
    pub fn take_text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes a number out, if it is in its range.
    ///
    /// # Errors
    /// When it is not a number, or out of range.
    pub fn take_number(
        &mut self,
        name: &str,
        range: std::ops::RangeInclusive<u32>,
        default: u32,
    ) -> Result<u32, Refusal> {
        let value = self.take(name)?.unwrap_or(default);
        if range.contains(&value) {
            return Ok(value);
        }
        let (low, high) = range.into_inner();
        Err(Refusal::new(Code::InvalidQuery, format!("`{name}` is not between {low} and {high}")))
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// The name of what is.
    pub fn finish(self) -> Result<(), Refusal> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(Refusal::new(Code::InvalidQuery, format!("`{name}` is not a parameter of this route"))),
        }
    }
}

/// Checks a message by its own rules.
///
/// # Errors
/// Which field is wrong.
pub fn valid<T>(message: T, check: impl FnOnce(&T) -> Result<(), Invalid>) -> Result<T, Refusal> {
    check(&message)?;
    Ok(message)
}
