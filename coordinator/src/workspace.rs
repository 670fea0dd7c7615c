//! Workspaces in the product's language: the files of sessions as clients read and change them, and as leases check them out
//! and bring them back. Rows are the store's, bytes the object store's; what the operator lays over is read from its
//! directories.

mod archive;
mod checkout;
mod exec;
mod files;
mod housekeeping;
mod overlay;
mod read;
mod search;
mod stage;
mod tar;

pub(crate) use archive::archive;
pub(crate) use checkout::{check_out, contents};
pub use exec::Executed;
pub(crate) use exec::{execute, spec};
pub(crate) use files::Editing;
pub use files::{Read, ReadError};
pub use housekeeping::SessionsUsed;
pub use overlay::Overlays;
pub use read::{Found, Place, View};
pub use search::{Grep, SearchError};
pub use stage::{Intake, IntakeError};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Pieces of a stream that may wait for who reads it.
const PIECES: usize = 8;

/// Bytes that are made as fast as they are read; an error cuts the stream.
pub type Pieces = mpsc::Receiver<std::io::Result<Bytes>>;

/// Where a stream is made.
type Sink = mpsc::Sender<std::io::Result<Bytes>>;

/// Runs what makes a stream; an error is logged and cuts it, so that nobody takes a part for the whole.
fn stream<Made>(make: impl FnOnce(Sink) -> Made) -> Pieces
where
    Made: Future<Output = Result<(), crate::store::StoreError>> + Send + 'static,
{
    let (sink, pieces) = mpsc::channel(PIECES);
    let making = make(sink.clone());
    tokio::spawn(async move {
        if let Err(error) = making.await {
            tracing::warn!(%error, "a stream of files broke off");
            // Who reads may be gone already.
            let _ = sink.send(Err(std::io::Error::other("the stream broke off"))).await;
        }
    });
    pieces
}

/// Sends a piece; who reads being gone ends the stream quietly.
async fn send(sink: &Sink, bytes: impl Into<Bytes>) -> Result<(), crate::store::StoreError> {
    let gone = |_| crate::store::StoreError::Objects(std::io::ErrorKind::BrokenPipe.into());
    sink.send(Ok(bytes.into())).await.map_err(gone)
}
