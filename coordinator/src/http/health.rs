//! Whether the coordinator lives, serves, and what it is. Anyone may ask.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use protocol::admin::Version;
use protocol::{Code, OLDEST_PROTOCOL, PROTOCOL};

use super::App;
use super::error::Refusal;

/// `GET /livez`: the process answers; nothing else is looked at.
pub(super) async fn live() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: the database answers and nobody told us to stop.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, Refusal> {
    if app.queue.shutdown.is_requested() {
        return Err(Refusal::new(Code::Unavailable, "the coordinator is stopping"));
    }
    app.queue.store.check().await.map_err(|error| Refusal::new(Code::Unavailable, error.to_string()))?;
    Ok("ok\n")
}

/// `GET /version`
pub(super) async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").into(), protocol: PROTOCOL, oldest_protocol: OLDEST_PROTOCOL })
}

/// `GET /openapi.json`
pub(super) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("openapi.json"))
}
