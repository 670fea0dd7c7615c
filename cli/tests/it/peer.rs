//! A scripted HTTP peer: it answers each request as the test says, and remembers what it was asked.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// `GET /v1/tasks`, without the query.
    pub(crate) fn route(&self) -> String {
        format!("{} {}", self.method, self.path.split('?').next().unwrap())
    }
}

/// What is answered.
pub(crate) enum Reply {
    /// A whole answer.
    Answer { status: u16, kind: &'static str, body: Vec<u8> },
    /// A file, with its etag.
    Tagged { tag: &'static str, body: Vec<u8> },
    /// Bytes of a stream that then ends as it should.
    Stream(String),
    /// Bytes of a stream whose connection then breaks.
    Broken(String),
    /// Nothing: the connection is closed.
    HangUp,
    /// Bytes of a stream that then stays open.
    Held(String),
}

pub(crate) fn answer(body: Value) -> Reply {
    Reply::Answer { status: 200, kind: "application/json", body: body.to_string().into_bytes() }
}

pub(crate) fn bytes(body: &[u8]) -> Reply {
    Reply::Answer { status: 200, kind: "application/octet-stream", body: body.to_vec() }
}

pub(crate) fn problem(code: &str, status: u16, detail: &str) -> Reply {
    let body = json!({"type": "urn:x", "title": code, "status": status, "detail": detail, "code": code, "request_id": "req_1"});
    Reply::Answer { status, kind: "application/problem+json", body: body.to_string().into_bytes() }
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Request>>,
    arrived: Condvar,
}

/// The peer; it ends with the test's process.
pub(crate) struct Peer {
    pub(crate) url: String,
    seen: Arc<Seen>,
}

type Script = Arc<dyn Fn(&Request, usize) -> Reply + Send + Sync>;

impl Peer {
    /// Answers by the script, which is told how many requests that route has had.
    pub(crate) fn start(script: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (seen, script): (Arc<Seen>, Script) = (Arc::default(), Arc::new(script));
        let served = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, script) = (Arc::clone(&served), Arc::clone(&script));
                std::thread::spawn(move || serve(stream.try_clone().unwrap(), stream, &seen, &script));
            }
        });
        Self { url, seen }
    }

    /// The same, on a Unix socket.
    pub(crate) fn start_unix(path: &Path, script: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let (seen, script): (Arc<Seen>, Script) = (Arc::default(), Arc::new(script));
        let served = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, script) = (Arc::clone(&served), Arc::clone(&script));
                std::thread::spawn(move || serve(stream.try_clone().unwrap(), stream, &seen, &script));
            }
        });
        Self { url: format!("unix:{}", path.display()), seen }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// The requests of one route.
    pub(crate) fn asked(&self, route: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.route() == route).collect()
    }

    /// Waits until a route was asked for that many times.
    pub(crate) fn wait_for(&self, route: &str, times: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut requests = self.seen.requests.lock().unwrap();
        while requests.iter().filter(|request| request.route() == route).count() < times {
            let left = deadline.checked_duration_since(Instant::now()).expect("the route was not asked for in time");
            requests = self.seen.arrived.wait_timeout(requests, left).unwrap().0;
        }
    }
}

fn serve(reader: impl std::io::Read, mut writer: impl Write, seen: &Seen, script: &Script) {
    let Some(request) = read_request(reader) else { return };
    let count = {
        let mut requests = seen.requests.lock().unwrap();
        requests.push(request.clone());
        requests.iter().filter(|earlier| earlier.route() == request.route()).count()
    };
    let reply = script(&request, count);
    let _ = write_reply(&mut writer, reply, || seen.arrived.notify_all());
    seen.arrived.notify_all();
}

fn read_request(reader: impl std::io::Read) -> Option<Request> {
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, headers, body: String::from_utf8(body).unwrap() })
}

fn write_reply(to: &mut impl Write, reply: Reply, sent: impl Fn()) -> std::io::Result<()> {
    let stream_head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    match reply {
        Reply::HangUp => Ok(()),
        Reply::Answer { status, kind, body } => {
            let length = body.len();
            write!(
                to,
                "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            )?;
            to.write_all(&body)
        }
        Reply::Tagged { tag, body } => {
            let length = body.len();
            write!(to, "HTTP/1.1 200 X\r\netag: {tag}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")?;
            to.write_all(&body)
        }
        Reply::Stream(text) => write!(to, "{stream_head}{:x}\r\n{text}\r\n0\r\n\r\n", text.len()),
        Reply::Broken(text) => write!(to, "{stream_head}{:x}\r\n{text}\r\n", text.len()),
        Reply::Held(text) => {
            write!(to, "{stream_head}{:x}\r\n{text}\r\n", text.len().max(1))?;
            to.flush()?;
            sent();
            // Until the test's process ends.
            loop {
                std::thread::park();
            }
        }
    }
}
