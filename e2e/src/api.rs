//! The coordinator's HTTP API as a client without any manners of its own: it sends once and shows what came back.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use protocol::admin::CreatedKey;
use protocol::{Code, PROTOCOL, PROTOCOL_HEADER, Problem, TaskId, TaskState, TaskView, WorkerId};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::wait::{eventually, eventually_within};

const ANSWER_TIME: Duration = Duration::from_secs(75);

/// A way to the coordinator with one key.
#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    key: String,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body of a success.
    ///
    /// # Errors
    /// When it was refused, or is something else.
    pub fn value<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        ensure!((200..300).contains(&self.status), "refused: {}", self.text());
        serde_json::from_slice(&self.body).with_context(|| format!("not what was expected: {}", self.text()))
    }

    /// The code of a refusal; none of a success.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        serde_json::from_slice::<Problem>(&self.body).ok().map(|problem| problem.code)
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One event of a task's stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its number in the task.
    pub number: u64,
    /// Its type.
    pub kind: String,
    /// What happened.
    pub data: Value,
}

impl Api {
    /// Talks to what listens at `base`, with this key.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new(base: &str, key: &str) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().timeout(ANSWER_TIME).build()?;
        Ok(Self { http, base: base.to_owned(), key: key.to_owned() })
    }

    /// The same with another key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    /// The same way through another address.
    #[must_use]
    pub fn through(&self, base: &str) -> Self {
        Self { base: base.to_owned(), ..self.clone() }
    }

    /// Sends a request once.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        self.send_with(method, path, body, &[]).await
    }

    async fn send_with(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Answer> {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        request = request.bearer_auth(&self.key).header(PROTOCOL_HEADER, PROTOCOL);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await?;
        Ok(Answer { status: response.status().as_u16(), body: response.bytes().await?.to_vec() })
    }

    /// Reads.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.send(Method::GET, path, None).await
    }

    /// Posts.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn post(&self, path: &str, body: Value) -> anyhow::Result<Answer> {
        self.send(Method::POST, path, Some(&body)).await
    }

    /// Writes a file of a session.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn write(&self, session: &str, path: &str, bytes: &[u8]) -> anyhow::Result<Answer> {
        let url = format!("{}/v1/workspaces/{session}/files/content?path={path}", self.base);
        let request = self.http.put(url).bearer_auth(&self.key).header(PROTOCOL_HEADER, PROTOCOL);
        let response = request.header("content-type", "application/octet-stream").body(bytes.to_vec()).send().await?;
        Ok(Answer { status: response.status().as_u16(), body: response.bytes().await?.to_vec() })
    }

    /// The bytes of a file of a session.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn read(&self, session: &str, path: &str) -> anyhow::Result<Answer> {
        self.get(&format!("/v1/workspaces/{session}/files/raw?path={path}")).await
    }

    /// Submits a spec, without a second try.
    ///
    /// # Errors
    /// When it is not accepted.
    pub async fn submit(&self, spec: Value) -> anyhow::Result<TaskView> {
        self.post("/v1/tasks", spec).await?.value()
    }

    /// Submits a spec under an idempotency key, once.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn submit_once(&self, spec: &Value, idempotency_key: &str) -> anyhow::Result<Answer> {
        self.send_with(Method::POST, "/v1/tasks", Some(spec), &[("idempotency-key", idempotency_key)]).await
    }

    /// Submits shell code.
    ///
    /// # Errors
    /// When it is not accepted.
    pub async fn submit_shell(&self, repo: &str, code: &str) -> anyhow::Result<TaskView> {
        self.submit(json!({"repo": repo, "run": {"kind": "shell", "code": code}})).await
    }

    /// A task as it is now.
    ///
    /// # Errors
    /// When there is none.
    pub async fn task(&self, id: TaskId) -> anyhow::Result<TaskView> {
        self.get(&format!("/v1/tasks/{id}")).await?.value()
    }

    /// A task once it is done.
    ///
    /// # Errors
    /// When it is not within a minute, or the coordinator is away.
    pub async fn done(&self, id: TaskId) -> anyhow::Result<TaskView> {
        let task: TaskView = self.get(&format!("/v1/tasks/{id}?wait_s=60")).await?.value()?;
        ensure!(task.row.state.is_done(), "{id} is still {}", task.row.state);
        Ok(task)
    }

    /// A task once it is in that state.
    ///
    /// # Errors
    /// When it never is.
    pub async fn in_state(&self, id: TaskId, state: TaskState) -> anyhow::Result<TaskView> {
        eventually(&format!("{id} is {state}"), async || {
            Ok(Some(self.task(id).await?).filter(|task| task.row.state == state))
        })
        .await
    }

    /// A task once its output holds this text.
    ///
    /// # Errors
    /// When it never does.
    pub async fn wrote(&self, id: TaskId, text: &str) -> anyhow::Result<String> {
        eventually(&format!("{id} wrote {text}"), async || {
            let output = self.get(&format!("/v1/tasks/{id}/output?stream=stdout")).await?.text();
            Ok(Some(output).filter(|output| output.contains(text)))
        })
        .await
    }

    /// Asks to cancel a task.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn cancel(&self, id: TaskId) -> anyhow::Result<Answer> {
        self.send(Method::POST, &format!("/v1/tasks/{id}/cancel"), None).await
    }

    /// All events of a done task.
    ///
    /// # Errors
    /// When the stream breaks, or is none.
    pub async fn events(&self, id: TaskId) -> anyhow::Result<Vec<Event>> {
        let answer = self.get(&format!("/v1/tasks/{id}/events")).await?;
        ensure!(answer.status == 200, "refused: {}", answer.text());
        answer.text().split("\n\n").filter(|frame| frame.starts_with("id:")).map(read_frame).collect()
    }

    /// Every task of a repo, over all pages.
    ///
    /// # Errors
    /// When a page is refused.
    pub async fn all_tasks(&self, repo: &str) -> anyhow::Result<Vec<TaskId>> {
        let mut ids = Vec::new();
        let mut cursor = String::new();
        loop {
            let page: Value = self.get(&format!("/v1/tasks?repo={repo}&limit=500{cursor}")).await?.value()?;
            for item in page["items"].as_array().into_iter().flatten() {
                ids.push(item["id"].as_str().unwrap_or_default().parse()?);
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(ids),
            }
        }
    }

    /// Makes a worker's key for these repos.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn worker_key(&self, repos: &[&str]) -> anyhow::Result<CreatedKey> {
        self.post("/v1/keys", json!({"role": "worker", "repos": repos})).await?.value()
    }

    /// Waits until the coordinator has heard of a worker.
    ///
    /// # Errors
    /// When it never does.
    pub async fn knows_worker(&self, id: WorkerId) -> anyhow::Result<()> {
        eventually("the coordinator hears of the worker", async || {
            let page: Value = self.get("/v1/workers?limit=500").await?.value()?;
            let mut items = page["items"].as_array().into_iter().flatten();
            Ok(items.any(|item| item["id"] == id.to_string()).then_some(()))
        })
        .await
    }

    /// Sends a request until an answer comes that is not about the moment.
    ///
    /// # Errors
    /// When none comes within a minute.
    pub async fn insist(&self, send: impl AsyncFn(&Self) -> anyhow::Result<Answer>) -> anyhow::Result<Answer> {
        let patience = Duration::from_secs(60);
        eventually_within(patience, "an answer", async || Ok(send(self).await.ok().filter(|a| a.status < 500))).await
    }
}

fn read_frame(frame: &str) -> anyhow::Result<Event> {
    let mut event = Event { number: 0, kind: String::new(), data: Value::Null };
    for line in frame.lines() {
        match line.split_once(": ") {
            Some(("id", number)) => event.number = number.parse()?,
            Some(("event", kind)) => kind.clone_into(&mut event.kind),
            Some(("data", data)) => event.data = serde_json::from_str(data)?,
            _ => bail!("not a line of an event: {line}"),
        }
    }
    Ok(event)
}
