//! `--http`: /livez, /readyz and /metrics for the machine that the worker runs on. Three fixed answers to a GET, so the
//! HTTP is written out here; a request has 4 KiB and 5 s.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::Worker;

const MAX_REQUEST_BYTES: usize = 4 << 10;
const MAX_CONNECTIONS: usize = 64;
const TIME: Duration = Duration::from_secs(5);

/// Answers until it is dropped.
pub(crate) async fn serve(listener: TcpListener, worker: Arc<Worker>) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // cannot fail: the semaphore is never closed
        let Ok(place) = Arc::clone(&connections).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let worker = Arc::clone(&worker);
                tokio::spawn(async move {
                    let _ = timeout(TIME, answer(stream, &worker)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!("cannot accept a connection: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, worker: &Worker) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = stream.read(&mut buffer).await?;
        if length == 0 || request.len() + length > MAX_REQUEST_BYTES {
            return stream.write_all(&page("431 Request Header Fields Too Large", "request too large\n")).await;
        }
        request.extend_from_slice(&buffer[..length]);
    }
    stream.write_all(&respond(&request, worker)).await?;
    stream.shutdown().await
}

fn respond(request: &[u8], worker: &Worker) -> Vec<u8> {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    if method != b"GET" {
        return page("405 Method Not Allowed", "only GET\n");
    }
    match path {
        b"/livez" => page("200 OK", "ok\n"),
        b"/readyz" => match trouble(worker) {
            None => page("200 OK", "ok\n"),
            Some(why) => page("503 Service Unavailable", &format!("{why}\n")),
        },
        b"/metrics" => page("200 OK", &metrics(worker)),
        _ => page("404 Not Found", "there are /livez, /readyz and /metrics\n"),
    }
}

/// Why the worker takes no tasks now.
fn trouble(worker: &Worker) -> Option<String> {
    if worker.stats.is_draining() {
        return Some("draining".into());
    }
    if let Err(error) = worker.state.probe() {
        return Some(format!("state directory is not writable: {error}"));
    }
    if let Some(lacking) = worker.state.lacks_bytes() {
        return Some(format!("{} MiB more must be free on the state directory's disk", lacking.div_ceil(1 << 20)));
    }
    worker.client.link.trouble()
}

fn metrics(worker: &Worker) -> String {
    let spooled = worker.spool.files().map_or(0, |files| files.len());
    let up = u8::from(worker.client.link.trouble().is_none());
    let mut text = worker.stats.text();
    for (name, help, value) in [
        ("slots", "Attempts that fit side by side.", worker.config.slots as usize),
        ("coordinator_up", "Whether the coordinator answered the last call.", up.into()),
        ("spooled_reports", "Reports of earlier attempts that are not delivered yet.", spooled),
    ] {
        text += &format!("# HELP cw_worker_{name} {help}\n# TYPE cw_worker_{name} gauge\ncw_worker_{name} {value}\n");
    }
    text
}

fn page(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n");
    format!("{head}connection: close\r\n\r\n{body}").into_bytes()
}
