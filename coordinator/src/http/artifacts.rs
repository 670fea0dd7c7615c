//! Files of tasks: workers bring them while their lease lives, clients fetch them once the task is done. They pass from
//! and to the disk piece by piece and are never in memory as a whole.

use std::io;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::artifact::{Uploaded, media_type};
use protocol::path::RelativePath;
use protocol::{Code, LeaseId, TaskId, TaskResult};

use super::App;
use super::auth::Caller;
use super::body::{InPath, Query, discard, is_too_long, too_large};
use super::content::{content, harmless, receive};
use super::error::Refusal;
use crate::objects::Reading;
use crate::store::{StoreError, StoredArtifact, StoredTask};

type Answer<T> = Result<T, Refusal>;

/// `POST /v1/leases/{id}/uploads`
pub(super) async fn upload(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(id): InPath<LeaseId>,
    mut query: Query,
    request: Request,
) -> Answer<Json<Uploaded>> {
    let holder = super::leases::holder(&caller, id)?;
    let path = query.take::<RelativePath>("path")?;
    query.finish()?;
    let path = path.ok_or_else(|| Refusal::new(Code::InvalidQuery, "`path` is missing: where the file was"))?;
    let (parts, body) = request.into_parts();
    let room = match app.queue.upload_room(holder, path.clone()).await {
        Ok(room) => room,
        Err(error) => {
            discard(body);
            return Err(error.into());
        }
    };
    let Some(turn) = app.queue.uploading.begin(holder.lease) else {
        discard(body);
        return Err(Refusal::new(Code::Conflict, "the lease uploads another file right now: one at a time"));
    };
    if is_too_long(&parts.headers, room) {
        discard(body);
        return Err(too_large(room));
    }
    let incoming = receive(&app, body, room).await?;
    // On its own: a worker that hangs up now must not leave a name without a blob.
    let keeping = tokio::spawn(async move {
        let kept = app.queue.keep_upload(holder, path, incoming).await;
        drop(turn);
        kept
    });
    let uploaded = keeping.await.map_err(|error| StoreError::Objects(io::Error::other(error)))??;
    Ok(Json(uploaded))
}

/// `GET /v1/tasks/{id}/artifacts/{path}`
pub(super) async fn download(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((id, path)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let id: TaskId = id.parse().map_err(|error| Refusal::new(Code::InvalidId, format!("{error}")))?;
    let task = super::tasks::visible(&app, &caller, id, 0).await?;
    let missing = || Refusal::new(Code::NotFound, "this task has no such artifact; its result lists those that it has");
    let path: RelativePath = path.parse().map_err(|_| missing())?;
    let Some(artifact) = app.queue.artifact(id, path.clone()).await? else {
        return Err(if is_listed(&task, &path) { not_stored() } else { missing() });
    };
    let tag = format!("\"{}\"", artifact.sha256);
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return Ok(StatusCode::NOT_MODIFIED.into_response());
    }
    let file = app.queue.objects.read(&artifact.blob, 0..artifact.size).await.map_err(|error| {
        let is_gone = error.kind() == io::ErrorKind::NotFound;
        if is_gone { not_stored() } else { StoreError::Objects(error).into() }
    })?;
    Ok(sent(file, &path, &artifact, &tag))
}

fn is_listed(task: &StoredTask, path: &RelativePath) -> bool {
    let result = task.result.as_ref().and_then(|json| serde_json::from_str::<TaskResult>(json.get()).ok());
    result.is_some_and(|result| result.artifacts.iter().any(|artifact| artifact.path == *path))
}

fn not_stored() -> Refusal {
    Refusal::new(Code::NotStored, "the file was seen but not kept; the task's result says why under `skipped`")
}

/// The file as a download: nothing that a task wrote is shown by a browser as a page of ours.
fn sent(file: Reading, path: &RelativePath, artifact: &StoredArtifact, tag: &str) -> Response {
    let mut response = content(file).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(path)));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(artifact.size));
    harmless(headers);
    let texts = [(header::ETAG, tag.to_owned()), (header::CONTENT_DISPOSITION, disposition(path.as_str()))];
    headers.extend(texts.into_iter().filter_map(|(name, text)| Some((name, HeaderValue::try_from(text).ok()?))));
    response
}

/// The file's name for who saves it (RFC 6266): letters that are harmless everywhere, and the whole name for those who
/// read it encoded.
pub(super) fn disposition(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let plain: String = name.chars().map(|c| if u8::try_from(c).is_ok_and(is_plain) { c } else { '_' }).collect();
    let encode = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let encoded: String = name.bytes().map(encode).collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests;
