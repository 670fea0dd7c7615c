//! Blobs on their way out: small ones with one request, large ones in parts, side by side within a bound on memory. A part
//! is read from the spool only when it is its turn.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt as _, PutPayload};
use tokio::task::JoinSet;

use super::S3;
use super::failure::{Cause, Doing};
use crate::objects::blocking;

/// Larger blobs go in parts of this size. S3 takes 10,000 parts.
const PART_BYTES: u64 = 8 << 20;
/// Parts of one blob side by side.
const PARTS_AT_ONCE: usize = 3;
/// Memory of bytes on their way is counted in these.
const UNIT_BYTES: u64 = 1 << 20;
/// So many units there are: 24 requests with small bodies, or three parts. A body takes its size several times until it is sent.
pub(super) const UNITS: usize = 24;

/// Where the bytes of a blob are.
pub(in crate::objects) enum Body {
    Memory(Bytes),
    Spooled(Arc<File>),
}

impl S3 {
    /// Writes a blob whole, or leaves nothing.
    pub(in crate::objects) async fn write(&self, name: &str, size: u64, body: Body) -> io::Result<()> {
        let key = self.blob(name)?;
        match body {
            Body::Memory(bytes) => self.put(&key, bytes.len() as u64, async { Ok(bytes) }).await,
            Body::Spooled(file) if size <= PART_BYTES => self.put(&key, size, piece(file, 0, size)).await,
            Body::Spooled(file) => self.put_parts(&key, size, file).await,
        }
    }

    async fn put(&self, key: &Key, size: u64, bytes: impl Future<Output = io::Result<Bytes>>) -> io::Result<()> {
        let _memory = self.reserve(size).await?;
        Ok(self.put_small(key, bytes.await?).await?)
    }

    async fn reserve(&self, size: u64) -> io::Result<tokio::sync::OwnedSemaphorePermit> {
        let units = u32::try_from(size.div_ceil(UNIT_BYTES).max(1)).map_err(io::Error::other)?;
        let memory = Arc::clone(&self.inner.memory);
        memory.acquire_many_owned(units).await.map_err(io::Error::other)
    }

    async fn put_parts(&self, key: &Key, size: u64, file: Arc<File>) -> io::Result<()> {
        let failed = |error: object_store::Error| io::Error::from(self.failed(&error, Doing::Write, key.as_ref()));
        let id = self.inner.store.create_multipart(key).await.map_err(failed)?;
        let upload = Upload::begin(self.clone(), key.clone(), id).await?;
        let parts = upload.send(file, size).await?;
        let completed = self.inner.store.complete_multipart(key, &upload.id, parts).await;
        // The answer to the first try may have been lost: then the upload is gone and the object is there.
        if let Err(error) = completed
            && !self.has(key, size).await
        {
            return Err(failed(error));
        }
        upload.end();
        if self.has(key, size).await {
            return Ok(());
        }
        Err(self.because(Cause::Damaged("it has another size".into()), Doing::Write, key.as_ref()).into())
    }

    async fn has(&self, key: &Key, size: u64) -> bool {
        self.inner.store.head(key).await.is_ok_and(|object| object.size == size)
    }

    /// Tells the server to forget the uploads that a crash left; what stays by mistake costs space and nothing else.
    pub(super) async fn abort_left_uploads(&self) {
        let notes = self.inner.notes.clone();
        let left = blocking(move || notes.left()).await.unwrap_or_default();
        for (note, key, id) in left {
            let Ok(parsed) = Key::parse(&key) else { continue };
            match self.inner.store.abort_multipart(&parsed, &id).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => self.inner.notes.forget(&note),
                Err(error) => {
                    let error = self.failed(&error, Doing::Delete, &key);
                    tracing::warn!(%error, "could not abort an upload that a crash left; tried again at the next start");
                }
            }
        }
    }
}

async fn piece(file: Arc<File>, start: u64, length: u64) -> io::Result<Bytes> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    blocking(move || {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    })
    .await
}

/// An upload in parts. Dropped before its end, it is aborted at the server.
struct Upload {
    s3: S3,
    key: Key,
    id: String,
    note: String,
    is_over: bool,
}

impl Upload {
    /// Notes the upload on the disk first: after a crash nobody else knows of it.
    async fn begin(s3: S3, key: Key, id: String) -> io::Result<Self> {
        let mut upload = Self { s3, key, id, note: String::new(), is_over: false };
        let (notes, key, id) = (upload.s3.inner.notes.clone(), upload.key.to_string(), upload.id.clone());
        upload.note = blocking(move || notes.upload(&key, &id)).await?;
        Ok(upload)
    }

    /// Sends all parts, a few side by side, and gives their ids in order.
    async fn send(&self, file: Arc<File>, size: u64) -> io::Result<Vec<PartId>> {
        let count = usize::try_from(size.div_ceil(PART_BYTES)).map_err(io::Error::other)?;
        let mut ids: Vec<Option<PartId>> = vec![None; count];
        let mut sending = JoinSet::new();
        for number in 0..count {
            if sending.len() == PARTS_AT_ONCE {
                store_id(&mut ids, sending.join_next().await)?;
            }
            sending.spawn(self.part(number, Arc::clone(&file), size));
        }
        while !sending.is_empty() {
            store_id(&mut ids, sending.join_next().await)?;
        }
        ids.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| io::Error::other("a part was lost"))
    }

    fn part(
        &self,
        number: usize,
        file: Arc<File>,
        size: u64,
    ) -> impl Future<Output = io::Result<(usize, PartId)>> + use<> {
        let (s3, key, id) = (self.s3.clone(), self.key.clone(), self.id.clone());
        async move {
            let start = number as u64 * PART_BYTES;
            let length = PART_BYTES.min(size - start);
            let _memory = s3.reserve(length).await?;
            let payload = PutPayload::from(piece(file, start, length).await?);
            let sent = s3.inner.store.put_part(&key, &id, number, payload).await;
            Ok((number, sent.map_err(|error| s3.failed(&error, Doing::Write, key.as_ref()))?))
        }
    }

    fn end(mut self) {
        self.is_over = true;
        self.s3.inner.notes.forget(&self.note);
    }
}

type Sent = Option<Result<io::Result<(usize, PartId)>, tokio::task::JoinError>>;

fn store_id(ids: &mut [Option<PartId>], sent: Sent) -> io::Result<()> {
    let Some(sent) = sent else { return Ok(()) };
    let (number, id) = sent.map_err(io::Error::from).flatten()?;
    ids[number] = Some(id);
    Ok(())
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Without a runtime the program ends; the next start aborts it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (s3, key, id, note) = (self.s3.clone(), self.key.clone(), self.id.clone(), std::mem::take(&mut self.note));
        runtime.spawn(async move {
            match s3.inner.store.abort_multipart(&key, &id).await {
                Ok(()) => s3.inner.notes.forget(&note),
                Err(error) => {
                    let error = s3.failed(&error, Doing::Delete, key.as_ref());
                    tracing::warn!(%error, "could not abort an upload; tried again at the next start");
                }
            }
        });
    }
}
