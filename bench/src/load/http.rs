//! The leanest HTTP/1.1 client that measures honestly: one kept connection, request bytes made beforehand, and of the
//! answer only the status and the body. It reads no chunked bodies and follows nothing.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Room for an answer's bytes at first; it grows when an answer is larger.
const FIRST_ROOM: usize = 4096;

/// An answer.
#[derive(Debug)]
pub(crate) struct Response<'connection> {
    pub(crate) status: u16,
    pub(crate) body: &'connection [u8],
}

impl Response<'_> {
    /// The body of an answer with that status; any other is an error that shows the answer.
    pub(crate) fn expect(&self, status: u16) -> Result<&[u8]> {
        if self.status != status {
            bail!("expected status {status}, got {}: {}", self.status, String::from_utf8_lossy(self.body));
        }
        Ok(self.body)
    }
}

/// A kept connection, for one request at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: Vec::with_capacity(FIRST_ROOM) })
    }

    /// Sends the bytes that [`request`] made and waits for the answer.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<Response<'_>> {
        self.stream.write_all(request).await.context("sending a request")?;
        self.bytes.clear();
        loop {
            let read = self.stream.read_buf(&mut self.bytes).await.context("reading an answer")?;
            if read == 0 {
                bail!("the connection was closed in the middle of an answer");
            }
            if let Some(head) = Head::parse(&self.bytes)?
                && self.bytes.len() >= head.end()
            {
                let body = &self.bytes[head.body_at..head.end()];
                return Ok(Response { status: head.status, body });
            }
        }
    }
}

/// The bytes of a request. `key` is the bearer's secret.
pub(crate) fn request(method: &str, path: &str, key: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let protocol = protocol::PROTOCOL;
    format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nCW-Protocol: {protocol}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// What must be known of an answer's head to read its body.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body_at: usize,
    body_length: usize,
}

impl Head {
    /// Reads the head, or `None` while it is not complete.
    fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
        let text = std::str::from_utf8(&bytes[..end]).context("an answer's head is not text")?;
        let (first, headers) = text.split_once("\r\n").unwrap_or((text, ""));
        let status = status_of(first)?;
        Ok(Some(Self { status, body_at: end + 4, body_length: body_length(status, headers)? }))
    }

    const fn end(&self) -> usize {
        self.body_at + self.body_length
    }
}

fn status_of(line: &str) -> Result<u16> {
    let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|digits| digits.parse().ok());
    status.with_context(|| format!("not an HTTP/1.1 answer: {line:?}"))
}

fn body_length(status: u16, headers: &str) -> Result<usize> {
    for (name, value) in headers.split("\r\n").filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            return value.trim().parse().with_context(|| format!("not a content length: {value:?}"));
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            bail!("an answer with transfer encoding {} is not read here", value.trim());
        }
    }
    if status == 204 { Ok(0) } else { bail!("an answer with status {status} says no content length") }
}

#[cfg(test)]
mod tests;
