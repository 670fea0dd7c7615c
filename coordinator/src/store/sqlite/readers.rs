//! A few connections that only read, each used by one reader at a time. In WAL mode they neither wait for the writer nor
//! make it wait.

use std::path::Path;
use std::sync::Mutex;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use crate::store::types::StoreError;

const READERS: usize = 4;

/// The connections that are free.
pub(super) struct Readers {
    free: std::sync::Arc<Mutex<Vec<Connection>>>,
    permits: std::sync::Arc<Semaphore>,
}

impl Readers {
    /// Opens all of them.
    pub(super) fn open(path: &Path) -> Result<Self, rusqlite::Error> {
        let open = |_| {
            let db =
                Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            db.busy_timeout(std::time::Duration::from_secs(5))?;
            db.set_prepared_statement_cache_capacity(64);
            db.pragma_update(None, "cache_size", -256)?;
            Ok(db)
        };
        let free = (0..READERS).map(open).collect::<Result<_, rusqlite::Error>>()?;
        Ok(Self { free: std::sync::Arc::new(Mutex::new(free)), permits: std::sync::Arc::new(Semaphore::new(READERS)) })
    }

    /// Runs a question against what is committed.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // Held inside the closure: a caller who leaves must not free a connection that is still in use.
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let free = self.free.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let db = lock(&free).pop().ok_or(StoreError::Closed)?;
            let answer = question(&db);
            lock(&free).push(db);
            drop(permit);
            answer
        });
        asked.await.map_err(|_| StoreError::Closed)?
    }
}

fn lock(free: &Mutex<Vec<Connection>>) -> std::sync::MutexGuard<'_, Vec<Connection>> {
    free.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
