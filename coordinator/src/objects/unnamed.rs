//! Blobs that are kept but that nobody names yet: the sweep must not take them for nobody's.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Default)]
pub(super) struct Unnamed(Arc<Mutex<HashSet<String>>>);

impl Unnamed {
    fn names(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, name: &str) {
        self.names().insert(name.to_owned());
    }

    /// It is named or gone: the sweep may look at it.
    pub(super) fn settle(&self, name: &str) {
        self.names().remove(name);
    }

    pub(super) fn drop_from(&self, names: &mut Vec<String>) {
        let unnamed = self.names();
        names.retain(|name| !unnamed.contains(name));
    }
}
