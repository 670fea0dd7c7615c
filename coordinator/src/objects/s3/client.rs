//! The HTTP client under the S3 protocol: one pool of connections, TLS where the endpoint asks for it, and a bound on every
//! wait. It follows no redirect, asks no proxy and reads no environment.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header;
use hyper::http::response::Parts;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService,
};
use tokio::time::{Sleep, sleep, timeout};

use super::Patience;

/// What may be sent in a millisecond on a slow line: so much longer may a request with a body take.
const BYTES_PER_MS: u64 = 256;

/// Idle connections are closed before the usual servers do it, whose closing could cross a request.
const IDLE: Duration = Duration::from_secs(15);

/// What went wrong below the S3 protocol.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("it cannot be reached: {0}")]
    Connect(String),
    #[error("it did not answer within {} s", .0.as_secs_f32())]
    Silent(Duration),
    #[error("it stopped in the middle of an answer for {} s", .0.as_secs_f32())]
    Stalled(Duration),
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl From<Trouble> for HttpError {
    fn from(trouble: Trouble) -> Self {
        let kind = match trouble {
            Trouble::Connect(_) => HttpErrorKind::Connect,
            // Everything that is asked of the store may be asked twice, so all of it is tried again.
            Trouble::Silent(_) | Trouble::Stalled(_) | Trouble::Broken(_) => HttpErrorKind::Request,
        };
        Self::new(kind, trouble)
    }
}

/// Makes clients of this kind.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) patience: Patience,
    pub(super) is_encrypted: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let generic = |source| object_store::Error::Generic { store: "S3", source };
        let mut tcp = Tcp::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(self.patience.connect));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(super::tls::config(self.is_encrypted).map_err(generic)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build::<_, HttpRequestBody>(connector);
        Ok(HttpClient::new(Http { client, patience: self.patience }))
    }
}

struct Http {
    client: Client<HttpsConnector<Tcp>, HttpRequestBody>,
    patience: Patience,
}

impl fmt::Debug for Http {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Http")
    }
}

impl HttpService for Http {
    // Spelled out as the trait's macro would, which is all that it would be here for.
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let sending = Duration::from_millis(request.body().content_length() as u64 / BYTES_PER_MS);
            let patience = self.patience.answer + sending;
            let is_part = request.headers().contains_key(header::RANGE);
            let answer =
                timeout(patience, self.client.request(request)).await.map_err(|_| Trouble::Silent(patience))?;
            let (parts, body) = answer.map_err(|error| trouble(&error))?.into_parts();
            let parts = as_part(parts, is_part);
            let body = Patient { body, patience: self.patience.piece, waiting: None };
            Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
        })
    }
}

/// Some servers answer a request for a part rightly, and call it a whole (200) all the same: the library takes only 206.
fn as_part(mut parts: Parts, is_part: bool) -> Parts {
    if is_part && parts.status == StatusCode::OK && parts.headers.contains_key(header::CONTENT_RANGE) {
        parts.status = StatusCode::PARTIAL_CONTENT;
    }
    parts
}

fn trouble(error: &hyper_util::client::legacy::Error) -> Trouble {
    let why = innermost(error);
    if error.is_connect() { Trouble::Connect(why) } else { Trouble::Broken(why) }
}

/// The cause of causes: what wraps it says only that something failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// An answer that must go on: the wait for each of its pieces is bounded.
struct Patient {
    body: Incoming,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Body for Patient {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.waiting = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| Trouble::Broken(innermost(&error)).into())));
        }
        // The time runs only while we wait for the store, never while it waits for us.
        let waiting = this.waiting.get_or_insert_with(|| Box::pin(sleep(this.patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Some(Err(Trouble::Stalled(this.patience).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
