//! The coordinator's HTTP interface; the only place that knows axum. The files below are named after the caller or the
//! noun; each route is a short function that checks who asks, calls a verb, and answers.

pub mod admin;
pub mod artifacts;
pub mod auth;
pub mod body;
pub mod checkouts;
mod content;
pub mod error;
pub mod events;
pub mod files;
pub mod health;
pub mod hosts;
pub mod leases;
mod ranges;
pub mod serve;
pub mod tasks;
pub mod workspaces;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{delete, get, post, put};
use protocol::{Code, OLDEST_PROTOCOL, PROTOCOL, PROTOCOL_HEADER};

use crate::config::Config;
use crate::queue::Queue;
use auth::Keys;
use error::Refusal;
use hosts::Hosts;

/// What every request may use.
pub struct App {
    /// The queue.
    pub queue: Arc<Queue>,
    /// Who may do what.
    pub keys: Keys,
    hosts: Hosts,
    body_timeout: std::time::Duration,
}

impl App {
    /// Puts it together.
    #[must_use]
    pub fn new(queue: Arc<Queue>, keys: Keys, config: &Config) -> Self {
        let hosts = Hosts::new(&config.allowed_hosts);
        Self { queue, keys, hosts, body_timeout: config.patience.body_timeout }
    }
}

/// All routes.
pub fn all_routes(app: Arc<App>) -> Router {
    let routes =
        client_routes().merge(workspace_routes()).merge(lease_routes()).merge(admin_routes()).merge(open_routes());
    finished(routes, app)
}

/// The workers' routes alone: what a relay leads into a sandbox.
pub fn worker_routes(app: Arc<App>) -> Router {
    finished(lease_routes().merge(open_routes()), app)
}

fn client_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/tasks", post(tasks::submit).get(tasks::list))
        .route("/v1/tasks/{id}", get(tasks::get))
        .route("/v1/tasks/{id}/cancel", post(tasks::cancel))
        .route("/v1/tasks/{id}/events", get(events::of_task))
        .route("/v1/tasks/{id}/output", get(tasks::output))
        .route("/v1/tasks/{id}/artifacts/{*path}", get(artifacts::download))
        .route("/v1/tasks/{id}/why", get(tasks::why))
        .route("/v1/events", get(events::of_all))
}

fn workspace_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/workspaces", post(workspaces::create).get(workspaces::list))
        .route("/v1/workspaces/{session}", get(workspaces::get).delete(workspaces::delete))
        .route("/v1/workspaces/{session}/usage", get(workspaces::usage))
        .route("/v1/workspaces/{session}/snapshots", post(workspaces::keep_snapshot).get(workspaces::snapshots))
        .route("/v1/workspaces/{session}/snapshots/{name}", delete(workspaces::forget_snapshot))
        .route("/v1/workspaces/{session}/fork", post(workspaces::fork))
        .route("/v1/workspaces/{session}/restore", post(workspaces::restore))
        .route("/v1/workspaces/{session}/exec", post(workspaces::exec))
        .route("/v1/workspaces/{session}/archive", get(files::archive))
        .route("/v1/workspaces/{session}/files", get(files::list).delete(files::delete))
        .route("/v1/workspaces/{session}/files/content", get(files::read).put(files::write))
        .route("/v1/workspaces/{session}/files/raw", get(files::raw))
        .route("/v1/workspaces/{session}/files/stat", get(files::stat))
        .route("/v1/workspaces/{session}/files/edit", post(files::edit))
        .route("/v1/workspaces/{session}/files/move", post(files::rename))
        .route("/v1/workspaces/{session}/files/mkdir", post(files::make_directory))
        .route("/v1/workspaces/{session}/files/glob", get(files::glob))
        .route("/v1/workspaces/{session}/files/grep", get(files::grep))
}

fn lease_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/leases", post(leases::lease))
        .route("/v1/leases/{id}/renew", post(leases::renew))
        .route("/v1/leases/{id}/events", post(leases::events))
        .route("/v1/leases/{id}/uploads", post(artifacts::upload))
        .route("/v1/leases/{id}/workspace", get(checkouts::manifest))
        .route("/v1/leases/{id}/workspace/blobs", post(checkouts::blobs))
        .route("/v1/leases/{id}/workspace/stage", put(checkouts::stage))
        .route("/v1/leases/{id}/report", put(leases::report))
        .route("/v1/leases/{id}/release", post(leases::release))
}

fn admin_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/keys", post(admin::create_key).get(admin::keys))
        .route("/v1/keys/{id}", delete(admin::revoke_key))
        .route("/v1/workers", get(admin::workers))
        .route("/v1/repos", get(admin::repos))
        .route("/v1/repos/{repo}", get(admin::repo).patch(admin::change_repo))
}

fn open_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/version", get(health::version))
        .route("/openapi.json", get(health::openapi))
}

fn finished(routes: Router<Arc<App>>, app: Arc<App>) -> Router {
    routes
        .fallback(async || Refusal::new(Code::NotFound, "there is no such route; see /openapi.json"))
        .method_not_allowed_fallback(async || {
            Refusal::new(Code::MethodNotAllowed, "this route has other methods; see /openapi.json")
        })
        .layer(from_fn_with_state(app.clone(), at_the_door))
        .with_state(app)
}

/// What holds for every request: its name in the log, who it may be addressed to, and which generation it speaks.
async fn at_the_door(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let request_id = error::request_id(request.headers());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let refused = app.hosts.check(request.uri(), request.headers()).and_then(|()| check_generation(&request));
    let answer = match refused {
        Ok(()) => next.run(request).await,
        Err(refusal) => axum::response::IntoResponse::into_response(refusal),
    };
    let mut answer = error::with_request_id(answer, &request_id);
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        answer.headers_mut().insert("x-request-id", value);
    }
    answer.headers_mut().insert(PROTOCOL_HEADER, HeaderValue::from(PROTOCOL));
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let status = answer.status();
    if status.is_server_error() {
        tracing::warn!(request_id, %method, path, %status, "request failed");
    } else {
        tracing::debug!(request_id, %method, path, %status, "request");
    }
    answer
}

/// Neighbouring generations work together; one that is further away is told what to do.
fn check_generation(request: &Request) -> Result<(), Refusal> {
    let Some(said) = request.headers().get(PROTOCOL_HEADER) else { return Ok(()) };
    let said = said.to_str().ok().and_then(|said| said.parse::<u32>().ok());
    match said {
        None => Err(Refusal::new(Code::InvalidHeader, "CW-Protocol is not a number")),
        Some(said) if said < OLDEST_PROTOCOL => Err(Refusal::new(
            Code::ProtocolUnsupported,
            format!(
                "this program speaks protocol {said}, the coordinator {OLDEST_PROTOCOL} to {PROTOCOL}: upgrade this program"
            ),
        )),
        Some(said) if said > PROTOCOL + 1 => Err(Refusal::new(
            Code::ProtocolUnsupported,
            format!(
                "this program speaks protocol {said}, the coordinator {OLDEST_PROTOCOL} to {PROTOCOL}: upgrade the coordinator"
            ),
        )),
        Some(_) => Ok(()),
    }
}
