//! What workers do with the workspace of a lease: lay it out, fetch what they lack, bring what changed.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use protocol::workspace::{BlobsRequest, Staged};
use protocol::{Code, LeaseId};
use tokio_stream::wrappers::ReceiverStream;

use super::App;
use super::auth::Caller;
use super::body::{Capped, InPath, Query, decode, discard};
use super::content::Pieces;
use super::error::Refusal;
use super::leases::holder;
use crate::workspace::{Intake, check_out, contents};

type Answer<T> = Result<T, Refusal>;

/// A list of sums: about fifteen thousand.
const MAX_SUMS_BYTES: usize = 1 << 20;

/// A stream of this type.
pub(super) fn streamed(pieces: crate::workspace::Pieces, kind: &'static str) -> Response {
    let mut response = Body::from_stream(ReceiverStream::new(pieces)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// `GET /v1/leases/{id}/workspace`
pub(super) async fn manifest(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<LeaseId>,
    mut query: Query,
) -> Answer<Response> {
    let holder = holder(&caller, id)?;
    let since = query.take::<u64>("since")?;
    query.finish()?;
    Ok(streamed(check_out(app.queue.clone(), holder, since).await?, "application/x-ndjson"))
}

/// `POST /v1/leases/{id}/workspace/blobs`
pub(super) async fn blobs(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<LeaseId>,
    Capped(body): Capped<MAX_SUMS_BYTES>,
) -> Answer<Response> {
    let holder = holder(&caller, id)?;
    let wanted: BlobsRequest = decode(&body)?;
    Ok(streamed(contents(app.queue.clone(), holder, wanted.sha256).await?, "application/octet-stream"))
}

/// `PUT /v1/leases/{id}/workspace/stage`
pub(super) async fn stage(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<LeaseId>,
    mut query: Query,
    request: Request,
) -> Answer<Json<Staged>> {
    let holder = holder(&caller, id)?;
    let base = query.take::<u64>("base")?;
    query.finish()?;
    let base =
        base.ok_or_else(|| Refusal::new(Code::InvalidQuery, "`base` is missing: the version of the manifest"))?;
    let body = request.into_body();
    let Some(turn) = app.queue.uploading.begin(holder.lease) else {
        discard(body);
        return Err(Refusal::new(Code::Conflict, "the lease uploads something else right now: one at a time"));
    };
    let mut pieces = Pieces::new(&app, body);
    let mut intake = match Intake::begin(app.queue.clone(), holder, base).await {
        Ok(intake) => intake,
        Err(error) => {
            pieces.discard();
            return Err(error.into());
        }
    };
    while let Some(piece) = pieces.next().await? {
        if let Err(error) = intake.take(&piece).await {
            pieces.discard();
            return Err(error.into());
        }
    }
    let staged = intake.finish().await;
    drop(turn);
    Ok(Json(staged?))
}
