//! Files that leases upload: taken in while the lease lives, published by its report, swept when neither came about.
//! Bytes go to the object store first, then the store names them; what is removed goes the other way round.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::artifact::{MAX_ARTIFACTS, Uploaded};
use protocol::path::RelativePath;
use protocol::{LeaseId, TaskId};

use crate::lifecycle::Holder;
use crate::objects::Incoming;
use crate::queue::Queue;
use crate::store::{StoreError, StoredArtifact, Upload};

type Result<T> = std::result::Result<T, StoreError>;

/// Leases that upload right now: one file at a time, so that a lease cannot fill the disk beyond what it may bring.
#[derive(Default)]
pub struct Uploading(Arc<Mutex<HashSet<LeaseId>>>);

/// A lease's turn to upload, until it is dropped.
pub struct Turn {
    lease: LeaseId,
    leases: Arc<Mutex<HashSet<LeaseId>>>,
}

impl Uploading {
    /// Begins an upload of a lease; none while it uploads another.
    #[must_use]
    pub fn begin(&self, lease: LeaseId) -> Option<Turn> {
        let is_free = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(lease);
        is_free.then(|| Turn { lease, leases: Arc::clone(&self.0) })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.lease);
    }
}

/// Names that are asked about at once.
const NAMES_AT_ONCE: usize = 500;

impl Queue {
    /// How many bytes the lease may still upload under this path.
    ///
    /// # Errors
    /// `LeaseLost`, `TooManyUploads`, or see `StoreError`.
    pub async fn upload_room(&self, holder: Holder, path: RelativePath) -> Result<u64> {
        let others = self.store.uploads(holder, path).await?;
        if others.count >= MAX_ARTIFACTS as u64 {
            return Err(StoreError::TooManyUploads);
        }
        Ok(self.artifacts_limit.saturating_sub(others.bytes))
    }

    /// Keeps what arrived, if the lease still lives. A repeat under the same path replaces the first.
    ///
    /// # Errors
    /// `LeaseLost`, `TooManyUploads`, or see `StoreError`; nothing is left behind.
    pub async fn keep_upload(&self, holder: Holder, path: RelativePath, incoming: Incoming) -> Result<Uploaded> {
        let kept = incoming.keep().await?;
        let upload = Upload { path, blob: kept.name.clone(), size: kept.size, sha256: kept.sha256.clone() };
        let uploaded = Uploaded { size: kept.size, sha256: kept.sha256.clone() };
        let replaced = self.store.keep_upload(holder, upload, self.artifacts_limit).await?;
        kept.is_named();
        self.remove(replaced.into_iter().collect()).await;
        Ok(uploaded)
    }

    /// A published file.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn artifact(&self, task: TaskId, path: RelativePath) -> Result<Option<StoredArtifact>> {
        self.store.artifact(task, path).await
    }

    /// Forgets what leases uploaded that are over without a result; says how many files.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn drop_dead_uploads(&self) -> Result<u64> {
        let mut total = 0;
        while self.store.has_dead_uploads().await? {
            let blobs = self.store.drop_dead_uploads().await?;
            total += blobs.len() as u64;
            self.remove(blobs).await;
        }
        Ok(total)
    }

    /// Removes every blob that nobody has named for so long: of tasks and versions that are gone, and what a crash left. Says
    /// how many.
    ///
    /// # Errors
    /// See `StoreError`; what went is gone.
    pub async fn sweep_blobs(&self, orphans_ms: i64) -> Result<u64> {
        let mut total = 0;
        for names in self.objects.settled().await?.chunks(NAMES_AT_ONCE) {
            let named = self.store.named(names.to_vec()).await?;
            let nobodys: Vec<String> = names.iter().filter(|name| !named.contains(*name)).cloned().collect();
            let now = self.clock.now().at;
            let orphans = self.store.orphaned(nobodys, now, now.plus_ms(-orphans_ms)).await?;
            total += orphans.len() as u64;
            self.objects.remove(orphans).await?;
        }
        Ok(total)
    }

    /// Nobody names these any more. What stays by mistake is found by the sweep.
    async fn remove(&self, blobs: Vec<String>) {
        if let Err(error) = self.objects.remove(blobs).await {
            tracing::warn!(%error, "could not remove files that nobody needs; tried again later");
        }
    }
}
