//! What clients do with sessions as a whole: make, list, fork, keep and bring back, delete, and run a command in one.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use protocol::path::VirtualPath;
use protocol::task::Page;
use protocol::workspace::{Exec, Fork, NewSession, NewSnapshot, Restore, Restored, SessionView, SnapshotView, Usage};
use protocol::{Code, RepoName, SessionName, TaskId};

use super::App;
use super::auth::Caller;
use super::body::{InPath, Message, Query, valid};
use super::error::Refusal;
use super::tasks::Label;
use crate::store::{SessionFilter, SessionToMake};
use crate::workspace::{Executed, View};

type Answer<T> = Result<T, Refusal>;

/// The header that says which task a command was.
const TASK_HEADER: &str = "cw-task";

/// A session that the caller may see, at its newest version or as a snapshot was.
pub(super) async fn visible(
    app: &App,
    caller: &Caller,
    session: SessionName,
    snapshot: Option<String>,
) -> Answer<View> {
    caller.client()?;
    let view = app.queue.view(session, snapshot).await?;
    covered(caller, &view.session)?;
    Ok(view)
}

fn covered(caller: &Caller, session: &SessionView) -> Answer<()> {
    let is_covered = session.repo.as_ref().map_or(caller.key.repos.is_empty(), |repo| caller.covers(repo).is_ok());
    if is_covered {
        return Ok(());
    }
    // Whose it is instead is nobody's business.
    Err(Refusal::new(Code::WrongRepo, format!("this key is not for the repo of the session {}", session.session)))
}

/// The repo of a session that the caller is about to make by its first use.
pub(super) fn first_repo(caller: &Caller) -> Answer<Option<RepoName>> {
    match caller.key.repos.as_slice() {
        [] => Ok(None),
        [repo] => Ok(Some(repo.clone())),
        _ => Err(Refusal::new(
            Code::NotFound,
            "no such session, and this key is for several repos: create it first, by POST /v1/workspaces, with its `repo`",
        )),
    }
}

/// `POST /v1/workspaces`
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Message(new): Message<NewSession>,
) -> Answer<(StatusCode, Json<SessionView>)> {
    caller.client()?;
    let new = valid(new, NewSession::check)?;
    let repo = match new.repo {
        Some(repo) => {
            caller.covers(&repo)?;
            Some(repo)
        }
        None => first_repo(&caller)?,
    };
    if let Some(there) = app.queue.store.session(new.session.clone(), app.queue.rules.clone()).await? {
        covered(&caller, &there.view)?;
    }
    let new = SessionToMake { name: new.session, repo, labels: new.labels, quota_bytes: new.quota_bytes };
    let made = app.queue.store.create_session(new, app.queue.rules.clone(), app.queue.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(made.view)))
}

/// `GET /v1/workspaces`
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    mut query: Query,
) -> Answer<Json<Page<SessionView>>> {
    caller.client()?;
    let repos = match query.take::<RepoName>("repo")? {
        Some(repo) => {
            caller.covers(&repo)?;
            vec![repo]
        }
        None => caller.key.repos.clone(),
    };
    let filter = SessionFilter {
        repos,
        label: query.take::<Label>("label")?.map(|label| (label.0, label.1)),
        after: query.take("cursor")?,
        limit: query.take_number("limit", 1..=500, 50)?,
    };
    query.finish()?;
    let (items, is_more) = app.queue.store.sessions(filter, app.queue.rules.clone()).await?;
    let next_cursor = items.last().filter(|_| is_more).map(|last| last.session.to_string());
    Ok(Json(Page { items, next_cursor }))
}

/// `GET /v1/workspaces/{session}`
pub(super) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
) -> Answer<Json<SessionView>> {
    Ok(Json(visible(&app, &caller, session, None).await?.session))
}

/// `DELETE /v1/workspaces/{session}`
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
) -> Answer<Json<SessionView>> {
    let view = visible(&app, &caller, session.clone(), None).await?;
    app.queue.store.delete_session(session).await?;
    tracing::info!(session = %view.session.session, by = %caller.key.id, "deleted a session");
    Ok(Json(view.session))
}

/// `GET /v1/workspaces/{session}/usage`
pub(super) async fn usage(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
) -> Answer<Json<Usage>> {
    let SessionView { session, version, used_bytes, allowed_bytes, entries, .. } =
        visible(&app, &caller, session, None).await?.session;
    Ok(Json(Usage { session, version, used_bytes, allowed_bytes, entries }))
}

/// `GET /v1/workspaces/{session}/snapshots`
pub(super) async fn snapshots(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
) -> Answer<Json<Page<SnapshotView>>> {
    visible(&app, &caller, session.clone(), None).await?;
    Ok(Json(Page { items: app.queue.store.snapshots(session).await?, next_cursor: None }))
}

/// `POST /v1/workspaces/{session}/snapshots`
pub(super) async fn keep_snapshot(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    Message(new): Message<NewSnapshot>,
) -> Answer<(StatusCode, Json<SnapshotView>)> {
    visible(&app, &caller, session.clone(), None).await?;
    let new = valid(new, NewSnapshot::check)?;
    let kept = app.queue.store.keep_snapshot(session, new.name, app.queue.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(kept)))
}

/// `DELETE /v1/workspaces/{session}/snapshots/{name}`
pub(super) async fn forget_snapshot(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((session, name)): Path<(String, String)>,
) -> Answer<StatusCode> {
    let session: SessionName = session.parse().map_err(|error| Refusal::new(Code::InvalidId, format!("{error}")))?;
    visible(&app, &caller, session.clone(), None).await?;
    app.queue.store.forget_snapshot(session, name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/workspaces/{session}/fork`
pub(super) async fn fork(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    Message(fork): Message<Fork>,
) -> Answer<(StatusCode, Json<SessionView>)> {
    visible(&app, &caller, session.clone(), None).await?;
    let fork = valid(fork, Fork::check)?;
    let new = SessionToMake { name: fork.session, repo: None, labels: fork.labels, quota_bytes: None };
    let asked = (caller.key.id.to_string(), app.queue.rules.clone(), app.queue.clock.now());
    let made = app.queue.store.fork_session(session, new, fork.snapshot, asked).await?;
    Ok((StatusCode::CREATED, Json(made.view)))
}

/// `POST /v1/workspaces/{session}/restore`
pub(super) async fn restore(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    Message(restore): Message<Restore>,
) -> Answer<Json<Restored>> {
    visible(&app, &caller, session.clone(), None).await?;
    let asked = (caller.key.id.to_string(), app.queue.rules.clone(), app.queue.clock.now());
    Ok(Json(app.queue.store.restore(session, restore.snapshot, asked).await?))
}

/// `POST /v1/workspaces/{session}/exec`
pub(super) async fn exec(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    Message(exec): Message<Exec>,
) -> Answer<Response> {
    caller.client()?;
    let exec = valid(exec, Exec::check)?;
    let cwd: VirtualPath = exec.cwd.as_deref().unwrap_or_default().parse()?;
    let repo = repo_of(&app, &caller, &session, exec.repo.clone()).await?;
    let spec = valid(crate::workspace::spec(session, repo, &exec, &cwd), protocol::Spec::check)?;
    let (task, mut answer) = match crate::workspace::execute(app.queue.clone(), spec).await? {
        Executed::Done(done) => (done.task, Json(*done).into_response()),
        Executed::NotTaken(task) => {
            let detail =
                "no worker took the command in time, so it was cancelled; `why` of its task says what was missing";
            (task, Refusal::new(Code::Unavailable, detail).of(task).into_response())
        }
        Executed::NotEnded(task) => {
            let detail = "the command did not end in time and is being cancelled; its task says what became of it";
            (task, Refusal::new(Code::Unavailable, detail).of(task).into_response())
        }
    };
    name_task(&mut answer, task);
    Ok(answer)
}

/// The repo whose workers run a command: the session's, else the one that was asked for, else the key's only one.
async fn repo_of(app: &App, caller: &Caller, session: &SessionName, asked: Option<RepoName>) -> Answer<RepoName> {
    let found = app.queue.store.session(session.clone(), app.queue.rules.clone()).await?;
    if let Some(found) = &found {
        covered(caller, &found.view)?;
    }
    let owner = found.and_then(|found| found.view.repo);
    let repo = match (owner, asked) {
        (Some(owner), Some(asked)) if owner != asked => {
            return Err(Refusal::new(Code::WrongRepo, format!("the session {session} belongs to another repo")));
        }
        (Some(repo), _) | (None, Some(repo)) => Some(repo),
        (None, None) => first_repo(caller)?,
    };
    let missing =
        || protocol::Invalid::new("repo", "the session belongs to no repo yet: say whose workers run the command");
    let repo = repo.ok_or_else(missing)?;
    caller.covers(&repo)?;
    Ok(repo)
}

fn name_task(answer: &mut Response, task: TaskId) {
    if let Ok(value) = HeaderValue::try_from(task.to_string()) {
        answer.headers_mut().insert(TASK_HEADER, value);
    }
}
