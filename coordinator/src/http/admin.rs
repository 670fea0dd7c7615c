//! What operators do: keys, workers, repos.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use protocol::admin::{CreatedKey, KeyView, NewKey, RepoChange, RepoView, WorkerView};
use protocol::task::Page;
use protocol::{Code, KeyId, RepoName};

use super::App;
use super::auth::Caller;
use super::body::{InPath, Message, Query, valid};
use super::error::Refusal;
use crate::key;

type Answer<T> = Result<T, Refusal>;

/// `POST /v1/keys`
pub(super) async fn create_key(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Message(new): Message<NewKey>,
) -> Answer<(StatusCode, Json<CreatedKey>)> {
    caller.admin()?;
    if headers.contains_key("idempotency-key") {
        return Err(Refusal::new(
            Code::InvalidHeader,
            "a key is shown once, so its creation cannot be repeated: send no Idempotency-Key",
        ));
    }
    let new = valid(new, NewKey::check)?;
    let now = app.queue.clock.now();
    let secret = key::new_secret().map_err(|error| Refusal::new(Code::Internal, format!("no randomness: {error}")))?;
    let hash = key::hash(secret.as_bytes());
    let random = hash.iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    let view = KeyView {
        id: KeyId::new(now.at.as_ms().unsigned_abs(), random),
        role: new.role,
        repos: new.repos,
        name: new.name,
        created_at: now.wall,
        expires_at: new.ttl_s.map(|ttl_s| now.wall.plus_s(ttl_s)),
        revoked_at: None,
    };
    app.queue.store.add_key(view.clone(), hash).await?;
    app.keys.add(view.clone(), hash);
    tracing::info!(key = %view.id, role = view.role.as_str(), by = %caller.key.id, "made a key");
    Ok((StatusCode::CREATED, Json(CreatedKey { view, key: secret })))
}

/// `GET /v1/keys`
pub(super) async fn keys(State(app): State<Arc<App>>, caller: Caller, query: Query) -> Answer<Json<Page<KeyView>>> {
    caller.admin()?;
    page(query, app.keys.list(), |key| key.id.to_string())
}

/// `DELETE /v1/keys/{id}`
pub(super) async fn revoke_key(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<KeyId>,
) -> Answer<Json<KeyView>> {
    caller.admin()?;
    let at = app.queue.clock.now().wall;
    let revoked = app.queue.store.revoke_key(id, at).await?;
    let Some(revoked) = revoked else { return Err(Refusal::new(Code::NotFound, "no such key")) };
    app.keys.revoke(id, at);
    tracing::info!(key = %id, by = %caller.key.id, "revoked a key");
    Ok(Json(revoked))
}

/// `GET /v1/workers`
pub(super) async fn workers(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: Query,
) -> Answer<Json<Page<WorkerView>>> {
    caller.admin()?;
    let running = app.queue.store.running_workers().await?;
    page(query, app.queue.workers.views(&running, app.queue.clock.now().at), |worker| worker.id.to_string())
}

/// `GET /v1/repos`
pub(super) async fn repos(State(app): State<Arc<App>>, caller: Caller, query: Query) -> Answer<Json<Page<RepoView>>> {
    caller.admin()?;
    page(query, app.queue.store.repos().await?, |repo| repo.repo.to_string())
}

/// `GET /v1/repos/{repo}`
pub(super) async fn repo(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(repo): InPath<RepoName>,
) -> Answer<Json<RepoView>> {
    caller.admin()?;
    Ok(Json(app.queue.store.repo(repo).await?))
}

/// `PATCH /v1/repos/{repo}`
pub(super) async fn change_repo(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(repo): InPath<RepoName>,
    Message(change): Message<RepoChange>,
) -> Answer<Json<RepoView>> {
    caller.admin()?;
    let change = valid(change, RepoChange::check)?;
    let view = app.queue.store.change_repo(repo.clone(), change).await?;
    // A repo that was closed may be open now.
    app.queue.wake_for(vec![repo]).await?;
    Ok(Json(view))
}

/// A page of a short list whose rows are found again by their id.
fn page<T>(mut query: Query, rows: Vec<T>, id: impl Fn(&T) -> String) -> Answer<Json<Page<T>>> {
    let limit = query.take_number("limit", 1..=500, 50)? as usize;
    let cursor = query.take::<String>("cursor")?;
    query.finish()?;
    let start = match cursor {
        None => 0,
        Some(cursor) => rows.iter().position(|row| id(row) == cursor).map_or(rows.len(), |place| place + 1),
    };
    let is_more = rows.len() > start + limit;
    let items: Vec<T> = rows.into_iter().skip(start).take(limit).collect();
    let next_cursor = items.last().filter(|_| is_more).map(&id);
    Ok(Json(Page { items, next_cursor }))
}
