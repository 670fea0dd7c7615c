//! Blobs and plain objects in a bucket, by the S3 protocol. Blobs lie at `<prefix>/.cw/blobs/<name>`. Nothing here rests on a
//! conditional write: names are random, and one coordinator owns a prefix.
//!
//! A request is repeated within bounds (`Patience`): all of them may be done twice.

mod check;
mod client;
mod failure;
mod notes;
mod plain;
mod read;
mod tls;
mod write;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Key;
use object_store::{BackoffConfig, ObjectStore as _, ObjectStoreExt as _, RetryConfig};
use protocol::Timestamp;
use tokio::sync::Semaphore;
use tokio_stream::StreamExt as _;

use super::directory::Directory;
use super::unnamed::Unnamed;
use failure::{Cause, Doing, Failure, cause};
use notes::Notes;
pub(super) use read::Pieces;
pub(super) use write::Body;

/// Blobs that nobody names are left alone for so long: another's upload may be about to be named.
const SETTLED_AFTER_MS: i64 = 86_400_000;

/// A bucket, and the right to use it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `http://host:port` or `https://host`.
    pub endpoint: String,
    /// The name by which requests are signed.
    pub region: String,
    /// Where everything is.
    pub bucket: String,
    /// What all keys begin with, without a slash at its ends; may be empty.
    pub prefix: String,
    /// Who we are.
    pub access_key: String,
    /// What proves it.
    pub secret_key: Secret,
    /// How long to wait and how often to try.
    pub patience: Patience,
}

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secret(…)")
    }
}

/// How long to wait for a store, and how often to try.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// For the head of an answer, once a request is sent.
    pub answer: Duration,
    /// For each piece of an answer.
    pub piece: Duration,
    /// How often a request is repeated that failed in a way that may pass.
    pub retries: usize,
    /// No repeat begins later than this after the first try.
    pub retry_for: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(5), answer: seconds(20), piece: seconds(20), retries: 5, retry_for: seconds(40) }
    }
}

/// A bucket.
#[derive(Clone)]
pub struct S3 {
    inner: Arc<Inner>,
}

struct Inner {
    store: AmazonS3,
    settings: Settings,
    /// Large blobs on their way in are written here first: their sum must be known before their name.
    spool: Directory,
    notes: Notes,
    /// Blobs that are kept but not named yet: the sweep must not take them for nobody's.
    unnamed: Unnamed,
    /// Memory for bytes on their way out, in units of `write::UNIT_BYTES`.
    memory: Arc<Semaphore>,
}

impl S3 {
    /// Connects, and tries by real requests that the bucket can be used.
    ///
    /// # Errors
    /// What is wrong with the settings, in words, and what to do.
    pub(super) async fn open(settings: Settings, root: &Path) -> anyhow::Result<Self> {
        let store = build(&settings).with_context(|| format!("the object store {}", place(&settings)))?;
        let spool = Directory::open(root)?;
        let notes = Notes::open(root).with_context(|| format!("preparing {}", root.display()))?;
        let memory = Arc::new(Semaphore::new(write::UNITS));
        let s3 = Self { inner: Arc::new(Inner { store, settings, spool, notes, unnamed: Unnamed::default(), memory }) };
        s3.check().await.context("checking the object store; nothing was started")?;
        s3.abort_left_uploads().await;
        Ok(s3)
    }

    /// Where large blobs are written first.
    pub(super) fn spool(&self) -> &Directory {
        &self.inner.spool
    }

    /// The key of something under the prefix; none for what cannot be one.
    fn key(&self, name: &str) -> Result<Key, object_store::path::Error> {
        match self.inner.settings.prefix.as_str() {
            "" => Key::parse(name),
            prefix => Key::parse(format!("{prefix}/{name}")),
        }
    }

    fn blob(&self, name: &str) -> io::Result<Key> {
        self.key(&format!(".cw/blobs/{name}")).map_err(io::Error::other)
    }

    fn failed(&self, error: &object_store::Error, doing: Doing, key: &str) -> Failure {
        self.because(cause(error, doing, &self.inner.settings.region), doing, key)
    }

    fn because(&self, cause: Cause, doing: Doing, key: &str) -> Failure {
        Failure { place: place(&self.inner.settings), doing, key: key.into(), cause }
    }

    /// Begins to read a part of a blob.
    pub(super) async fn read(&self, name: &str, part: std::ops::Range<u64>) -> io::Result<Pieces> {
        Pieces::open(self.clone(), self.blob(name)?, name, part).await
    }

    /// Removes blobs, a thousand with each request.
    pub(super) async fn remove(&self, names: &[String]) -> io::Result<()> {
        let keys = names.iter().map(|name| self.blob(name)).collect::<io::Result<Vec<_>>>()?;
        self.remove_keys(keys).await
    }

    async fn remove_keys(&self, keys: Vec<Key>) -> io::Result<()> {
        let Some(first) = keys.first().map(ToString::to_string) else { return Ok(()) };
        let keys = tokio_stream::iter(keys.into_iter().map(Ok));
        let mut removed = self.inner.store.delete_stream(Box::pin(keys));
        while let Some(result) = removed.next().await {
            match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed(&error, Doing::Delete, &first).into()),
            }
        }
        Ok(())
    }

    /// Names of blobs that are older than a day.
    pub(super) async fn settled(&self, wall: Timestamp) -> io::Result<Vec<String>> {
        let oldest = wall.as_ms().saturating_sub(SETTLED_AFTER_MS);
        let folder = self.key(".cw/blobs").map_err(io::Error::other)?;
        let mut listed = self.inner.store.list(Some(&folder));
        let mut names = Vec::new();
        while let Some(object) = listed.next().await {
            let object = object.map_err(|error| self.failed(&error, Doing::List, folder.as_ref()))?;
            if object.last_modified.timestamp_millis() < oldest {
                names.extend(object.location.filename().map(str::to_owned));
            }
        }
        self.inner.unnamed.drop_from(&mut names);
        Ok(names)
    }

    /// A blob of this name is on its way.
    pub(super) fn announce(&self, name: &str) {
        self.inner.unnamed.add(name);
    }

    pub(super) fn settle(&self, name: &str) {
        self.inner.unnamed.settle(name);
    }

    /// Removes a blob that nobody came to name, in the background.
    pub(super) fn remove_later(&self, name: String) {
        // Without a runtime the program ends; the sweep finds the blob.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let s3 = self.clone();
        runtime.spawn(async move {
            if let Err(error) = s3.remove(&[name]).await {
                tracing::debug!(%error, "could not remove a blob that nobody names; the sweep does it");
            }
        });
    }

    async fn get_small(&self, key: &Key) -> Result<bytes::Bytes, Failure> {
        let got = async { self.inner.store.get(key).await?.bytes().await };
        got.await.map_err(|error| self.failed(&error, Doing::Read, key.as_ref()))
    }

    async fn put_small(&self, key: &Key, bytes: bytes::Bytes) -> Result<(), Failure> {
        let put = self.inner.store.put(key, bytes.into()).await;
        put.map(|_| ()).map_err(|error| self.failed(&error, Doing::Write, key.as_ref()))
    }
}

fn place(settings: &Settings) -> String {
    format!("{} (bucket {})", settings.endpoint, settings.bucket)
}

fn build(settings: &Settings) -> object_store::Result<AmazonS3> {
    let Settings { endpoint, region, bucket, patience, .. } = settings;
    let is_encrypted = !endpoint.starts_with("http://");
    let backoff = BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() };
    AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_region(region)
        .with_bucket_name(bucket)
        .with_access_key_id(&settings.access_key)
        .with_secret_access_key(&settings.secret_key.0)
        .with_virtual_hosted_style_request(false)
        .with_allow_http(!is_encrypted)
        .with_retry(RetryConfig { backoff, max_retries: patience.retries, retry_timeout: patience.retry_for })
        .with_http_connector(client::Connector { patience: *patience, is_encrypted })
        .build()
}
