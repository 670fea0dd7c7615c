//! What others put among the plain objects of a session: found by comparing the copy with what was written to it, and taken
//! in as blobs. A new version is made of them by whoever asked.

use std::collections::HashMap;
use std::io;

use protocol::SessionName;

use super::Copying;
use crate::objects::{Incoming, Plain};
use crate::queue::Queue;
use crate::store::{StoreError, StoredCopy};

/// A plain object that somebody else wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The path in its session.
    pub path: String,
    /// The object as it is now.
    pub plain: Plain,
    /// Whether we had written one there, of other bytes.
    pub is_changed: bool,
}

impl Queue {
    /// The plain objects of a session that somebody else wrote, by path. What is about to be copied is left out: it is
    /// overwritten in a moment.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn imports(&self, session: &SessionName) -> Result<Vec<Import>, StoreError> {
        self.copying().imports(session).await
    }

    /// Reads such an object to be kept as a blob. One that changes meanwhile is an error.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn take_in(&self, import: &Import) -> Result<Incoming, StoreError> {
        Ok(self.copying().take_in(import).await?)
    }

    /// The paths of a session that have no plain object, and why.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn unmirrored(&self, session: SessionName) -> Result<Vec<(String, String)>, StoreError> {
        let copies = self.store.copies(session).await?;
        Ok(copies.into_iter().filter_map(|copy| Some((copy.path, copy.problem?))).collect())
    }
}

impl Copying<'_> {
    pub(super) async fn imports(self, session: &SessionName) -> Result<Vec<Import>, StoreError> {
        // The listing first: what is written between the two is in the outbox or among the copies then.
        let listed = self.objects.published(session.as_str()).await?;
        let copies = self.store.copies(session.clone()).await?;
        // An empty path is the whole session, about to be removed.
        if copies.iter().any(|copy| copy.path.is_empty()) {
            return Ok(Vec::new());
        }
        let copies: HashMap<&str, &StoredCopy> = copies.iter().map(|copy| (copy.path.as_str(), copy)).collect();
        let own = session.as_str().len() + 1;
        let found = listed.into_iter().filter_map(|plain| compared(&copies, plain, own));
        let mut found: Vec<Import> = found.collect();
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    pub(super) async fn take_in(self, import: &Import) -> io::Result<Incoming> {
        let mut incoming = self.objects.begin();
        let mut reading = self.objects.read_plain(&import.plain).await?;
        while let Some(piece) = reading.next().await? {
            incoming.write(&piece).await?;
        }
        Ok(incoming)
    }
}

fn compared(copies: &HashMap<&str, &StoredCopy>, plain: Plain, own: usize) -> Option<Import> {
    let path = plain.name.get(own..)?.to_owned();
    let is_changed = match copies.get(path.as_str()) {
        None => false,
        Some(copy) if copy.is_pending || (copy.tag == plain.tag && copy.size == plain.size) => return None,
        Some(copy) => copy.problem.is_none(),
    };
    Some(Import { path, plain, is_changed })
}
