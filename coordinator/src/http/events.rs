//! Streams of server-sent events: everything that happened to a task, or every state change of the queue. What was missed is
//! replayed first, from the number that the client saw last; only stored events carry a number.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use protocol::{Code, RepoName, TaskId};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;

use super::App;
use super::auth::Caller;
use super::body::{InPath, Query};
use super::error::Refusal;
use crate::store::StoredEvent;

/// Events that are read at once.
const PAGE: u32 = 256;
/// A stream that is silent for longer may be cut by whatever is in between.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a client may take to read what it was sent; one that resumes loses nothing.
const SLOWEST_READ: Duration = Duration::from_secs(60);
/// What is said then; clients pass over it.
pub const COMMENT: &str = ": still here\n\n";

/// `GET /v1/tasks/{id}/events`
pub(super) async fn of_task(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    InPath(id): InPath<TaskId>,
    mut query: Query,
) -> Result<Response, Refusal> {
    let after = after(&headers, &mut query)?.unwrap_or(0);
    query.finish()?;
    super::tasks::visible(&app, &caller, id, 0).await?;
    Ok(stream(move |pieces| async move { tell_task(&app, &caller, id, after, &pieces).await }))
}

/// `GET /v1/events`: from now on, unless the client says from where.
pub(super) async fn of_all(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    mut query: Query,
) -> Result<Response, Refusal> {
    caller.client()?;
    let repos = match query.take::<RepoName>("repo")? {
        Some(repo) => {
            caller.covers(&repo)?;
            vec![repo]
        }
        None => caller.key.repos.clone(),
    };
    let after = match after(&headers, &mut query)? {
        Some(after) => after,
        None => app.queue.store.newest_feed().await?,
    };
    query.finish()?;
    Ok(stream(move |pieces| async move { tell_all(&app, &caller, repos, after, &pieces).await }))
}

/// The number that the client saw last: its browser says it by a header, others by a parameter.
fn after(headers: &HeaderMap, query: &mut Query) -> Result<Option<u64>, Refusal> {
    let bad = || Refusal::new(Code::InvalidHeader, "Last-Event-ID is not a number");
    let parameter = query.take::<u64>("after")?;
    let header = headers.get("last-event-id").map(|id| id.to_str().ok().and_then(|id| id.parse().ok()).ok_or_else(bad));
    Ok(header.transpose()?.or(parameter).map(|after: u64| after.min(i64::MAX.unsigned_abs())))
}

/// The way to a client; it is closed when the client is gone.
type Pieces = tokio::sync::mpsc::Sender<Result<Bytes, std::convert::Infallible>>;

/// Answers with what a teller sends, a piece ahead of the client at most.
fn stream<Telling: Future<Output = ()> + Send + 'static>(tell: impl FnOnce(Pieces) -> Telling) -> Response {
    let (pieces, told) = tokio::sync::mpsc::channel(1);
    tokio::spawn(tell(pieces));
    let mut response = Body::from_stream(ReceiverStream::new(told)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// False when the client is gone, or reads so slowly that it may as well be.
async fn say(pieces: &Pieces, text: String) -> bool {
    matches!(tokio::time::timeout(SLOWEST_READ, pieces.send(Ok(text.into()))).await, Ok(Ok(())))
}

/// A stream that goes on after its key was taken back would tell what nobody may hear any more.
fn may_hear(app: &App, caller: &Caller) -> bool {
    caller.again(app).is_ok_and(|caller| caller.client().is_ok())
}

async fn tell_task(app: &App, caller: &Caller, id: TaskId, mut after: u64, pieces: &Pieces) {
    let mut watch = app.queue.wakeup.watch(id);
    loop {
        if !may_hear(app, caller) {
            return;
        }
        let Ok(page) = app.queue.store.events(id, after, PAGE).await else { return };
        if page.events.is_empty() {
            // A client that saw the last state already gets an empty stream.
            if page.is_over || !wait(app, pieces, watch.changed()).await {
                return;
            }
            continue;
        }
        after = page.events.last().map_or(after, |event| event.number);
        if !say(pieces, framed(&page.events)).await || page.is_over {
            return;
        }
    }
}

async fn tell_all(app: &App, caller: &Caller, repos: Vec<RepoName>, mut after: u64, pieces: &Pieces) {
    let mut watch = app.queue.wakeup.watch_feed();
    loop {
        let Ok(events) = app.queue.store.feed(repos.clone(), after, PAGE).await else { return };
        if !may_hear(app, caller) {
            return;
        }
        let is_more = !events.is_empty();
        after = events.last().map_or(after, |event| event.number);
        let wanted: Vec<_> = events.into_iter().filter(|event| !event.data.is_empty()).collect();
        if !wanted.is_empty() && !say(pieces, framed(&wanted)).await {
            return;
        }
        let changed = async { drop(watch.changed().await) };
        if !is_more && !wait(app, pieces, changed).await {
            return;
        }
    }
}

/// Waits for a change; keeps the stream alive meanwhile. False when it is time to end.
async fn wait(app: &App, pieces: &Pieces, change: impl Future<Output = ()>) -> bool {
    tokio::pin!(change);
    loop {
        tokio::select! {
            () = &mut change => return true,
            () = app.queue.shutdown.requested() => return false,
            () = pieces.closed() => return false,
            () = tokio::time::sleep(KEEP_ALIVE) => {
                if !say(pieces, COMMENT.into()).await {
                    return false;
                }
            }
        }
    }
}

fn framed(events: &[StoredEvent]) -> String {
    let frame = |event: &StoredEvent| format!("id: {}\nevent: {}\ndata: {}\n\n", event.number, event.kind, event.data);
    events.iter().map(frame).collect()
}

/// A stream that asks for one page after another until there is none.
pub(super) fn pages<At, T, Asked>(
    first: At,
    ask: impl Fn(At) -> Asked + Send + 'static,
) -> impl Stream<Item = T> + Send + 'static
where
    At: Send + 'static,
    T: Send + 'static,
    Asked: Future<Output = Option<(T, Option<At>)>> + Send + 'static,
{
    let (sender, receiver) = tokio::sync::mpsc::channel(2);
    tokio::spawn(async move {
        let mut at = Some(first);
        while let Some(here) = at {
            let Some((page, next)) = ask(here).await else { return };
            if sender.send(page).await.is_err() {
                return;
            }
            at = next;
        }
    });
    ReceiverStream::new(receiver)
}
