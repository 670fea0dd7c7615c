//! A hostile proxy on loopback between a store and its server: it speaks HTTP/1 as far as it must to do harm.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the proxy does to each request that it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Harm {
    /// Passes everything on.
    None,
    /// Answers 500 instead of passing on, to so many requests.
    Refuse(usize),
    /// Closes once so many bytes of an answer have come through.
    CutAnswers(usize),
    /// Closes once so many bytes of a request have come through.
    CutRequests(usize),
    /// Gives no byte of an answer back.
    Stall,
    /// Claims that a body is shorter than it is, by so many bytes.
    Shorten(usize),
    /// Passes an answer on in pieces with this many milliseconds between them.
    Slow(u64),
}

pub(super) struct Proxy {
    pub(super) url: String,
    harm: watch::Sender<Harm>,
    /// Connections that were made through it.
    pub(super) connections: Arc<AtomicUsize>,
    serving: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(super) async fn before(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = server.trim_start_matches("http://").to_owned();
        let (harm, now) = watch::channel(Harm::None);
        let connections = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&connections);
        let left = Arc::<AtomicUsize>::default();
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(pass(client, server.clone(), now.clone(), Arc::clone(&left)));
            }
        });
        Self { url, harm, connections, serving }
    }

    pub(super) fn does(&self, harm: Harm) {
        self.harm.send_replace(harm);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// One connection, and one request on it: the answer always says that the connection ends with it.
async fn pass(mut client: TcpStream, server: String, harm: watch::Receiver<Harm>, refused: Arc<AtomicUsize>) {
    let Some((head, rest)) = head(&mut client).await else { return };
    let harm = *harm.borrow();
    let length = content_length(&head).unwrap_or(0);
    if let Harm::Refuse(times) = harm
        && refused.fetch_add(1, Ordering::Relaxed) < times
    {
        swallow(&mut client, length.saturating_sub(rest.len())).await;
        let _ = client.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        return;
    }
    let Ok(mut upstream) = TcpStream::connect(&server).await else { return };
    // The server must see the whole request end and close after its answer, so that its end is the answer's end.
    let head = closing(&head, "Connection: close\r\n");
    if upstream.write_all(head.as_bytes()).await.is_err() {
        return;
    }
    let allowed = if let Harm::CutRequests(bytes) = harm { bytes } else { usize::MAX };
    if !send_body(&mut client, &mut upstream, rest, length, allowed).await || harm == Harm::Stall {
        if harm == Harm::Stall {
            let _ = client.read(&mut [0]).await;
        }
        return;
    }
    answer(&mut client, &mut upstream, harm).await;
}

/// False when the connection is to be cut.
async fn send_body(
    client: &mut TcpStream,
    upstream: &mut TcpStream,
    mut piece: Vec<u8>,
    length: usize,
    allowed: usize,
) -> bool {
    let mut sent = 0;
    loop {
        if upstream.write_all(&piece).await.is_err() {
            return false;
        }
        sent += piece.len();
        if sent >= length {
            return true;
        }
        if sent >= allowed {
            return false;
        }
        piece.resize(16 << 10, 0);
        match client.read(&mut piece).await {
            Ok(0) | Err(_) => return false,
            Ok(read) => piece.truncate(read),
        }
    }
}

async fn answer(client: &mut TcpStream, upstream: &mut TcpStream, harm: Harm) {
    let Some((mut head, mut piece)) = head(upstream).await else { return };
    if let (Harm::Shorten(by), Some(length)) = (harm, content_length(&head))
        && length > by
        && head.starts_with("HTTP/1.1 20")
    {
        head = head.replace(&format!("Content-Length: {length}\r\n"), &format!("Content-Length: {}\r\n", length - by));
    }
    let mut left = if let Harm::CutAnswers(bytes) = harm { bytes } else { usize::MAX };
    if client.write_all(closing(&head, "Connection: close\r\n").as_bytes()).await.is_err() {
        return;
    }
    loop {
        piece.truncate(left);
        left -= piece.len();
        if client.write_all(&piece).await.is_err() || left == 0 {
            return;
        }
        if let Harm::Slow(ms) = harm {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        piece.resize(16 << 10, 0);
        match upstream.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(read) => piece.truncate(read),
        }
    }
}

/// The head of a message with the empty line, and what came behind it.
async fn head(from: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Some((String::from_utf8(bytes).ok()?, rest));
        }
        let mut piece = [0; 4096];
        match from.read(&mut piece).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

fn content_length(head: &str) -> Option<usize> {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-length:"))?;
    line.split_once(':')?.1.trim().parse().ok()
}

fn closing(head: &str, line: &str) -> String {
    let kept = head
        .trim_end_matches("\r\n")
        .split("\r\n")
        .filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let mut head: String = kept.flat_map(|line| [line, "\r\n"]).collect();
    head.push_str(line);
    head.push_str("\r\n");
    head
}

async fn swallow(client: &mut TcpStream, mut length: usize) {
    let mut piece = vec![0; 16 << 10];
    while length > 0 {
        match client.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(read) => length = length.saturating_sub(read),
        }
    }
}
