//! The coordinator's worker routes, one function each. Every call ends within its time, whatever the network does.
//!
//! It never retries: who calls knows what a failure means.

use std::time::Duration;

use protocol::artifact::Uploaded;
use protocol::event::EventsAccepted;
use protocol::lease::LeaseEnded;
use protocol::path::RelativePath;
use protocol::{
    Code, EventBatch, LeaseGrant, LeaseId, LeaseRequest, PROTOCOL, PROTOCOL_HEADER, Problem, Release, Renew, Renewed,
    Report,
};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::{Address, Key};
use crate::link::Link;

mod streams;

const CONNECT: Duration = Duration::from_secs(5);
/// What a call may take beyond the time that the coordinator is asked to hold it.
const CALL: Duration = Duration::from_secs(5);
/// A report or a batch is written to disk over there before it is answered.
const WRITE: Duration = Duration::from_secs(15);
/// A way that carries less in a second is as good as none.
const SLOWEST_UPLOAD_BYTES_S: u64 = 1 << 20;
/// A lease with the largest spec, and room for a newer coordinator's additions.
const MAX_ANSWER_BYTES: usize = 32 << 20;

/// Why a call brought nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// No answer came.
    #[error("{0}")]
    Unreachable(String),
    /// The coordinator said no.
    #[error("{} {}", .0.status, .0.detail)]
    Refused(Box<Problem>),
    /// An answer came that is none.
    #[error("the coordinator's answer is not understood: {0}")]
    NotUnderstood(String),
}

impl CallError {
    /// The code, when the coordinator said no.
    pub(crate) fn code(&self) -> Option<Code> {
        if let Self::Refused(problem) = self { Some(problem.code) } else { None }
    }

    /// The status, when the coordinator said no.
    pub(crate) fn status(&self) -> Option<u16> {
        if let Self::Refused(problem) = self { Some(problem.status) } else { None }
    }

    /// Whether it is too much: of events, no more are taken.
    pub(crate) fn is_too_large(&self) -> bool {
        self.status() == Some(413)
    }

    /// Whether the lease is not ours any more.
    pub(crate) fn is_lease_lost(&self) -> bool {
        self.code() == Some(Code::LeaseLost)
    }
}

type Answer<T> = Result<T, CallError>;

/// A connection pool to one coordinator, with the worker's key.
pub(crate) struct Client {
    http: reqwest::Client,
    address: Address,
    bearer: reqwest::header::HeaderValue,
    /// What is known about the coordinator from the calls so far.
    pub(crate) link: Link,
}

impl Client {
    pub(crate) fn new(address: Address, key: &Key) -> anyhow::Result<Self> {
        let mut bearer = reqwest::header::HeaderValue::try_from(key.bearer())?;
        bearer.set_sensitive(true);
        let mut builder = reqwest::Client::builder()
            // The key goes to the coordinator and to nobody between.
            .no_proxy()
            .connect_timeout(CONNECT)
            // Shorter than the coordinator keeps an idle connection, so that none is used that it just closed.
            .pool_idle_timeout(Duration::from_secs(20))
            .redirect(reqwest::redirect::Policy::none());
        if let Some(socket) = &address.socket {
            builder = builder.unix_socket(socket.as_path());
        }
        Ok(Self { http: builder.build()?, bearer, link: Link::new(&address.shown), address })
    }

    /// Asks for work, or tells the worker's state; none when there is no work.
    pub(crate) async fn lease(&self, request: &LeaseRequest) -> Answer<Option<LeaseGrant>> {
        let time = Duration::from_secs(request.wait_s.into()) + CALL;
        let answer = self.call(Method::POST, "/v1/leases", request, time).await;
        self.link.asked(answer.as_ref().err());
        answer
    }

    /// Extends a lease; `time` is the longest that the answer is of use.
    pub(crate) async fn renew(&self, lease: LeaseId, renew: Renew, time: Duration) -> Answer<Renewed> {
        let time = time.min(Duration::from_secs(renew.wait_s.into()) + CALL);
        self.answered(Method::POST, &format!("/v1/leases/{lease}/renew"), &renew, time).await
    }

    /// Sends events.
    pub(crate) async fn events(&self, lease: LeaseId, batch: &EventBatch) -> Answer<EventsAccepted> {
        self.answered(Method::POST, &format!("/v1/leases/{lease}/events"), batch, WRITE).await
    }

    /// Brings a file of so many bytes.
    pub(crate) async fn upload(
        &self,
        lease: LeaseId,
        path: &RelativePath,
        size: u64,
        body: reqwest::Body,
    ) -> Answer<Uploaded> {
        let not_a_url = |error: &dyn std::fmt::Display| CallError::NotUnderstood(error.to_string());
        let mut url = reqwest::Url::parse(&format!("{}/v1/leases/{lease}/uploads", self.address.base))
            .map_err(|error| not_a_url(&error))?;
        url.query_pairs_mut().append_pair("path", path.as_str());
        let request = self
            .http
            .post(url)
            .timeout(WRITE + Duration::from_secs(size / SLOWEST_UPLOAD_BYTES_S))
            .header(reqwest::header::AUTHORIZATION, self.bearer.clone())
            .header(reqwest::header::CONTENT_TYPE, "application/octet-stream")
            .header(reqwest::header::CONTENT_LENGTH, size)
            .header(PROTOCOL_HEADER, PROTOCOL)
            .body(body);
        let answer = exchange(request).await.and_then(|(status, body)| understand(status, &body));
        self.link.called(answer.as_ref().err());
        answer?.ok_or_else(|| CallError::NotUnderstood("an upload was answered with nothing".into()))
    }

    /// Ends an attempt.
    pub(crate) async fn report(&self, lease: LeaseId, report: &Report) -> Answer<LeaseEnded> {
        self.answered(Method::PUT, &format!("/v1/leases/{lease}/report"), report, WRITE).await
    }

    /// Gives a task back.
    pub(crate) async fn release(&self, lease: LeaseId, reason: String) -> Answer<LeaseEnded> {
        let release = Release { reason: Some(reason) };
        self.answered(Method::POST, &format!("/v1/leases/{lease}/release"), &release, CALL).await
    }

    async fn answered<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        message: &impl Serialize,
        time: Duration,
    ) -> Answer<T> {
        let answer = self.call(method, path, message, time).await;
        self.link.called(answer.as_ref().err());
        answer?.ok_or_else(|| CallError::NotUnderstood(format!("{path} was answered with nothing")))
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        message: &impl Serialize,
        time: Duration,
    ) -> Answer<Option<T>> {
        let body = serde_json::to_vec(message).map_err(|error| CallError::NotUnderstood(error.to_string()))?;
        let request = self
            .http
            .request(method, format!("{}{path}", self.address.base))
            .timeout(time)
            .header(reqwest::header::AUTHORIZATION, self.bearer.clone())
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .header(PROTOCOL_HEADER, PROTOCOL)
            .body(body);
        exchange(request).await.and_then(|(status, body)| understand(status, &body))
    }
}

async fn exchange(request: reqwest::RequestBuilder) -> Answer<(u16, Vec<u8>)> {
    let unreachable = |error: reqwest::Error| CallError::Unreachable(cause(&error));
    let mut response = request.send().await.map_err(unreachable)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(CallError::NotUnderstood(format!("it is over {MAX_ANSWER_BYTES} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((response.status().as_u16(), body))
}

fn understand<T: DeserializeOwned>(status: u16, body: &[u8]) -> Answer<Option<T>> {
    match status {
        204 => Ok(None),
        200..=299 => {
            serde_json::from_slice(body).map(Some).map_err(|error| CallError::NotUnderstood(error.to_string()))
        }
        _ => Err(CallError::Refused(Box::new(problem(status, body)))),
    }
}

/// The problem in an answer; a relay or another program may answer in its own words.
fn problem(status: u16, body: &[u8]) -> Problem {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => Problem { status, ..problem },
        Err(_) => {
            let text: String = String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(200).collect();
            Problem { status, ..Problem::new(Code::Unknown, format!("an answer that is no problem: {text}")) }
        }
    }
}

/// The innermost reason: reqwest's own words say only that something failed.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
