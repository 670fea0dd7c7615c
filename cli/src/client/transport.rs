//! How a request reaches the coordinator: address, key, retries, and what became of it in words. Never prints.

use std::fs::File;
use std::io::{self, Seek as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use protocol::{PROTOCOL, PROTOCOL_HEADER, Problem};
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::config::Settings;
use crate::exit::Exit;
use crate::failure::{Failure, Result, plain};
use crate::key_file;
use crate::recipe;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A stream says something at least every 15 s: silence of this length is a dead connection.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
const BYTES: &str = "application/octet-stream";
/// The waits before a request is sent again.
const RETRY_AFTER: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(300), Duration::from_millis(900)];

/// Where the coordinator listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Http(Url),
    Unix(PathBuf),
}

impl Address {
    /// Reads an address as it is typed; `HOST:PORT` alone is plain HTTP.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let has_port =
            text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if has_port && !text.contains('/') && !text.starts_with("unix:") {
            return Self::parse(&format!("http://{text}"));
        }
        let bad = |what: &str| {
            Failure::usage(format!("coordinator `{text}`: {what}"))
                .next("give http://HOST:PORT or unix:/PATH by --coordinator, CW_COORDINATOR or the config file")
        };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = Path::new(path.strip_prefix("//").unwrap_or(path));
            return if path.is_absolute() {
                Ok(Self::Unix(path.to_owned()))
            } else {
                Err(bad("the path is not absolute"))
            };
        }
        let authority = text.split_once("://").map_or(text, |(_, rest)| rest.split('/').next().unwrap_or_default());
        if authority.contains('@') {
            // Not repeated: what stands there is meant to be secret.
            return Err(Failure::usage("coordinator: an address holds no user and no password")
                .next("put the key into a file and name it by --key-file"));
        }
        match text.split_once("://") {
            Some(("http", _)) => Url::parse(text).map(Self::Http).map_err(|error| bad(&error.to_string())),
            Some(("https", _)) => Err(bad("the coordinator speaks plain http")),
            _ => Err(bad("not an address")),
        }
    }

    fn base(&self) -> String {
        match self {
            Self::Http(url) => url.as_str().trim_end_matches('/').to_owned(),
            Self::Unix(_) => "http://localhost".to_owned(),
        }
    }
}

/// Whether a request may be sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A repeat changes nothing.
    Harmless,
    /// Only when the first cannot have arrived.
    OnlyUnsent,
    /// The first answer counts.
    Never,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(&'static str, String)>,
    body: Option<Content>,
    repeat: Repeat,
    /// How long it may take, when that is longer than an answer usually does.
    within: Option<Duration>,
}

/// What a request carries.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    Json(Vec<u8>),
    Bytes(Vec<u8>),
    /// A file of that many bytes, read while it is sent.
    File(Arc<File>, u64),
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Json(bytes) | Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(_, size) => *size,
        }
    }

    fn attach(&self, request: RequestBuilder) -> io::Result<RequestBuilder> {
        Ok(match self {
            Self::Json(bytes) => request.header(CONTENT_TYPE, "application/json").body(bytes.clone()),
            Self::Bytes(bytes) => request.header(CONTENT_TYPE, BYTES).body(bytes.clone()),
            Self::File(file, size) => {
                let mut file = file.try_clone()?;
                // An earlier try may have read some of it.
                file.rewind()?;
                let body = tokio::fs::File::from_std(file);
                request.header(CONTENT_TYPE, BYTES).header(CONTENT_LENGTH, *size).body(body)
            }
        })
    }
}

impl Call {
    /// A request whose repeat is harmless.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        let path = path.into();
        Self {
            method,
            path,
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            repeat: Repeat::Harmless,
            within: None,
        }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn query(mut self, name: &str, value: impl ToString) -> Self {
        self.query.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(body).map_err(|error| Failure::usage(format!("not JSON: {error}")))?;
        self.body = Some(Content::Json(body));
        Ok(self)
    }

    pub(crate) fn content(mut self, content: Content) -> Self {
        self.body = Some(content);
        self
    }

    /// Lets it take that long, with no word from the other side meanwhile.
    pub(crate) const fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// Whether this asks for no single thing, such as `/v1/tasks`.
    fn is_list(&self) -> bool {
        self.path.matches('/').count() == 2
    }

    pub(crate) const fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }
}

/// An answer: what it means, and how it was written, so that `--json` drops nothing that this build does not know.
#[derive(Debug, Clone)]
pub(crate) struct Received<T> {
    raw: Box<RawValue>,
    value: T,
}

impl<T> Deref for Received<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Serialize for Received<T> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        self.raw.serialize(to)
    }
}

/// The way to the coordinator.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// For what may be silent for long: an upload, a command that runs.
    patient: reqwest::Client,
    /// As it was given, for messages.
    shown: String,
    base: String,
    key: Option<HeaderValue>,
    key_file: PathBuf,
    reconnect_for: Duration,
}

impl Client {
    /// Reads the key and prepares the way; sends nothing yet.
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let address = Address::parse(&settings.coordinator)?;
        let key = key_file::read(&settings.key_file, settings.key_file_is_named)?;
        Ok(Self {
            http: built(reqwest::Client::builder().read_timeout(SILENCE_TIMEOUT), &address)?,
            patient: built(reqwest::Client::builder(), &address)?,
            shown: settings.coordinator.clone(),
            base: address.base(),
            key,
            key_file: settings.key_file.clone(),
            reconnect_for: Duration::from_millis(settings.reconnect_for_ms),
        })
    }

    /// Where the key is.
    pub(crate) fn key_file(&self) -> &Path {
        &self.key_file
    }

    /// How long a follow tries to get the coordinator back.
    pub(crate) const fn reconnect_for(&self) -> Duration {
        self.reconnect_for
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn receive<T: DeserializeOwned>(&self, call: Call) -> Result<Received<T>> {
        let mut tries = RETRY_AFTER.iter();
        loop {
            let failure = match self.try_receive(&call).await {
                Ok(received) => return Ok(received),
                Err(failure) => failure,
            };
            match tries.next() {
                Some(pause) if failure.may_repeat(call.repeat) => tokio::time::sleep(*pause).await,
                _ => return Err(failure.failure),
            }
        }
    }

    /// Sends a request and gives the answer with its body unread.
    pub(super) async fn stream(&self, call: Call) -> Result<Response> {
        let mut tries = RETRY_AFTER.iter();
        loop {
            let failure = match self.send(&call, None).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            match tries.next() {
                Some(pause) if failure.may_repeat(call.repeat) => tokio::time::sleep(*pause).await,
                _ => return Err(failure.failure),
            }
        }
    }

    async fn try_receive<T: DeserializeOwned>(&self, call: &Call) -> std::result::Result<Received<T>, Attempt> {
        let response = self.send(call, Some(call.within.unwrap_or(ANSWER_TIMEOUT))).await?;
        let body = response.bytes().await.map_err(|error| self.lost(&error))?;
        let foreign = |what: String| Attempt { failure: self.foreign(&what), unsent: false, passing: false };
        let value = protocol::decode(&body).map_err(|error| foreign(error.to_string()))?;
        let raw = serde_json::from_slice(&body).map_err(|error| foreign(error.to_string()))?;
        Ok(Received { raw, value })
    }

    async fn send(&self, call: &Call, timeout: Option<Duration>) -> std::result::Result<Response, Attempt> {
        let request = self.request(call, timeout).map_err(Attempt::last)?;
        let http = if call.within.is_some() { &self.patient } else { &self.http };
        let response = http.execute(request).await.map_err(|error| self.lost(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.bytes().await.map_err(|error| self.lost(&error))?;
        let failure = match protocol::decode::<Problem>(&body) {
            // A list is always there: whoever does not know it serves workers only.
            Ok(_) if status.as_u16() == 404 && call.is_list() => self
                .foreign("that is the workers' address; the clients' is 127.0.0.1:7222 by default")
                .next("give the clients' address by --coordinator or CW_COORDINATOR"),
            Ok(problem) => self.explain(Failure::refused(problem), status.as_u16()),
            Err(_) => self.foreign(&format!("it answered {}", status.as_u16())),
        };
        Err(Attempt { failure, unsent: false, passing: status.as_u16() == 503 })
    }

    fn request(&self, call: &Call, timeout: Option<Duration>) -> Result<reqwest::Request> {
        let bad =
            |error: &dyn std::fmt::Display| Failure::usage(format!("cannot ask {}{}: {error}", self.base, call.path));
        let mut url = Url::parse(&format!("{}{}", self.base, call.path)).map_err(|error| bad(&error))?;
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        let mut request = self.http.request(call.method.clone(), url).header(PROTOCOL_HEADER, PROTOCOL);
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        if let Some(body) = &call.body {
            request = body.attach(request).map_err(|error| bad(&plain(&error)))?;
        }
        if let Some(timeout) = timeout {
            request = request.timeout(timeout);
        }
        request.build().map_err(|error| bad(&error.without_url()))
    }

    /// A connection that did not come about, or broke.
    fn lost(&self, error: &reqwest::Error) -> Attempt {
        let what = if error.is_timeout() { "no answer in time".to_owned() } else { cause(error) };
        // Whoever waited that long once does not want to wait as long again.
        Attempt { failure: self.unreachable(&what), unsent: error.is_connect(), passing: !error.is_timeout() }
    }

    /// The failure for a coordinator that is not there.
    pub(crate) fn unreachable(&self, what: &str) -> Failure {
        let message = format!("cannot reach the coordinator at {}: {what}", self.shown);
        Failure::new(Exit::UNREACHABLE, "unreachable", message).next(recipe::coordinator(&self.key_file))
    }

    fn foreign(&self, what: &str) -> Failure {
        let message = format!("what listens at {} does not speak as a coordinator: {what}", self.shown);
        Failure::new(Exit::UNREACHABLE, "not_a_coordinator", message)
            .next("check CW_COORDINATOR, and that `cw` and the coordinator are of the same version")
    }

    /// Adds to a refusal what only this side knows.
    fn explain(&self, failure: Failure, status: u16) -> Failure {
        let file = self.key_file.display();
        match (status, failure.code) {
            (401, _) if self.key.is_none() => Failure {
                message: format!("the coordinator asks for a key (401), and there is none in {file}"),
                ..failure
            }
            .next("name the file that holds one by --key-file or CW_KEY_FILE; an admin makes one by `cw keys create`"),
            (401, _) => Failure {
                message: format!("the coordinator refused the key (401) from {file}: {}", failure.message),
                ..failure
            }
            .next("check CW_KEY_FILE and CW_COORDINATOR; an admin makes a new key by `cw keys create`"),
            (403, "wrong_role" | "wrong_repo") => Failure {
                message: format!("the key from {file} does not allow this (403): {}", failure.message),
                ..failure
            }
            .next("use another key (CW_KEY_FILE), or have an admin make one by `cw keys create`"),
            (426, _) => failure.next("install `cw` and the coordinator in the same version"),
            _ => failure,
        }
    }
}

fn built(builder: reqwest::ClientBuilder, address: &Address) -> Result<reqwest::Client> {
    let builder = builder.no_proxy().redirect(reqwest::redirect::Policy::none()).connect_timeout(CONNECT_TIMEOUT);
    let builder = match address {
        Address::Unix(path) => builder.unix_socket(path.as_path()),
        Address::Http(_) => builder,
    };
    builder.build().map_err(|error| Failure::usage(format!("cannot set up HTTP: {}", cause(&error))))
}

/// A request that did not get what it should.
struct Attempt {
    failure: Failure,
    /// It never left this machine.
    unsent: bool,
    /// It may go better a moment later.
    passing: bool,
}

impl Attempt {
    const fn last(failure: Failure) -> Self {
        Self { failure, unsent: false, passing: false }
    }

    fn may_repeat(&self, repeat: Repeat) -> bool {
        match repeat {
            Repeat::Harmless => self.passing,
            Repeat::OnlyUnsent => self.unsent,
            Repeat::Never => false,
        }
    }
}

/// The innermost cause, which is the one that a person can do something about.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<io::Error>() {
        Some(error) if error.kind() == io::ErrorKind::NotFound => "no socket there".to_owned(),
        Some(error) => plain(error),
        None if std::ptr::addr_eq(innermost, error) => "the connection broke".to_owned(),
        None => innermost.to_string(),
    }
}

#[cfg(test)]
mod tests;
