//! Reads a stream of server-sent events, frame by frame.

use serde_json::Value;

use crate::running::{DEADLINE, Running};

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: u64,
    pub(crate) event: String,
    pub(crate) data: Value,
}

/// An open stream.
pub(crate) struct Sse {
    response: reqwest::Response,
    unread: Vec<u8>,
}

impl Sse {
    pub(crate) async fn open(on: &Running, path: &str) -> Self {
        Self::open_with(on, path, None).await
    }

    pub(crate) async fn open_with(on: &Running, path: &str, last_event_id: Option<u64>) -> Self {
        let mut request = on.http.get(format!("{}{path}", on.url)).bearer_auth(&on.admin);
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        Self::opened(request).await
    }

    pub(crate) async fn open_as(on: &Running, key: &str, path: &str) -> Self {
        Self::opened(on.http.get(format!("{}{path}", on.url)).bearer_auth(key)).await
    }

    /// Without a timeout on the whole: a stream may be as long as it likes.
    async fn opened(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, unread: Vec::new() }
    }

    /// The next event; none when the stream has ended. Comments are passed over, and do not count as going on.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        tokio::time::timeout(DEADLINE, self.read_next()).await.expect("the stream goes on or ends")
    }

    async fn read_next(&mut self) -> Option<Frame> {
        loop {
            while let Some(end) = self.unread.windows(2).position(|two| two == b"\n\n") {
                let frame: Vec<u8> = self.unread.drain(..end + 2).collect();
                if frame[0] != b':' {
                    return Some(parse(std::str::from_utf8(&frame[..end]).unwrap()));
                }
            }
            match self.response.chunk().await.unwrap() {
                Some(piece) => self.unread.extend_from_slice(&piece),
                None => {
                    assert!(self.unread.is_empty(), "half an event: {}", String::from_utf8_lossy(&self.unread));
                    return None;
                }
            }
        }
    }

    /// The next so many events.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        while frames.len() < count {
            frames.push(self.next().await.expect("the stream ended early"));
        }
        frames
    }

    /// All events until the stream ends.
    pub(crate) async fn rest(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}

fn parse(frame: &str) -> Frame {
    let lines: Vec<_> = frame.lines().collect();
    let [id, event, data] = lines[..] else { panic!("not id, event and data: {frame}") };
    Frame {
        id: id.strip_prefix("id: ").unwrap().parse().unwrap(),
        event: event.strip_prefix("event: ").unwrap().to_owned(),
        data: serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap(),
    }
}
