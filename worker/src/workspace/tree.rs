//! A session's tree as it stands on the disk, and what is to be done to it so that it is what a manifest says. Pure.
//!
//! What a task changed stands on the disk and may not be in the version that the tree is known as: it is remembered as drift
//! until the next manifest says what became of it.

use std::collections::BTreeMap;
use std::ops::Bound;

use protocol::SessionName;
use protocol::workspace::Difference;

use super::entry::{Entries, Entry, Path, What, ancestors};
use super::manifest::Manifest;

/// A tree, without its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) session: SessionName,
    pub(super) generation: u64,
    pub(super) version: u64,
    /// What stands.
    pub(super) laid: Entries,
    /// Where that is not, or not surely, what the version has: what the version has there.
    pub(super) drift: BTreeMap<Path, Option<Entry>>,
}

/// What is to be done, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Goes, with all below it.
    pub(super) remove: Vec<Path>,
    /// Is there already, but for its mode and time.
    pub(super) fix: Vec<(Path, Entry)>,
    /// Comes, by path.
    pub(super) make: Vec<(Path, Entry)>,
}

impl Tree {
    /// One with nothing in it.
    pub(super) const fn empty(session: SessionName) -> Self {
        Self { session, generation: 0, version: 0, laid: Entries::new(), drift: BTreeMap::new() }
    }

    /// Paths that are known of it.
    pub(super) fn len(&self) -> usize {
        self.laid.len() + self.drift.len()
    }

    /// Bytes that it takes on the disk, about.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.laid.values().map(|laid| laid.entry.what.disk_bytes()).sum()
    }

    /// What makes it what the manifest says. Nothing else differs then.
    pub(super) fn plan(&self, told: &Manifest) -> Plan {
        let mut plan = Plan::default();
        for (path, wanted) in &told.entries {
            self.consider(path, wanted.as_ref(), &mut plan);
        }
        let untold = |path: &Path| !told.entries.contains_key(path);
        match told.head.difference {
            Difference::Whole => {
                self.laid.keys().filter(|path| untold(path)).for_each(|path| self.consider(path, None, &mut plan));
            }
            Difference::Since => {
                let drift = self.drift.iter().filter(|(path, _)| untold(path));
                drift.for_each(|(path, was)| self.consider(path, was.as_ref(), &mut plan));
            }
        }
        plan.remove = topmost(plan.remove);
        plan.make.sort_by(|(one, _), (other, _)| one.cmp(other));
        plan
    }

    fn consider(&self, path: &Path, wanted: Option<&Entry>, plan: &mut Plan) {
        match (self.laid.get(path), wanted) {
            (None, None) => {}
            (Some(_), None) => plan.remove.push(path.clone()),
            (None, Some(wanted)) => plan.make.push((path.clone(), wanted.clone())),
            (Some(laid), Some(wanted)) if laid.entry.what.has_content_of(&wanted.what) => {
                if laid.entry.what != wanted.what || self.drift.contains_key(path) {
                    plan.fix.push((path.clone(), wanted.clone()));
                }
            }
            (Some(_), Some(wanted)) => {
                plan.remove.push(path.clone());
                plan.make.push((path.clone(), wanted.clone()));
            }
        }
    }

    /// Takes note that these are gone.
    pub(super) fn removed(&mut self, paths: &[Path]) {
        for path in paths {
            if self.laid.remove(path).is_some_and(|laid| laid.entry.what.is_directory()) {
                self.below(path).iter().for_each(|path| drop(self.laid.remove(path)));
            }
        }
    }

    /// What stands below a path.
    pub(super) fn below(&self, path: &str) -> Vec<Path> {
        let below = format!("{path}/");
        let from = (Bound::Included(below.as_str()), Bound::Unbounded);
        let paths = self.laid.range::<str, _>(from).map(|(path, _)| path);
        paths.take_while(|path| path.starts_with(&below)).cloned().collect()
    }
}

impl Plan {
    /// Bytes that it brings to the disk, about.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.make.iter().map(|(_, entry)| entry.what.disk_bytes()).sum()
    }

    /// The files that come, and all else that comes, each by path.
    pub(super) fn split_off_files(&mut self) -> Vec<(Path, Entry)> {
        let (files, rest) =
            std::mem::take(&mut self.make).into_iter().partition(|(_, entry)| matches!(entry.what, What::File { .. }));
        self.make = rest;
        files
    }
}

/// The paths that are not below another of them.
pub(super) fn topmost(mut paths: Vec<Path>) -> Vec<Path> {
    paths.sort();
    paths.dedup();
    let is_top =
        |path: &Path| !ancestors(path).any(|above| paths.binary_search_by(|known| (**known).cmp(above)).is_ok());
    paths.iter().filter(|path| is_top(path)).cloned().collect()
}

#[cfg(test)]
mod tests;
