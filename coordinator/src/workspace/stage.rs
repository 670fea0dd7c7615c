//! Takes a stage in: a compressed stream of frames from a worker, which may say anything. Every path, kind, size and count is
//! checked before it costs something; bytes are on the disk before a row names them; nothing of it counts before its end.

use std::io::Write as _;
use std::sync::Arc;

use bytes::{Buf as _, BytesMut};
use flate2::write::GzDecoder;
use protocol::StageId;
use protocol::path::{PathRefusal, WorkspacePath};
use protocol::workspace::frames::{MAX_HEADER_BYTES, StageFrame};
use protocol::workspace::{MAX_STAGE_ENTRIES, MAX_TARGET_BYTES, MODE_BITS, Staged};

use crate::lifecycle::Holder;
use crate::objects::Incoming;
use crate::queue::{Queue, random};
use crate::store::{Content, StagedRow, StoreError, WorkspaceError};

/// Compressed bytes that are taken at once: they hold at most about a thousand times as many.
const SIP_BYTES: usize = 4 << 10;
/// Compressed bytes beyond those of the files that a stage may take: headers, and what does not compress.
const SPARE_BYTES: u64 = 256 << 20;
/// Changes that are brought to the disk and named together.
const ROWS_AT_ONCE: usize = 256;
/// Bytes of their files together.
const BYTES_AT_ONCE: u64 = 16 << 20;

/// Why a stage is refused. Nothing of it is published.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// See there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A path in it is refused.
    #[error("`{path}`: {refusal}")]
    Path {
        /// The path, cut to what one reads.
        path: String,
        /// Why.
        refusal: PathRefusal,
    },
    /// The stream is not what it should be.
    #[error("the stage is refused: {0}")]
    Broken(String),
    /// It has more than it may.
    #[error("the stage is refused: {0}")]
    TooLarge(&'static str),
}

/// A stage that is coming in.
pub struct Intake {
    queue: Arc<Queue>,
    holder: Holder,
    stage: StageId,
    left_bytes: u64,
    left_compressed: u64,
    gzip: GzDecoder<Vec<u8>>,
    buffer: BytesMut,
    at: At,
    frames: u64,
    batch: Vec<(StagedRow, Option<Incoming>)>,
    batch_bytes: u64,
}

/// Where in the stream it is.
enum At {
    Header,
    Body { path: WorkspacePath, mode: u32, left: u64, incoming: Box<Incoming> },
    End,
}

fn broken<T>(why: impl Into<String>) -> Result<T, IntakeError> {
    Err(IntakeError::Broken(why.into()))
}

impl Intake {
    /// Begins a stage of a live lease on the version that it was given.
    ///
    /// # Errors
    /// `LeaseLost`, `NoStage`, or see `StoreError`.
    pub async fn begin(queue: Arc<Queue>, holder: Holder, base: u64) -> Result<Self, StoreError> {
        let stage = StageId::new(queue.clock.now().at.as_ms().unsigned_abs(), random());
        let room = queue.store.begin_stage(holder, stage, base, queue.rules.clone()).await?;
        Ok(Self {
            queue,
            holder,
            stage,
            left_bytes: room.bytes,
            left_compressed: room.bytes.saturating_add(SPARE_BYTES),
            gzip: GzDecoder::new(Vec::new()),
            buffer: BytesMut::new(),
            at: At::Header,
            frames: 0,
            batch: Vec::new(),
            batch_bytes: 0,
        })
    }

    /// Takes the next compressed bytes.
    ///
    /// # Errors
    /// See `IntakeError`.
    pub async fn take(&mut self, compressed: &[u8]) -> Result<(), IntakeError> {
        let left = self.left_compressed.checked_sub(compressed.len() as u64);
        self.left_compressed = left.ok_or(IntakeError::TooLarge("it goes on and on"))?;
        for sip in compressed.chunks(SIP_BYTES) {
            if self.gzip.write_all(sip).is_err() {
                return broken("it is not a gzip stream, or goes on after its end");
            }
            self.drain().await?;
        }
        Ok(())
    }

    /// The stream is over: it must be whole.
    ///
    /// # Errors
    /// See `IntakeError`.
    pub async fn finish(mut self) -> Result<Staged, IntakeError> {
        if self.gzip.try_finish().is_err() {
            return broken("it was cut off");
        }
        self.drain().await?;
        if !matches!(self.at, At::End) {
            return broken("it was cut off before its end frame");
        }
        self.flush().await?;
        Ok(self.queue.store.seal_stage(self.holder, self.stage).await?)
    }

    async fn drain(&mut self) -> Result<(), IntakeError> {
        self.buffer.extend_from_slice(&std::mem::take(self.gzip.get_mut()));
        loop {
            match std::mem::replace(&mut self.at, At::Header) {
                At::Header => match self.header()? {
                    Some(frame) => self.frame(frame).await?,
                    None => return Ok(()),
                },
                At::Body { path, mode, mut left, mut incoming } => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
                    incoming.write(&self.buffer[..length]).await.map_err(StoreError::from)?;
                    self.buffer.advance(length);
                    left -= length as u64;
                    if left > 0 {
                        self.at = At::Body { path, mode, left, incoming };
                        return Ok(());
                    }
                    self.add_file(path, mode, *incoming).await?;
                }
                At::End if self.buffer.is_empty() => {
                    self.at = At::End;
                    return Ok(());
                }
                At::End => return broken("it goes on after its end frame"),
            }
        }
    }

    /// The next header, once all of it is here.
    fn header(&mut self) -> Result<Option<StageFrame>, IntakeError> {
        let Some(length) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_HEADER_BYTES {
            return broken("a frame's header has over 16 KiB");
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        let frame =
            protocol::decode(&self.buffer[4..4 + length]).map_err(|error| IntakeError::Broken(error.to_string()))?;
        self.buffer.advance(4 + length);
        Ok(Some(frame))
    }

    async fn frame(&mut self, frame: StageFrame) -> Result<(), IntakeError> {
        if let StageFrame::End { count } = frame {
            self.at = At::End;
            return if count == self.frames { Ok(()) } else { broken("its end frame counts another number of frames") };
        }
        self.frames += 1;
        if self.frames > MAX_STAGE_ENTRIES {
            return Err(IntakeError::TooLarge("it has over 250,000 changes"));
        }
        let (path, content) = match frame {
            StageFrame::File { path, mode, size } => {
                self.left_bytes = self
                    .left_bytes
                    .checked_sub(size)
                    .ok_or(IntakeError::TooLarge("it has more bytes than the session may"))?;
                let (path, incoming) = (checked(&path)?, Box::new(self.queue.objects.begin()));
                self.at = At::Body { path, mode, left: size, incoming };
                return Ok(());
            }
            StageFrame::Directory { path, mode } => (path, Some(Content::Directory { mode: mode & MODE_BITS })),
            StageFrame::Symlink { path, target } => {
                if target.is_empty() || target.len() > MAX_TARGET_BYTES || target.contains('\0') {
                    return broken(format!("the target of `{}` is empty, too long or has a NUL", shown(&path)));
                }
                (path, Some(Content::Symlink { target }))
            }
            StageFrame::Delete { path } => (path, None),
            StageFrame::End { .. } => return Ok(()),
        };
        self.add(StagedRow { path: checked(&path)?, content }, None).await
    }

    async fn add_file(&mut self, path: WorkspacePath, mode: u32, incoming: Incoming) -> Result<(), IntakeError> {
        // Blob and sum are known once it is kept.
        let (size, mode) = (incoming.size(), mode & MODE_BITS);
        let content = Content::File { blob: String::new(), size, sha256: String::new(), mode };
        self.add(StagedRow { path, content: Some(content) }, Some(incoming)).await
    }

    async fn add(&mut self, row: StagedRow, incoming: Option<Incoming>) -> Result<(), IntakeError> {
        self.batch_bytes += incoming.as_ref().map_or(0, Incoming::size);
        self.batch.push((row, incoming));
        if self.batch.len() >= ROWS_AT_ONCE || self.batch_bytes >= BYTES_AT_ONCE { self.flush().await } else { Ok(()) }
    }

    /// Brings the batch to the disk, then names it.
    async fn flush(&mut self) -> Result<(), IntakeError> {
        let (mut rows, mut files, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (row, incoming) in std::mem::take(&mut self.batch) {
            if let Some(incoming) = incoming {
                places.push(rows.len());
                files.push(incoming);
            }
            rows.push(row);
        }
        self.batch_bytes = 0;
        let kept = Incoming::keep_all(files).await.map_err(StoreError::from)?;
        for (place, kept) in places.into_iter().zip(&kept) {
            if let Some(Content::File { blob, sha256, .. }) = &mut rows[place].content {
                blob.clone_from(&kept.name);
                sha256.clone_from(&kept.sha256);
            }
        }
        self.queue.store.add_to_stage(self.holder, self.stage, rows).await?;
        kept.into_iter().for_each(crate::objects::Kept::is_named);
        Ok(())
    }
}

/// A path of a stage, as it is kept, outside the overlays.
fn checked(path: &str) -> Result<WorkspacePath, IntakeError> {
    let checked = WorkspacePath::from_relative(path).and_then(WorkspacePath::writable);
    checked.map_err(|refusal| IntakeError::Path { path: shown(path), refusal })
}

fn shown(path: &str) -> String {
    path.chars().take(200).collect::<String>().escape_debug().to_string()
}

impl From<WorkspaceError> for IntakeError {
    fn from(error: WorkspaceError) -> Self {
        Self::Store(error.into())
    }
}
