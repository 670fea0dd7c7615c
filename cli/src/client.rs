//! The coordinator's routes, one function each. Never prints.

mod transport;
mod workspaces;

use protocol::admin::{CreatedKey, KeyView, NewKey, RepoChange, RepoView, Version, WorkerView};
use protocol::path::RelativePath;
use protocol::task::Page;
use protocol::why::Why;
use protocol::{KeyId, RepoName, Spec, Stream, TaskId, TaskView};
use reqwest::{Method, Response};

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::task_id::TASK;
pub(crate) use transport::{Call, Client, Content, Received, Repeat};
pub(crate) use workspaces::{Condition, FileQuery, Source};

/// Which tasks or sessions a list shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageQuery {
    /// Names and values as the route takes them; absent ones are left out.
    pub(crate) filters: Vec<(&'static str, String)>,
    /// How many on one page, 500 at most.
    pub(crate) limit: u32,
    /// Where the page begins.
    pub(crate) cursor: Option<String>,
}

impl Client {
    /// Submits a task. The same key makes a repeat harmless.
    pub(crate) async fn submit(&self, spec: &Spec, idempotency_key: &str) -> Result<Received<TaskView>> {
        let call = Call::new(Method::POST, "/v1/tasks").json(spec)?.header("idempotency-key", idempotency_key);
        self.receive(call).await
    }

    /// A task as it stands.
    pub(crate) async fn task(&self, id: TaskId) -> Result<Received<TaskView>> {
        self.receive(Call::get(format!("/v1/tasks/{id}"))).await.map_err(|failure| about(id, failure))
    }

    /// One page of tasks.
    pub(crate) async fn tasks(&self, query: &PageQuery) -> Result<Received<Page<TaskView>>> {
        let mut call = Call::get("/v1/tasks").query("limit", query.limit);
        for (name, value) in &query.filters {
            call = call.query(name, value);
        }
        if let Some(cursor) = &query.cursor {
            call = call.query("cursor", cursor);
        }
        self.receive(call).await
    }

    /// Asks for a task to end. Done already is no success, unless it is cancelled.
    pub(crate) async fn cancel(&self, id: TaskId) -> Result<Received<TaskView>> {
        self.receive(Call::new(Method::POST, format!("/v1/tasks/{id}/cancel")))
            .await
            .map_err(|failure| about(id, failure))
    }

    /// Why a task is where it is.
    pub(crate) async fn why(&self, id: TaskId) -> Result<Received<Why>> {
        self.receive(Call::get(format!("/v1/tasks/{id}/why"))).await.map_err(|failure| about(id, failure))
    }

    /// The events of a task after that number, as a stream that lasts until the task is done.
    pub(crate) async fn events(&self, id: TaskId, after: u64) -> Result<Response> {
        let call = Call::get(format!("/v1/tasks/{id}/events")).header("accept", "text/event-stream");
        self.stream(call.header("last-event-id", &after.to_string())).await
    }

    /// What the newest attempt wrote, as it wrote it.
    pub(crate) async fn output(&self, id: TaskId, stream: Stream) -> Result<Response> {
        self.stream(Call::get(format!("/v1/tasks/{id}/output")).query("stream", stream.as_str())).await
    }

    /// A file that came of a task.
    pub(crate) async fn artifact(&self, id: TaskId, path: &RelativePath) -> Result<Response> {
        let path = encoded(path.as_str());
        self.stream(Call::get(format!("/v1/tasks/{id}/artifacts/{path}"))).await
    }

    /// Workers, by page.
    pub(crate) async fn workers(&self) -> Result<Received<Page<WorkerView>>> {
        self.receive(Call::get("/v1/workers").query("limit", 500)).await
    }

    /// Repos, by page.
    pub(crate) async fn repos(&self) -> Result<Received<Page<RepoView>>> {
        self.receive(Call::get("/v1/repos").query("limit", 500)).await
    }

    /// Changes how a repo is served.
    pub(crate) async fn set_repo(&self, repo: &RepoName, change: &RepoChange) -> Result<Received<RepoView>> {
        self.receive(Call::new(Method::PATCH, format!("/v1/repos/{repo}")).json(change)?).await
    }

    /// Makes a key. A repeat would make another, so it is sent again only when it cannot have arrived.
    pub(crate) async fn create_key(&self, key: &NewKey) -> Result<Received<CreatedKey>> {
        self.receive(Call::new(Method::POST, "/v1/keys").json(key)?.repeat(Repeat::OnlyUnsent)).await
    }

    /// Keys, by page.
    pub(crate) async fn keys(&self, limit: u32) -> Result<Received<Page<KeyView>>> {
        self.receive(Call::get("/v1/keys").query("limit", limit)).await
    }

    /// Takes a key back.
    pub(crate) async fn revoke_key(&self, id: KeyId) -> Result<Received<KeyView>> {
        self.receive(Call::new(Method::DELETE, format!("/v1/keys/{id}"))).await
    }

    /// What runs there.
    pub(crate) async fn version(&self) -> Result<Received<Version>> {
        self.receive(Call::get("/version").repeat(Repeat::Never)).await
    }

    /// Whether it takes requests; with the clock of its machine, when it says.
    pub(crate) async fn ready(&self) -> Result<Option<String>> {
        let answer = self.stream(Call::get("/readyz").repeat(Repeat::Never)).await?;
        Ok(answer.headers().get("date").and_then(|date| date.to_str().ok()).map(str::to_owned))
    }
}

/// A path as it stands in an address.
fn encoded(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encode = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(encode).collect()
}

/// Names the task that a refusal is about.
fn about(id: TaskId, failure: Failure) -> Failure {
    match failure.exit {
        Exit::NOT_FOUND => Failure { request_id: failure.request_id, ..TASK.missing(&id.to_string()) },
        Exit::CONFLICT => Failure { message: format!("{id}: {}", failure.message), ..failure },
        _ => failure,
    }
}
