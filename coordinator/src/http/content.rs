//! Bytes of files that pass through HTTP piece by piece, from and to the object store: never in memory as a whole.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use protocol::Code;

use super::App;
use super::body::{discard, too_large};
use super::error::Refusal;
use crate::objects::{Incoming, Reading};
use crate::store::StoreError;

/// Writes a body to the object store as it comes; between two pieces nobody waits longer than the coordinator's patience.
pub(super) async fn receive(app: &App, body: Body, room: u64) -> Result<Incoming, Refusal> {
    let mut incoming = app.queue.objects.begin();
    let mut pieces = Pieces::new(app, body);
    while let Some(piece) = pieces.next().await? {
        if incoming.size() + piece.len() as u64 > room {
            pieces.discard();
            return Err(too_large(room));
        }
        if let Err(error) = incoming.write(&piece).await {
            pieces.discard();
            return Err(StoreError::Objects(error).into());
        }
    }
    Ok(incoming)
}

/// A body as it comes.
pub(super) struct Pieces {
    body: Body,
    patience: std::time::Duration,
}

impl Pieces {
    pub(super) fn new(app: &App, body: Body) -> Self {
        Self { body, patience: app.body_timeout }
    }

    /// The next piece; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            let broken = |detail: &str| Err(Refusal::new(Code::BodyTimeout, detail));
            match tokio::time::timeout(self.patience, self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(piece) if !piece.is_empty() => return Ok(Some(piece)),
                    Ok(_) | Err(_) => {}
                },
                Ok(Some(Err(_))) => return broken("the body broke off"),
                Err(_) => return broken("the body did not arrive in time"),
            }
        }
    }

    /// Lets the rest flow into nothing for a moment.
    pub(super) fn discard(self) {
        discard(self.body);
    }
}

/// A blob as a body.
pub(super) fn content(reading: Reading) -> Body {
    Body::from_stream(super::events::pages(reading, async |mut reading| match reading.next().await {
        Ok(Some(piece)) => Some((Ok(piece), Some(reading))),
        Ok(None) => None,
        Err(error) => {
            tracing::error!(%error, "the object store failed while a file was sent");
            Some((Err(error), None))
        }
    }))
}

/// Nothing that a task wrote is shown by a browser as a page of ours.
pub(super) fn harmless(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
}
