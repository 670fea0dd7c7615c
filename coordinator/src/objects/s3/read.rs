//! A part of a blob as it comes. Where an answer breaks off or is too short, the rest is asked for anew, a few times; a whole
//! blob is compared with the sum in its name before its last piece is given out.

use std::io;
use std::ops::Range;
use std::pin::Pin;

use bytes::Bytes;
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectStore as _};
use sha2::{Digest as _, Sha256};
use tokio_stream::{Stream, StreamExt as _};

use super::S3;
use super::failure::{Cause, Doing};
use crate::objects::incoming::hexadecimal;

/// So often an answer may break off before this many further bytes have come.
const BREAKS: u32 = 4;
const PROGRESS_BYTES: u64 = 8 << 20;

type Answer = Pin<Box<dyn Stream<Item = object_store::Result<Bytes>> + Send>>;

/// A part of an object that is being read.
pub(in crate::objects) struct Pieces {
    s3: S3,
    key: Key,
    left: Range<u64>,
    answer: Option<Answer>,
    /// Of a whole blob: what has come, and what it must be.
    sum: Option<(Sha256, String)>,
    /// Of an object that others may write: the tag that it must have.
    tag: Option<String>,
    breaks: u32,
    /// Where the last break was that counted.
    broke_at: u64,
}

impl Pieces {
    fn new(s3: S3, key: Key, part: Range<u64>) -> Self {
        Self { s3, key, broke_at: part.start, left: part, answer: None, sum: None, tag: None, breaks: 0 }
    }

    /// A whole object that others may write, as it was when it had this tag.
    pub(super) async fn open_tagged(s3: S3, key: Key, tag: &str, size: u64) -> io::Result<Self> {
        let mut pieces = Self { tag: Some(tag.to_owned()), ..Self::new(s3, key, 0..size) };
        if size > 0 {
            pieces.ask().await?;
        }
        Ok(pieces)
    }

    pub(super) async fn open(s3: S3, key: Key, name: &str, part: Range<u64>) -> io::Result<Self> {
        let mut pieces = Self::new(s3, key, part);
        if pieces.left.is_empty() {
            return Ok(pieces);
        }
        let size = pieces.ask().await?;
        if pieces.left == (0..size) {
            let wanted = name.split('.').next().unwrap_or_default().to_owned();
            pieces.sum = (wanted.len() == 64).then(|| (Sha256::new(), wanted));
        }
        Ok(pieces)
    }

    /// Asks for what is left, and says how large the whole is.
    async fn ask(&mut self) -> io::Result<u64> {
        let range = Some(GetRange::Bounded(self.left.clone()));
        let options = GetOptions { range, ..GetOptions::default() };
        let got = self.s3.inner.store.get_opts(&self.key, options).await;
        let got = got.map_err(|error| self.s3.failed(&error, Doing::Read, self.key.as_ref()))?;
        if got.range != self.left {
            return Err(self.damaged(format!("it has {} bytes, of which {:?} were wanted", got.meta.size, self.left)));
        }
        let tag = got.meta.e_tag.as_deref().map(super::plain::unquoted);
        if self.tag.is_some() && tag.is_some() && tag != self.tag.as_deref() {
            return Err(self.damaged("somebody wrote it meanwhile".into()));
        }
        let size = got.meta.size;
        self.answer = Some(got.into_stream());
        Ok(size)
    }

    /// The next piece; none at the end.
    pub(in crate::objects) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.left.is_empty() {
            let next = match &mut self.answer {
                Some(answer) => answer.next().await,
                None => {
                    self.ask().await?;
                    continue;
                }
            };
            match next {
                Some(Ok(piece)) if piece.is_empty() => {}
                Some(Ok(piece)) => return self.take(piece).map(Some),
                Some(Err(error)) => self.broke(Some(&error))?,
                None => self.broke(None)?,
            }
        }
        Ok(None)
    }

    fn take(&mut self, piece: Bytes) -> io::Result<Bytes> {
        self.left.start += piece.len() as u64;
        if self.left.start > self.left.end {
            return Err(self.damaged("more bytes than the store announced".into()));
        }
        if let Some((sum, _)) = &mut self.sum {
            sum.update(&piece);
        }
        if self.left.is_empty()
            && let Some((sum, wanted)) = self.sum.take()
            && hexadecimal(&sum.finalize()) != wanted
        {
            return Err(self.damaged("its sum differs".into()));
        }
        Ok(piece)
    }

    /// Counts a break, and gives up when there were too many of them in too few bytes.
    fn broke(&mut self, error: Option<&object_store::Error>) -> io::Result<()> {
        self.answer = None;
        if self.left.start - self.broke_at >= PROGRESS_BYTES {
            self.breaks = 0;
            self.broke_at = self.left.start;
        }
        self.breaks += 1;
        if self.breaks <= BREAKS {
            return Ok(());
        }
        Err(match error {
            Some(error) => self.s3.failed(error, Doing::Read, self.key.as_ref()).into(),
            None => self.damaged(format!("its answers end early, {} times", self.breaks)),
        })
    }

    fn damaged(&self, how: String) -> io::Error {
        self.s3.because(Cause::Damaged(how), Doing::Read, self.key.as_ref()).into()
    }
}
