//! When sessions were last used, and the end of those that nobody uses.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use protocol::{SessionName, Timestamp};

use crate::queue::Queue;
use crate::store::{StoreError, WorkspaceError};

/// Sessions that were used since somebody wrote down when.
#[derive(Default)]
pub struct SessionsUsed(Mutex<HashMap<SessionName, Timestamp>>);

impl SessionsUsed {
    /// A session is used now.
    pub fn note(&self, session: &SessionName, at: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(session.clone(), at);
    }

    fn take(&self) -> Vec<(SessionName, Timestamp)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_iter().collect()
    }
}

impl Queue {
    /// Writes down which sessions were used.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn save_sessions_used(&self) -> Result<(), StoreError> {
        let used = self.sessions_used.take();
        if used.is_empty() { Ok(()) } else { self.store.touch_sessions(used).await }
    }

    /// Deletes sessions that were last used before an instant; says how many.
    ///
    /// # Errors
    /// See `StoreError`; what went is gone.
    pub async fn expire_sessions(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.save_sessions_used().await?;
        let mut total = 0;
        loop {
            let mut gone = 0;
            for session in self.store.unused_sessions(before).await? {
                gone += u64::from(self.expire_session(session).await?);
            }
            total += gone;
            if gone == 0 {
                return Ok(total);
            }
        }
    }

    async fn expire_session(&self, session: SessionName) -> Result<bool, StoreError> {
        match self.store.delete_session(session.clone()).await {
            Ok(()) => {
                tracing::info!(%session, "deleted a session that nobody used");
                Ok(true)
            }
            // Somebody came in between.
            Err(StoreError::Workspace(WorkspaceError::Busy { .. } | WorkspaceError::NoSession)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Forgets stages and pins of leases that are over.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn drop_dead_stages(&self) -> Result<u64, StoreError> {
        let mut total = 0;
        while self.store.has_dead_stages().await? {
            total += self.store.drop_dead_stages().await?;
        }
        Ok(total)
    }
}
