//! The routes of a workspace: answers that come piece by piece, and a body that goes so.

use std::time::Duration;

use protocol::workspace::{BlobsRequest, Staged};
use protocol::{LeaseId, PROTOCOL, PROTOCOL_HEADER};
use reqwest::Method;
use tokio::time::timeout;

use super::{
    Answer, CallError, Client, MAX_ANSWER_BYTES, SLOWEST_UPLOAD_BYTES_S, WRITE, cause, exchange, problem, understand,
};

/// How long the next piece of an answer may take: the store over there may be slow.
const PIECE: Duration = Duration::from_secs(30);
/// Bytes of a refusal that are read.
const MAX_PROBLEM_BYTES: usize = 64 << 10;

/// An answer of any length.
pub(crate) struct Download(reqwest::Response);

impl Download {
    /// The next piece; none at its end.
    pub(crate) async fn next(&mut self) -> Answer<Option<Vec<u8>>> {
        match timeout(PIECE, self.0.chunk()).await {
            Ok(Ok(piece)) => Ok(piece.map(Vec::from)),
            Ok(Err(error)) => Err(CallError::Unreachable(cause(&error))),
            Err(_) => Err(CallError::Unreachable(format!("nothing came for {} s", PIECE.as_secs()))),
        }
    }
}

impl Client {
    /// What the workspace of a lease holds, or what differs from a version that the worker has.
    pub(crate) async fn manifest(&self, lease: LeaseId, since: Option<u64>) -> Answer<Download> {
        let since = since.map(|version| format!("?since={version}")).unwrap_or_default();
        let request = self.request(Method::GET, &format!("/v1/leases/{lease}/workspace{since}"));
        self.download(request).await
    }

    /// Contents that its manifest names.
    pub(crate) async fn blobs(&self, lease: LeaseId, wanted: &BlobsRequest) -> Answer<Download> {
        let body = serde_json::to_vec(wanted).map_err(|error| CallError::NotUnderstood(error.to_string()))?;
        let request = self.request(Method::POST, &format!("/v1/leases/{lease}/workspace/blobs"));
        self.download(request.header(reqwest::header::CONTENT_TYPE, "application/json").body(body)).await
    }

    /// Brings what a task changed: so many bytes before they are compressed.
    pub(crate) async fn stage(&self, lease: LeaseId, base: u64, size: u64, body: reqwest::Body) -> Answer<Staged> {
        let request = self
            .request(Method::PUT, &format!("/v1/leases/{lease}/workspace/stage?base={base}"))
            .timeout(2 * WRITE + Duration::from_secs(size / SLOWEST_UPLOAD_BYTES_S))
            .header(reqwest::header::CONTENT_TYPE, "application/gzip")
            .body(body);
        let answer = exchange(request).await.and_then(|(status, body)| understand(status, &body));
        self.link.called(answer.as_ref().err());
        answer?.ok_or_else(|| CallError::NotUnderstood("a stage was answered with nothing".into()))
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.address.base))
            .header(reqwest::header::AUTHORIZATION, self.bearer.clone())
            .header(PROTOCOL_HEADER, PROTOCOL)
    }

    async fn download(&self, request: reqwest::RequestBuilder) -> Answer<Download> {
        let answer = begin(request).await;
        self.link.called(answer.as_ref().err());
        answer
    }
}

async fn begin(request: reqwest::RequestBuilder) -> Answer<Download> {
    let late = |_| CallError::Unreachable("no answer in time".into());
    let response = timeout(PIECE, request.send()).await.map_err(late)?;
    let response = response.map_err(|error| CallError::Unreachable(cause(&error)))?;
    let status = response.status();
    let mut download = Download(response);
    if status.is_success() {
        return Ok(download);
    }
    let mut body = Vec::new();
    while let Some(piece) = download.next().await? {
        body.extend(piece);
        if body.len() > MAX_PROBLEM_BYTES.min(MAX_ANSWER_BYTES) {
            break;
        }
    }
    Err(CallError::Refused(Box::new(problem(status.as_u16(), &body))))
}
