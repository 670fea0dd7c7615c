//! The coordinator's worker routes in a few lines, honest by default, and faulty where a test says so.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use protocol::{LeaseId, TaskId};
use serde_json::{Value, json};

use sessions::{Sessions, Stage, Tree};

pub(crate) mod sessions;

/// How long a test waits for what must come. Inside gVisor, beside other tests, a gibibyte of output takes most of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) const KEY: &str = "cwk_test_secret_never_shown";

/// What goes wrong with a request.
#[derive(Clone)]
pub(crate) enum Fault {
    /// It is done, but the answer is lost.
    LoseAnswer,
    /// It is answered with this, and not done.
    Answer(u16, Value),
    /// Nothing.
    None,
    /// It is never answered, nor done.
    Hang,
    /// Its stream is cut off after so many bytes.
    Cut(usize),
    /// Its stream is another.
    Tamper(Arc<dyn Fn(Vec<u8>) -> Vec<u8> + Send + Sync>),
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) body: Value,
    /// The body of an upload.
    bytes: Vec<u8>,
}

impl Request {
    fn is_to(&self, path_end: &str) -> bool {
        is_to(&self.path, path_end)
    }
}

/// Whether a path ends so, with its query or without.
fn is_to(path: &str, end: &str) -> bool {
    path.ends_with(end) || path.split('?').next().is_some_and(|plain| plain.ends_with(end))
}

#[derive(Default)]
struct State {
    grants: VecDeque<Value>,
    seen: Vec<Request>,
    faults: Vec<(String, usize, Fault)>,
    cancelled: Vec<String>,
    lost: Vec<String>,
    events: HashMap<String, BTreeMap<u64, Value>>,
    reports: HashMap<String, Value>,
    releases: HashMap<String, Value>,
    uploads: HashMap<String, BTreeMap<String, Vec<u8>>>,
    ttl_s: u32,
    leases: u128,
    sessions: Sessions,
}

pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    shared: Arc<(Mutex<State>, Condvar)>,
    is_over: Arc<AtomicBool>,
}

impl Peer {
    pub(crate) fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap())
    }

    pub(crate) fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let shared = Arc::new((Mutex::new(State { ttl_s: 30, ..State::default() }), Condvar::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let peer = Self { address: listener.local_addr().unwrap(), shared: Arc::clone(&shared), is_over };
        std::thread::spawn(move || {
            for stream in listener.incoming().take_while(|_| !ends.load(Ordering::SeqCst)) {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream.unwrap(), &shared));
            }
        });
        peer
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.shared.1.notify_all();
    }

    /// Leases live this long once they were renewed.
    pub(crate) fn ttl_s(&self, ttl_s: u32) {
        self.change(|state| state.ttl_s = ttl_s);
    }

    /// Queues a task; says the lease under which it will be given out.
    pub(crate) fn task(&self, spec: Value) -> String {
        let mut state = self.state();
        state.leases += 1;
        let now = 1_700_000_000_000 + u64::try_from(state.leases).unwrap();
        let lease = LeaseId::new(now, state.leases).to_string();
        let task = TaskId::new(now, state.leases).to_string();
        let mut spec = spec;
        spec["repo"] = json!("rhizome");
        if let Some(session) = spec["session"].as_str() {
            let mode = spec["session_mode"].as_str().unwrap_or("write");
            state.sessions.leases.insert(lease.clone(), (session.into(), mode.into()));
            state.sessions.sessions.entry(session.into()).or_default();
        }
        state.grants.push_back(
            json!({"lease": lease, "task": task, "repo": "rhizome", "attempt": 1, "ttl_s": 10, "spec": spec}),
        );
        drop(state);
        self.shared.1.notify_all();
        lease
    }

    /// Queues a shell task in a session.
    pub(crate) fn in_session(&self, session: &str, code: &str) -> String {
        self.task(json!({"run": {"kind": "shell", "code": code}, "session": session}))
    }

    /// Queues one that only reads.
    pub(crate) fn reading(&self, session: &str, code: &str) -> String {
        let run = json!({"kind": "shell", "code": code});
        self.task(json!({"run": run, "session": session, "session_mode": "read"}))
    }

    /// Changes a session, as a client does.
    pub(crate) fn files(&self, session: &str, change: impl FnOnce(&mut Tree)) {
        self.change(|state| state.sessions.sessions.entry(session.into()).or_default().change(change));
    }

    /// The newest version of a session.
    pub(crate) fn tree(&self, session: &str) -> Tree {
        self.state().sessions.sessions[session].newest().1
    }

    /// Another session of the same name, which was deleted meanwhile.
    pub(crate) fn anew(&self, session: &str) {
        self.change(|state| {
            let old = state.sessions.sessions.remove(session).unwrap_or_default();
            let new = sessions::Session { generation: old.generation + 1, ..sessions::Session::default() };
            state.sessions.sessions.insert(session.into(), new);
        });
    }

    pub(crate) fn overlays(&self, change: impl FnOnce(&mut Tree)) {
        self.change(|state| change(&mut state.sessions.overlays));
    }

    /// What a lease brought.
    pub(crate) fn stage(&self, lease: &str) -> Option<Stage> {
        self.state().sessions.stages.get(lease).cloned()
    }

    pub(crate) fn shell(&self, code: &str) -> String {
        self.task(json!({"run": {"kind": "shell", "code": code}}))
    }

    pub(crate) fn python(&self, code: &str) -> String {
        self.task(json!({"run": {"kind": "python", "code": code}}))
    }

    /// The next `times` requests whose path ends so go wrong.
    pub(crate) fn fault(&self, path_end: &str, times: usize, fault: Fault) {
        self.change(|state| state.faults.push((path_end.into(), times, fault)));
    }

    /// All requests whose path ends so go wrong, but for the first `good` of them.
    pub(crate) fn fault_after(&self, path_end: &str, good: usize, fault: Fault) {
        self.fault(path_end, good, Fault::None);
        self.fault(path_end, usize::MAX, fault);
    }

    pub(crate) fn heal(&self) {
        self.change(|state| state.faults.clear());
    }

    pub(crate) fn cancel(&self, lease: &str) {
        self.change(|state| state.cancelled.push(lease.into()));
    }

    pub(crate) fn lose(&self, lease: &str) {
        self.change(|state| state.lost.push(lease.into()));
    }

    /// Forgets events from this number on, as power loss would.
    pub(crate) fn forget_events(&self, lease: &str, from: u64) {
        self.change(|state| {
            state.events.entry(lease.into()).or_default().retain(|number, _| *number < from);
        });
    }

    fn wait<T>(&self, what: &str, mut found: impl FnMut(&State) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.state();
        loop {
            if let Some(found) = found(&state) {
                return found;
            }
            let left = deadline.checked_duration_since(Instant::now());
            let left = left.unwrap_or_else(|| {
                // The last requests say where it stopped; a flood makes thousands.
                let last = state.seen.iter().rev().take(20).map(|one| &one.path).collect::<Vec<_>>();
                panic!("no {what} within {} s; seen last: {last:?}", PATIENCE.as_secs())
            });
            state = self.shared.1.wait_timeout(state, left).unwrap().0;
        }
    }

    pub(crate) fn report(&self, lease: &str) -> Value {
        self.wait("report", |state| state.reports.get(lease).cloned())
    }

    pub(crate) fn release(&self, lease: &str) -> Value {
        self.wait("release", |state| state.releases.get(lease).cloned())
    }

    /// Waits for a request whose path ends so and whose body is as wanted.
    pub(crate) fn seen(&self, path_end: &str, wanted: impl Fn(&Value) -> bool) -> Request {
        self.wait(path_end, |state| {
            state.seen.iter().find(|request| request.path.ends_with(path_end) && wanted(&request.body)).cloned()
        })
    }

    pub(crate) fn wait_for_count(&self, path_end: &str, count: usize) {
        self.wait(path_end, |state| {
            (state.seen.iter().filter(|request| request.is_to(path_end)).count() >= count).then_some(())
        });
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state().seen.clone()
    }

    /// What a lease uploaded, by path.
    pub(crate) fn uploads(&self, lease: &str) -> BTreeMap<String, Vec<u8>> {
        self.state().uploads.get(lease).cloned().unwrap_or_default()
    }

    pub(crate) fn is_reported(&self, lease: &str) -> bool {
        self.state().reports.contains_key(lease)
    }

    /// Waits until a stream of a lease holds this text.
    pub(crate) fn wait_for_output(&self, lease: &str, text: &str) {
        self.wait(&format!("output {text:?}"), |state| {
            let bytes = output_of(state, lease, "stdout");
            String::from_utf8_lossy(&bytes).contains(text).then_some(())
        });
    }

    pub(crate) fn output(&self, lease: &str, stream: &str) -> Vec<u8> {
        output_of(&self.state(), lease, stream)
    }

    pub(crate) fn stdout(&self, lease: &str) -> String {
        String::from_utf8(self.output(lease, "stdout")).unwrap()
    }

    pub(crate) fn stderr(&self, lease: &str) -> String {
        String::from_utf8(self.output(lease, "stderr")).unwrap()
    }

    pub(crate) fn events(&self, lease: &str) -> BTreeMap<u64, Value> {
        self.state().events.get(lease).cloned().unwrap_or_default()
    }
}

/// Its thread counts as a process of this user, of whom tasks are, too.
impl Drop for Peer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn output_of(state: &State, lease: &str, stream: &str) -> Vec<u8> {
    let events = state.events.get(lease).into_iter().flat_map(BTreeMap::values);
    let of_stream = events.filter(|event| event["stream"] == stream);
    of_stream
        .flat_map(|event| {
            let event: protocol::WorkerEvent = serde_json::from_value(event.clone()).unwrap();
            let protocol::event::EventBody::Output { bytes, .. } = event.body else { panic!("{event:?}") };
            bytes.into_bytes().unwrap()
        })
        .collect()
}

fn serve(stream: TcpStream, shared: &(Mutex<State>, Condvar)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(request) = read(&mut reader) {
        let fault = {
            let mut state = shared.0.lock().unwrap();
            state.seen.push(request.clone());
            shared.1.notify_all();
            take_fault(&mut state, &request.path)
        };
        let (status, body) = match fault {
            Some(Fault::Answer(status, body)) => (status, body),
            Some(Fault::Hang) => {
                // Held until the worker gives up on it.
                let _ = reader.read(&mut [0]);
                return;
            }
            Some(Fault::LoseAnswer) => {
                handle(&request, shared, &stream);
                return;
            }
            Some(Fault::Cut(length)) => {
                let body = streamed(&request, shared).unwrap_or_default();
                send_pieces(&mut stream, &body[..length.min(body.len())], false);
                return;
            }
            Some(Fault::Tamper(tamper)) => {
                if !send_pieces(&mut stream, &tamper(streamed(&request, shared).unwrap_or_default()), true) {
                    return;
                }
                continue;
            }
            Some(Fault::None) | None => match streamed(&request, shared) {
                Some(body) if send_pieces(&mut stream, &body, true) => continue,
                Some(_) => return,
                None => handle(&request, shared, &stream),
            },
        };
        let body = if status == 204 { String::new() } else { body.to_string() };
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

/// The answer to a request for a stream, if it is one and its lease lives.
fn streamed(request: &Request, shared: &(Mutex<State>, Condvar)) -> Option<Vec<u8>> {
    let state = shared.0.lock().unwrap();
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let parts: Vec<&str> = path.split('/').collect();
    let lease = parts.get(3).filter(|lease| !state.lost.iter().any(|lost| lost == *lease))?;
    match parts.get(4..)? {
        ["workspace"] => {
            let since = query.strip_prefix("since=").map(|since| since.parse().unwrap());
            Some(state.sessions.manifest(lease, since))
        }
        ["workspace", "blobs"] => Some(state.sessions.blobs(lease, &request.body)),
        _ => None,
    }
}

/// Sends a stream of unknown length; says whether the connection goes on.
fn send_pieces(stream: &mut TcpStream, body: &[u8], is_whole: bool) -> bool {
    let mut send = |bytes: &[u8]| stream.write_all(bytes).is_ok();
    let mut is_well = send(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n");
    for piece in body.chunks(64 << 10) {
        is_well = is_well && send(format!("{:x}\r\n", piece.len()).as_bytes()) && send(piece) && send(b"\r\n");
    }
    is_well && is_whole && send(b"0\r\n\r\n")
}

fn take_fault(state: &mut State, path: &str) -> Option<Fault> {
    let place = state.faults.iter().position(|(end, times, _)| is_to(path, end) && *times > 0)?;
    state.faults[place].1 -= 1;
    Some(state.faults[place].2.clone())
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut authorized, mut chunked) = (0, false, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim();
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(": ").unwrap();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "transfer-encoding" => chunked = value == "chunked",
            "authorization" => authorized = value == format!("Bearer {KEY}"),
            "cw-protocol" => assert_eq!(value, "1"),
            _ => {}
        }
    }
    assert!(authorized, "a request without the key");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    if chunked {
        return Some(Request { path, body: Value::Null, bytes: read_chunks(reader)? });
    }
    if path.contains("/uploads?path=") {
        return Some(Request { path, body: Value::Null, bytes: body });
    }
    let cap = if path.ends_with("/report") { 1 << 20 } else { 64 << 10 };
    let cap = if path.ends_with("/blobs") { 1 << 20 } else { cap };
    assert!(length <= cap, "a body of {length} bytes is over the cap");
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Some(Request { path, body, bytes: Vec::new() })
}

/// A body of unknown length; none when it is cut off.
fn read_chunks(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let length = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut piece = vec![0; length + 2];
        reader.read_exact(&mut piece).ok()?;
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(&piece[..length]);
    }
}

fn handle(request: &Request, shared: &(Mutex<State>, Condvar), stream: &TcpStream) -> (u16, Value) {
    let parts: Vec<&str> = request.path.split('/').collect();
    let answer = match parts.as_slice() {
        ["", "v1", "leases"] => lease(&request.body, shared, stream),
        ["", "v1", "leases", id, verb] => {
            if shared.0.lock().unwrap().lost.iter().any(|lost| lost == id) {
                lease_lost()
            } else if *verb == "renew" {
                renew(id, &request.body, shared)
            } else if let Some(path) = verb.strip_prefix("uploads?path=") {
                let mut state = shared.0.lock().unwrap();
                let uploads = state.uploads.entry((*id).to_owned()).or_default();
                uploads.insert(path.replace("%2F", "/"), request.bytes.clone());
                (200, json!({"size": request.bytes.len(), "sha256": ""}))
            } else {
                change(id, verb, &request.body, &mut shared.0.lock().unwrap())
            }
        }
        ["", "v1", "leases", id, "workspace", stage] if stage.starts_with("stage?base=") => {
            let mut state = shared.0.lock().unwrap();
            if state.lost.iter().any(|lost| lost == id) {
                lease_lost()
            } else {
                let base = stage["stage?base=".len()..].parse().unwrap();
                (200, state.sessions.stage(id, base, &request.bytes))
            }
        }
        ["", "v1", "leases", _, "workspace", "blobs"] => lease_lost(),
        _ => (404, json!({})),
    };
    shared.1.notify_all();
    answer
}

fn lease(body: &Value, shared: &(Mutex<State>, Condvar), stream: &TcpStream) -> (u16, Value) {
    if body["worker"]["state"] != "ready" {
        return (204, Value::Null);
    }
    let until = Instant::now() + Duration::from_secs(body["wait_s"].as_u64().unwrap());
    let mut state = shared.0.lock().unwrap();
    loop {
        // A task is not given to a worker that hung up meanwhile.
        if is_closed(stream) || (state.grants.is_empty() && Instant::now() >= until) {
            return (204, Value::Null);
        }
        if let Some(grant) = state.grants.pop_front() {
            return (200, grant);
        }
        state = shared.1.wait_timeout(state, Duration::from_millis(20)).unwrap().0;
    }
}

fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    matches!(peeked, Ok(0)) || peeked.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
}

fn renew(id: &str, body: &Value, shared: &(Mutex<State>, Condvar)) -> (u16, Value) {
    let wait = Duration::from_secs(body["wait_s"].as_u64().unwrap());
    let has = |list: &Vec<String>| list.iter().any(|one| one == id);
    let state = shared.0.lock().unwrap();
    let quiet = |state: &mut State| !has(&state.cancelled) && !has(&state.lost);
    let (state, _) = shared.1.wait_timeout_while(state, wait, quiet).unwrap();
    if has(&state.lost) {
        return lease_lost();
    }
    let stop = if has(&state.cancelled) { json!("cancel") } else { Value::Null };
    (200, json!({"ttl_s": state.ttl_s, "stop": stop}))
}

fn change(id: &str, verb: &str, body: &Value, state: &mut State) -> (u16, Value) {
    let ended = json!({"task": TaskId::new(1, 1).to_string(), "lease": id});
    let last = state.events.get(id).and_then(|events| events.keys().max().copied()).unwrap_or(0);
    match verb {
        "events" => {
            let events = state.events.entry(id.into()).or_default();
            for event in body["events"].as_array().unwrap() {
                let number = event["number"].as_u64().unwrap();
                let next = events.keys().max().map_or(1, |last| last + 1);
                if number > next {
                    return event_gap(next);
                }
                events.entry(number).or_insert_with(|| event.clone());
            }
            (200, json!({"accepted": events.keys().max().copied().unwrap_or(0)}))
        }
        "report" if body["last_event"].as_u64().unwrap_or(0) > last => event_gap(last + 1),
        "report" => {
            state.sessions.report(id, body);
            state.reports.insert(id.into(), body.clone());
            (200, ended)
        }
        "release" => {
            state.releases.insert(id.into(), body.clone());
            (200, ended)
        }
        _ => (404, json!({})),
    }
}

pub(crate) fn problem(status: u16, code: &str) -> Value {
    json!({"type": "x", "title": code, "status": status, "detail": format!("scripted {code}"), "code": code})
}

fn lease_lost() -> (u16, Value) {
    (409, problem(409, "lease_lost"))
}

fn event_gap(expected: u64) -> (u16, Value) {
    let mut gap = problem(409, "event_gap");
    gap["expected"] = json!(expected);
    (409, gap)
}
