//! A blob on its way in: small ones stay in memory until they are kept, large ones are written as they come.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sha2::{Digest as _, Sha256};
use tokio::task::{JoinError, JoinSet};

use super::directory::{Directory, Draft, random};
use super::s3::{Body, S3};
use super::{Objects, blocking};

/// Blobs that are brought to a bucket side by side.
const AT_ONCE: usize = 32;

/// Bytes that wait in memory before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// A blob that is being written. Dropped, it leaves nothing behind.
pub struct Incoming {
    objects: Objects,
    buffer: BytesMut,
    draft: Option<Draft>,
    sum: Sha256,
    size: u64,
}

impl Incoming {
    pub(super) fn new(objects: Objects) -> Self {
        Self { objects, buffer: BytesMut::new(), draft: None, sum: Sha256::new(), size: 0 }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// When they cannot be written; nothing is left behind.
    pub async fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.sum.update(piece);
        self.size += piece.len() as u64;
        self.buffer.extend_from_slice(piece);
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        let full = self.buffer.split().freeze();
        let (directory, draft) = (self.objects.spool().clone(), self.draft.take());
        self.draft = Some(blocking(move || written(&directory, draft, &full)).await?);
        Ok(())
    }

    /// Bytes so far.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Brings it to the store under its name.
    ///
    /// # Errors
    /// When the store does not take it; nothing is left behind.
    pub async fn keep(self) -> io::Result<Kept> {
        let mut kept = Self::keep_all(vec![self]).await?;
        kept.pop().ok_or_else(|| io::Error::other("a blob was lost on its way to the store"))
    }

    /// Brings several to the store, all of one kind and in their order: to a disk at the price of one, to a bucket side by
    /// side.
    ///
    /// # Errors
    /// When the store does not take one of them; nothing is left behind of any.
    pub async fn keep_all(all: Vec<Self>) -> io::Result<Vec<Kept>> {
        match all.first().map(|first| first.objects.clone()) {
            None => Ok(Vec::new()),
            Some(Objects::Dir(directory)) => blocking(move || keep_in_directory(&directory, all)).await,
            Some(Objects::S3(s3)) => keep_in_bucket(&s3, all).await,
        }
    }
}

fn keep_in_directory(directory: &Directory, all: Vec<Incoming>) -> io::Result<Vec<Kept>> {
    let mut drafts = Vec::with_capacity(all.len());
    let mut sums = Vec::with_capacity(all.len());
    for incoming in all {
        drafts.push(written(directory, incoming.draft, &incoming.buffer.freeze())?);
        sums.push((hexadecimal(&incoming.sum.finalize()), incoming.size));
    }
    directory.keep(drafts, sums)
}

/// How many are on their way side by side is the bucket's to bound.
async fn keep_in_bucket(s3: &S3, all: Vec<Incoming>) -> io::Result<Vec<Kept>> {
    let mut sending = JoinSet::new();
    let mut kept: Vec<Option<Kept>> = all.iter().map(|_| None).collect();
    for (place, incoming) in all.into_iter().enumerate() {
        if sending.len() == AT_ONCE {
            put_in_place(&mut kept, sending.join_next().await)?;
        }
        let s3 = s3.clone();
        sending.spawn(async move { Ok((place, send(s3, incoming).await?)) });
    }
    while !sending.is_empty() {
        put_in_place(&mut kept, sending.join_next().await)?;
    }
    Ok(kept.into_iter().flatten().collect())
}

type Sent = Option<Result<io::Result<(usize, Kept)>, JoinError>>;

fn put_in_place(all: &mut [Option<Kept>], sent: Sent) -> io::Result<()> {
    let Some(sent) = sent else { return Ok(()) };
    let (place, kept) = sent.map_err(io::Error::from).flatten()?;
    all[place] = Some(kept);
    Ok(())
}

async fn send(s3: S3, incoming: Incoming) -> io::Result<Kept> {
    let Incoming { objects, buffer, draft, sum, size } = incoming;
    let sha256 = hexadecimal(&sum.finalize());
    let name = format!("{sha256}.{}", random()?);
    s3.announce(&name);
    let kept = Kept { objects, name, size, sha256, is_named: false };
    let (body, draft) = body(buffer, draft).await?;
    s3.write(&kept.name, size, body).await?;
    drop(draft);
    Ok(kept)
}

async fn body(buffer: BytesMut, draft: Option<Draft>) -> io::Result<(Body, Option<Draft>)> {
    let Some(mut draft) = draft else { return Ok((Body::Memory(buffer.freeze()), None)) };
    blocking(move || {
        draft.write(&buffer)?;
        Ok((Body::Spooled(Arc::new(draft.reopen()?)), Some(draft)))
    })
    .await
}

fn written(directory: &Directory, draft: Option<Draft>, bytes: &Bytes) -> io::Result<Draft> {
    let mut draft = match draft {
        Some(draft) => draft,
        None => directory.begin()?,
    };
    draft.write(bytes)?;
    Ok(draft)
}

/// A blob that is safe. It is removed again unless somebody names it.
pub struct Kept {
    pub(super) objects: Objects,
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
    pub(super) is_named: bool,
}

impl Kept {
    /// The store names it now: it stays.
    pub fn is_named(mut self) {
        self.is_named = true;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.is_named {
            self.objects.drop_unnamed(&self.name);
        }
        self.objects.settle(&self.name);
    }
}

/// Bytes as digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // cannot fail: a text takes everything
        let _ = write!(text, "{byte:02x}");
    }
    text
}
