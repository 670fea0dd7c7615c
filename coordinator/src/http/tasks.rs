//! What clients do with tasks.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::task::Page;
use protocol::why::Why;
use protocol::{Code, RepoName, SessionName, Spec, Stream, TaskId, TaskState, WorkerId};
use sha2::{Digest as _, Sha256};

use super::App;
use super::auth::Caller;
use super::body::{Capped, InPath, MAX_SUBMISSION_BYTES, Query, decode, valid};
use super::error::Refusal;
use crate::store::{Filter, Idempotency, ListedTask, OutputPart, StoredTask};

const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

type Answer<T> = Result<T, Refusal>;

/// `POST /v1/tasks`
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Capped(body): Capped<MAX_SUBMISSION_BYTES>,
) -> Answer<(StatusCode, Json<StoredTask>)> {
    caller.client()?;
    let spec = valid(decode::<Spec>(&body)?, Spec::check)?;
    caller.covers(&spec.repo)?;
    let idempotency = idempotency(&caller, &headers, &body)?;
    Ok((StatusCode::CREATED, Json(app.queue.submit(spec, idempotency).await?)))
}

fn idempotency(caller: &Caller, headers: &HeaderMap, body: &Bytes) -> Answer<Option<Idempotency>> {
    let Some(name) = headers.get("idempotency-key") else { return Ok(None) };
    let name = name.to_str().ok().filter(|name| (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&name.len()));
    let Some(name) = name else {
        return Err(Refusal::new(Code::InvalidHeader, "Idempotency-Key has 1 to 255 visible ASCII characters"));
    };
    Ok(Some(Idempotency { key: caller.key.id, name: name.to_owned(), body: Sha256::digest(body).into() }))
}

/// A task that the caller may see.
pub(super) async fn visible(app: &App, caller: &Caller, id: TaskId, wait_s: u32) -> Answer<StoredTask> {
    caller.client()?;
    let task = app.queue.task(id, 0).await?;
    caller.covers(&task.row.repo)?;
    if wait_s == 0 || task.row.state.is_done() {
        return Ok(task);
    }
    let task = app.queue.task(id, wait_s).await?;
    caller.again(app)?.client()?;
    Ok(task)
}

/// `GET /v1/tasks/{id}`
pub(super) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<TaskId>,
    mut query: Query,
) -> Answer<Json<StoredTask>> {
    let wait_s = query.take_number("wait_s", 0..=60, 0)?;
    query.finish()?;
    visible(&app, &caller, id, wait_s).await.map(Json)
}

/// `GET /v1/tasks`
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    mut query: Query,
) -> Answer<Json<Page<ListedTask>>> {
    caller.client()?;
    let filter = filter(&caller, &mut query)?;
    query.finish()?;
    let (items, next) = app.queue.store.list(filter).await?;
    Ok(Json(Page { items, next_cursor: next.map(|seq| seq.to_string()) }))
}

fn filter(caller: &Caller, query: &mut Query) -> Answer<Filter> {
    let repos = match query.take::<RepoName>("repo")? {
        Some(repo) => {
            caller.covers(&repo)?;
            vec![repo]
        }
        None => caller.key.repos.clone(),
    };
    Ok(Filter {
        repos,
        state: query.take::<Word>("state")?.map(|word| word.0),
        session: query.take::<SessionName>("session")?,
        label: query.take::<Label>("label")?.map(|label| (label.0, label.1)),
        worker: query.take::<WorkerId>("worker")?,
        before: query.take::<i64>("cursor")?,
        limit: query.take_number("limit", 1..=500, 50)?,
    })
}

struct Word(TaskState);

impl std::str::FromStr for Word {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<_> = TaskState::ALL.iter().map(|state| state.as_str()).collect();
        TaskState::from_word(text).map(Self).ok_or_else(|| format!("expected one of {}", words.join(", ")))
    }
}

pub(super) struct Label(pub(super) String, pub(super) String);

impl std::str::FromStr for Label {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (name, value) = text.split_once('=').ok_or("expected name=value")?;
        Ok(Self(name.to_owned(), value.to_owned()))
    }
}

/// `POST /v1/tasks/{id}/cancel`
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<TaskId>,
) -> Answer<Json<StoredTask>> {
    visible(&app, &caller, id, 0).await?;
    app.queue.cancel(id).await?;
    Ok(Json(app.queue.task(id, 0).await?))
}

/// `GET /v1/tasks/{id}/why`
pub(super) async fn why(State(app): State<Arc<App>>, caller: Caller, InPath(id): InPath<TaskId>) -> Answer<Json<Why>> {
    visible(&app, &caller, id, 0).await?;
    Ok(Json(app.queue.why(id).await?))
}

/// `GET /v1/tasks/{id}/output`
pub(super) async fn output(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<TaskId>,
    mut query: Query,
) -> Answer<Response> {
    let stream = match query.take::<String>("stream")?.as_deref() {
        None | Some("stdout") => Stream::Stdout,
        Some("stderr") => Stream::Stderr,
        Some(_) => return Err(Refusal::new(Code::InvalidQuery, "`stream` is stdout or stderr")),
    };
    query.finish()?;
    visible(&app, &caller, id, 0).await?;
    let first = OutputPart { id, stream, after: 0 };
    let pieces = super::events::pages(first, move |part| {
        let app = app.clone();
        async move { output_page(&app, part).await }
    });
    let mut response = Body::from_stream(pieces).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}

/// One piece of output and where the next begins.
async fn output_page(app: &App, part: OutputPart) -> Option<(Result<Bytes, std::io::Error>, Option<OutputPart>)> {
    match app.queue.store.output(part).await {
        Ok(found) => {
            let last = found.last()?.0;
            let bytes: Vec<u8> = found.into_iter().flat_map(|(_, bytes)| bytes).collect();
            Some((Ok(bytes.into()), Some(OutputPart { after: last, ..part })))
        }
        Err(error) => Some((Err(std::io::Error::other(error)), None)),
    }
}
