//! What clients do with files of a session. Paths are virtual: `x`, `/x` and `/workspace/x` are one file.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::path::{VirtualPath, WorkspacePath};
use protocol::workspace::{
    Deleted, EditRequest, Edited, Entry, FileContent, FileList, GlobMatches, GrepMatches, MAX_GREP_MATCHES,
    MAX_PAGE_ENTRIES, Made, MakeDirectory, Move, Moved, Written,
};
use protocol::{Code, RepoName, SessionName};

use super::App;
use super::artifacts::disposition;
use super::auth::Caller;
use super::body::{Capped, InPath, Query, decode, discard, is_too_long};
use super::checkouts::streamed;
use super::content::{Pieces, content, harmless};
use super::error::Refusal;
use super::ranges::{condition, is_known, range};
use super::workspaces::{first_repo, visible};
use crate::objects::Incoming;
use crate::store::{FileChange, StoreError, What, WorkspaceError};
use crate::workspace::{Editing, Found, Grep, Read, View};

type Answer<T> = Result<T, Refusal>;

/// Bytes of an edit: two texts of 2 MiB, as JSON writes them.
const MAX_EDIT_BYTES: usize = 8 << 20;
/// Lines that are read when nobody says.
const MAX_LINES: u32 = u32::MAX;

/// The path of a query; the root when it is left out.
fn place(query: &mut Query) -> Answer<VirtualPath> {
    Ok(query.take_text("path").unwrap_or_default().parse::<VirtualPath>()?)
}

/// The path of a query that must name something below the root.
fn below_root(query: &mut Query) -> Answer<WorkspacePath> {
    Ok(place(query)?.below_root()?)
}

async fn seen(app: &App, caller: &Caller, session: SessionName, query: &mut Query) -> Answer<View> {
    let snapshot = query.take("snapshot")?;
    visible(app, caller, session, snapshot).await
}

/// Where a client writes: a session that is there, or that its first use makes.
struct Target {
    session: SessionName,
    repo: Option<RepoName>,
    by: protocol::KeyId,
    view: Option<View>,
}

impl Target {
    async fn find(app: &App, caller: &Caller, session: SessionName) -> Answer<Self> {
        caller.client()?;
        let (view, repo) = match app.queue.store.session(session.clone(), app.queue.rules.clone()).await? {
            Some(_) => (Some(visible(app, caller, session.clone(), None).await?), None),
            None => (None, first_repo(caller)?),
        };
        Ok(Self { session, repo, by: caller.key.id, view })
    }

    fn change(&self, what: What) -> FileChange {
        FileChange { session: self.session.clone(), repo: self.repo.clone(), by: self.by, what }
    }
}

/// `GET …/files`
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    mut query: Query,
) -> Answer<Json<FileList>> {
    let path = place(&mut query)?;
    let cursor = query.take::<String>("cursor")?;
    let limit = query.take_number("limit", 1..=MAX_PAGE_ENTRIES, MAX_PAGE_ENTRIES)?;
    let view = seen(&app, &caller, session, &mut query).await?;
    query.finish()?;
    Ok(Json(app.queue.list(&view, &path, cursor.as_deref(), limit as usize).await?))
}

/// `GET …/files/stat`
pub(super) async fn stat(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    mut query: Query,
) -> Answer<Json<Entry>> {
    let path = below_root(&mut query)?;
    let view = seen(&app, &caller, session, &mut query).await?;
    query.finish()?;
    Ok(Json(app.queue.look(&view, &path).await?.view()))
}

/// `GET …/files/content`
pub(super) async fn read(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    headers: HeaderMap,
    mut query: Query,
) -> Answer<Response> {
    let path = below_root(&mut query)?;
    let offset = u64::from(query.take_number("offset", 0..=u32::MAX, 0)?);
    let limit = Some(u64::from(query.take_number("limit", 0..=MAX_LINES, MAX_LINES)?));
    let view = seen(&app, &caller, session, &mut query).await?;
    query.finish()?;
    let found = app.queue.look(&view, &path).await?.file().map_err(StoreError::from)?;
    let tag = found.tag().unwrap_or_default();
    if is_known(&headers, &tag)? {
        return Ok(tagged(StatusCode::NOT_MODIFIED.into_response(), &tag));
    }
    let text: FileContent = app.queue.read_text(&found, Read { offset, limit }).await?;
    Ok(tagged(Json(text).into_response(), &tag))
}

/// `GET …/files/raw`
pub(super) async fn raw(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    headers: HeaderMap,
    mut query: Query,
) -> Answer<Response> {
    let path = below_root(&mut query)?;
    let view = seen(&app, &caller, session, &mut query).await?;
    query.finish()?;
    let found = app.queue.look(&view, &path).await?.file().map_err(StoreError::from)?;
    let tag = found.tag().unwrap_or_default();
    if is_known(&headers, &tag)? {
        return Ok(tagged(StatusCode::NOT_MODIFIED.into_response(), &tag));
    }
    sent(&app, &found, &headers, &tag).await
}

async fn sent(app: &App, found: &Found, headers: &HeaderMap, tag: &str) -> Answer<Response> {
    let size = found.entry.content.size();
    let part = range(headers, size, tag)?;
    let whole = part.clone().unwrap_or(0..size);
    let length = whole.end - whole.start;
    let reading = app.queue.open(found, whole).await?;
    let mut response = content(reading).into_response();
    let headers = response.headers_mut();
    let kind = protocol::artifact::media_type_of(&found.entry.path);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    harmless(headers);
    if let Ok(value) = HeaderValue::try_from(disposition(&found.entry.path)) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    if let Some(part) = part {
        let said = format!("bytes {}-{}/{size}", part.start, part.end - 1);
        if let Ok(value) = HeaderValue::try_from(said) {
            headers.insert(header::CONTENT_RANGE, value);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(tagged(response, tag))
}

fn tagged(mut response: Response, tag: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

/// `PUT …/files/content`
pub(super) async fn write(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    mut query: Query,
    request: Request,
) -> Answer<Response> {
    let (parts, body) = request.into_parts();
    let prepared = prepare_write(&app, &caller, session, &mut query).await;
    let (target, path, mode) = match prepared {
        Ok(prepared) => prepared,
        Err(refusal) => {
            discard(body);
            return Err(refusal);
        }
    };
    query.finish()?;
    let condition = condition(&parts.headers)?;
    let incoming = receive(&app, &target, &path, &parts.headers, body).await?;
    let (size_bytes, is_new) = (incoming.size(), condition.is_none_of.contains(&crate::store::Tag::Any));
    let name = path.as_str().to_owned();
    // On its own: a client that hangs up now must not leave a name without a blob.
    let writing = tokio::spawn(async move {
        app.queue.write_file(|what| target.change(what), (path, mode, condition), incoming).await
    });
    let (etag, version) = writing.await.map_err(|error| StoreError::Objects(error.into()))??;
    let written = Written { written: true, path: name, size_bytes, etag: etag.clone(), version };
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(tagged((status, Json(written)).into_response(), &etag))
}

async fn prepare_write(
    app: &App,
    caller: &Caller,
    session: SessionName,
    query: &mut Query,
) -> Answer<(Target, WorkspacePath, Option<u32>)> {
    let path = below_root(query)?.writable()?;
    let mode = query.take::<Octal>("mode")?.map(|mode| mode.0);
    Ok((Target::find(app, caller, session).await?, path, mode))
}

/// Permission bits as people write them.
struct Octal(u32);

impl std::str::FromStr for Octal {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        mode.map(Self).ok_or("expected permission bits such as 755, and none beyond them")
    }
}

/// Takes a file in as long as it fits into the session; the transaction looks again.
async fn receive(
    app: &App,
    target: &Target,
    path: &WorkspacePath,
    headers: &HeaderMap,
    body: Body,
) -> Answer<Incoming> {
    let (used, allowed) = match &target.view {
        Some(view) => (view.session.used_bytes, view.session.allowed_bytes),
        None => (0, app.queue.rules.quota_bytes),
    };
    let replaced = match &target.view {
        Some(view) => app.queue.look(view, path).await.map_or(0, |found| found.entry.content.size()),
        None => 0,
    };
    let kept = used.saturating_sub(replaced);
    let over =
        |size: u64| Refusal::from(StoreError::from(WorkspaceError::Quota { used: kept.saturating_add(size), allowed }));
    let room = allowed.saturating_sub(kept);
    if is_too_long(headers, room) {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        discard(body);
        return Err(over(length.unwrap_or(room)));
    }
    let mut incoming = app.queue.objects.begin();
    let mut pieces = Pieces::new(app, body);
    while let Some(piece) = pieces.next().await? {
        let size = incoming.size() + piece.len() as u64;
        if size > room {
            pieces.discard();
            return Err(over(size));
        }
        incoming.write(&piece).await.map_err(StoreError::from)?;
    }
    Ok(incoming)
}

/// `DELETE …/files`
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    headers: HeaderMap,
    mut query: Query,
) -> Answer<Json<Deleted>> {
    let path = below_root(&mut query)?.writable()?;
    query.finish()?;
    let condition = condition(&headers)?;
    let view = visible(&app, &caller, session, None).await?;
    let change = changing(&caller, &view, What::Delete { path: path.clone(), condition });
    let changed = app.queue.change_files(change).await?;
    Ok(Json(Deleted { path: path.as_str().to_owned(), deleted: changed.entries, version: changed.version }))
}

fn changing(caller: &Caller, view: &View, what: What) -> FileChange {
    FileChange { session: view.session.session.clone(), repo: None, by: caller.key.id, what }
}

/// `POST …/files/edit`
pub(super) async fn edit(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    headers: HeaderMap,
    Capped(body): Capped<MAX_EDIT_BYTES>,
) -> Answer<Response> {
    let asked: EditRequest = decode(&body)?;
    let path = asked.path.parse::<WorkspacePath>()?.writable()?;
    let (edits, condition) = (asked.edits()?, condition(&headers)?);
    visible(&app, &caller, session.clone(), None).await?;
    let (name, by) = (path.as_str().to_owned(), caller.key.id);
    // On its own: a client that hangs up now must not leave a name without a blob.
    let editing =
        tokio::spawn(async move { app.queue.edit_file(&Editing { session, path, edits, condition, by }).await });
    let done = editing.await.map_err(|error| StoreError::Objects(error.into()))??;
    let path = name;
    let edited =
        Edited { path, replaced: done.replaced, size_bytes: done.size, etag: done.tag.clone(), version: done.version };
    Ok(tagged(Json(edited).into_response(), &done.tag))
}

/// `POST …/files/move`
pub(super) async fn rename(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    Capped(body): Capped<{ super::body::MAX_BODY_BYTES }>,
) -> Answer<Json<Moved>> {
    let asked: Move = decode(&body)?;
    let from = asked.from.parse::<WorkspacePath>()?.writable()?;
    let to = asked.to.parse::<WorkspacePath>()?.writable()?;
    let view = visible(&app, &caller, session, None).await?;
    let (old, new) = (from.as_str().to_owned(), to.as_str().to_owned());
    let changed = app.queue.change_files(changing(&caller, &view, What::Move { from, to })).await?;
    Ok(Json(Moved { from: old, to: new, moved: changed.entries, version: changed.version }))
}

/// `POST …/files/mkdir`
pub(super) async fn make_directory(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    Capped(body): Capped<{ super::body::MAX_BODY_BYTES }>,
) -> Answer<Json<Made>> {
    let asked: MakeDirectory = decode(&body)?;
    let path = asked.path.parse::<WorkspacePath>()?.writable()?;
    let target = Target::find(&app, &caller, session).await?;
    let name = path.as_str().to_owned();
    let changed = app.queue.change_files(target.change(What::MakeDirectory(path))).await?;
    Ok(Json(Made { path: name, created: changed.entries > 0, version: changed.version }))
}

/// `GET …/files/glob`
pub(super) async fn glob(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    mut query: Query,
) -> Answer<Json<GlobMatches>> {
    let path = place(&mut query)?;
    let pattern = wanted(&mut query)?;
    let view = seen(&app, &caller, session, &mut query).await?;
    query.finish()?;
    Ok(Json(app.queue.glob(&view, &path, &pattern).await?))
}

fn wanted(query: &mut Query) -> Answer<String> {
    let pattern = query.take_text("pattern").filter(|pattern| !pattern.is_empty());
    pattern.ok_or_else(|| Refusal::new(Code::InvalidQuery, "`pattern` is missing: what to look for"))
}

/// `GET …/files/grep`
pub(super) async fn grep(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    mut query: Query,
) -> Answer<Json<GrepMatches>> {
    let grep = Grep {
        pattern: wanted(&mut query)?,
        literal: query.take("literal")?.unwrap_or(false),
        ignore_case: query.take("ignore_case")?.unwrap_or(false),
        include: query.take("include")?,
        path: place(&mut query)?,
        limit: query.take_number("max_results", 1..=MAX_GREP_MATCHES, MAX_GREP_MATCHES)?,
    };
    let view = seen(&app, &caller, session, &mut query).await?;
    query.finish()?;
    Ok(Json(app.queue.grep(&view, grep).await?))
}

/// `GET …/archive`
pub(super) async fn archive(
    State(app): State<Arc<App>>,
    caller: Caller,
    InPath(session): InPath<SessionName>,
    mut query: Query,
) -> Answer<Response> {
    let path = place(&mut query)?;
    let view = seen(&app, &caller, session, &mut query).await?;
    query.finish()?;
    let name = format!("{}.tar.gz", view.session.session);
    let pieces = crate::workspace::archive(app.queue.clone(), view, path.as_str().to_owned());
    let mut response = streamed(pieces, "application/gzip");
    harmless(response.headers_mut());
    if let Ok(value) = HeaderValue::try_from(disposition(&name)) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}
