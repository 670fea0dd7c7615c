//! What workers do with leases. Everything that a worker sends is untrusted; unknown fields are ignored, because a newer
//! worker may say more.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::event::EventsAccepted;
use protocol::lease::{LeaseEnded, LeaseRequest, Release, Renew, Renewed};
use protocol::{EventBatch, LeaseId};

use super::App;
use super::auth::Caller;
use super::body::{Capped, InPath, MAX_REPORT_BYTES, Message, decode, valid};
use super::error::Refusal;
use crate::lifecycle::Holder;

type Answer<T> = Result<T, Refusal>;

/// `POST /v1/leases`
pub(super) async fn lease(
    State(app): State<Arc<App>>,
    caller: Caller,
    Message(request): Message<LeaseRequest>,
) -> Answer<Response> {
    caller.worker()?;
    let mut request = valid(request, LeaseRequest::check)?;
    request.repos.iter().try_for_each(|repo| caller.covers(repo))?;
    request.repos.sort();
    request.repos.dedup();
    let is_welcome = || caller.again(&app).is_ok_and(|caller| caller.worker().is_ok());
    if let Some(grant) = app.queue.lease(request, caller.key.id, is_welcome).await? {
        return Ok(Json(grant).into_response());
    }
    caller.again(&app)?.worker()?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) fn holder(caller: &Caller, lease: LeaseId) -> Answer<Holder> {
    caller.holder()?;
    Ok(Holder { lease, key: caller.key.id })
}

/// `POST /v1/leases/{id}/renew`
pub(super) async fn renew(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<LeaseId>,
    Message(renew): Message<Renew>,
) -> Answer<Json<Renewed>> {
    Ok(Json(app.queue.renew(holder(&caller, id)?, renew.wait_s).await?))
}

/// `POST /v1/leases/{id}/events`
pub(super) async fn events(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<LeaseId>,
    Message(batch): Message<EventBatch>,
) -> Answer<Json<EventsAccepted>> {
    let appended = app.queue.append(holder(&caller, id)?, batch.events).await?;
    Ok(Json(EventsAccepted { accepted: appended.accepted }))
}

/// `PUT /v1/leases/{id}/report`
pub(super) async fn report(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<LeaseId>,
    Capped(body): Capped<MAX_REPORT_BYTES>,
) -> Answer<Json<LeaseEnded>> {
    Ok(Json(app.queue.report(holder(&caller, id)?, decode(&body)?).await?))
}

/// `POST /v1/leases/{id}/release`
pub(super) async fn release(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<LeaseId>,
    Message(release): Message<Release>,
) -> Answer<Json<LeaseEnded>> {
    let holder = holder(&caller, id)?;
    let ended = app.queue.release(holder).await?;
    tracing::info!(task = %ended.task, lease = %id, reason = release.reason.unwrap_or_default(), "given back");
    Ok(Json(ended))
}
