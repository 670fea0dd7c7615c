//! What the store does with workspaces, as operations of the writing thread and of the readers.

use std::sync::Arc;

use protocol::workspace::{Restored, SessionView, SnapshotView, Staged};
use protocol::{SessionName, StageId, Timestamp};

use super::{Sqlite, checkouts, files, stages, tree, workspaces};
use crate::clock::Now;
use crate::lifecycle::Holder;
use crate::store::types::{
    Changed, Checkout, Durability, FileChange, SessionFilter, SessionRules, SessionToMake, StageRoom, StagedRow,
    StoreError, StoredEntry, StoredSession, Tree,
};

type Result<T> = std::result::Result<T, StoreError>;
type Rules = Arc<SessionRules>;

/// Who asks for a version, and by which rules.
type Asked = (String, Rules, Now);

impl Sqlite {
    pub(in crate::store) async fn create_session(
        &self,
        new: SessionToMake,
        rules: Rules,
        now: Now,
    ) -> Result<StoredSession> {
        self.writer.run(Durability::Power, move |db| workspaces::create(db, &new, &rules, now)).await
    }

    pub(in crate::store) async fn session(&self, name: SessionName, rules: Rules) -> Result<Option<StoredSession>> {
        self.readers.run(move |db| workspaces::session(db, &name, &rules)).await
    }

    pub(in crate::store) async fn sessions(
        &self,
        filter: SessionFilter,
        rules: Rules,
    ) -> Result<(Vec<SessionView>, bool)> {
        self.readers.run(move |db| workspaces::list(db, &filter, &rules)).await
    }

    pub(in crate::store) async fn delete_session(&self, name: SessionName) -> Result<()> {
        self.writer.run(Durability::Power, move |db| workspaces::delete(db, &name)).await
    }

    pub(in crate::store) async fn touch_sessions(&self, used: Vec<(SessionName, Timestamp)>) -> Result<()> {
        self.writer.run(Durability::Process, move |db| workspaces::touch(db, &used)).await
    }

    pub(in crate::store) async fn unused_sessions(&self, before: Timestamp) -> Result<Vec<SessionName>> {
        self.readers.run(move |db| workspaces::unused(db, before)).await
    }

    pub(in crate::store) async fn fork_session(
        &self,
        of: SessionName,
        new: SessionToMake,
        snapshot: Option<String>,
        (_, rules, now): Asked,
    ) -> Result<StoredSession> {
        let fork = move |db: &_| workspaces::fork(db, &of, &new, snapshot.as_deref(), (&rules, now));
        self.writer.run(Durability::Power, fork).await
    }

    pub(in crate::store) async fn snapshots(&self, of: SessionName) -> Result<Vec<SnapshotView>> {
        self.readers.run(move |db| workspaces::snapshots(db, &of)).await
    }

    pub(in crate::store) async fn snapshot_tree(&self, of: SessionName, name: String) -> Result<Tree> {
        self.readers.run(move |db| workspaces::snapshot_tree(db, &workspaces::existing(db, &of)?, &name)).await
    }

    pub(in crate::store) async fn keep_snapshot(
        &self,
        of: SessionName,
        name: String,
        now: Now,
    ) -> Result<SnapshotView> {
        let keep = move |db: &_| workspaces::keep(db, &workspaces::existing(db, &of)?, &name, now);
        self.writer.run(Durability::Power, keep).await
    }

    pub(in crate::store) async fn forget_snapshot(&self, of: SessionName, name: String) -> Result<()> {
        self.writer.run(Durability::Power, move |db| workspaces::forget(db, &of, &name)).await
    }

    pub(in crate::store) async fn restore(
        &self,
        of: SessionName,
        snapshot: String,
        (by, rules, now): Asked,
    ) -> Result<Restored> {
        let restore = move |db: &_| workspaces::restore(db, &of, &snapshot, &by, (&rules, now));
        self.writer.run(Durability::Power, restore).await
    }

    pub(in crate::store) async fn entry(&self, tree: Tree, path: String) -> Result<Option<StoredEntry>> {
        self.readers.run(move |db| tree::at(db, tree, &path)).await
    }

    pub(in crate::store) async fn children(&self, tree: Tree, directory: String) -> Result<Vec<StoredEntry>> {
        self.readers.run(move |db| tree::children(db, tree, &directory)).await
    }

    pub(in crate::store) async fn walk(
        &self,
        tree: Tree,
        below: String,
        after: String,
        limit: u32,
    ) -> Result<Vec<StoredEntry>> {
        self.readers.run(move |db| tree::walk(db, tree, &below, &after, limit)).await
    }

    pub(in crate::store) async fn change_files(&self, change: FileChange, rules: Rules, now: Now) -> Result<Changed> {
        self.writer.run(Durability::Power, move |db| files::change(db, change, &rules, now)).await
    }

    pub(in crate::store) async fn check_out(
        &self,
        holder: Holder,
        since: Option<u64>,
        rules: Rules,
    ) -> Result<Checkout> {
        self.writer.run(Durability::Process, move |db| checkouts::check_out(db, holder, since, &rules)).await
    }

    pub(in crate::store) async fn touched(&self, tree: Tree, since: u64) -> Result<Vec<String>> {
        self.readers.run(move |db| tree::touched(db, tree.session, since, tree.version)).await
    }

    pub(in crate::store) async fn compare(
        &self,
        tree: Tree,
        since: u64,
        paths: Vec<String>,
    ) -> Result<Vec<(String, Option<StoredEntry>)>> {
        self.readers.run(move |db| checkouts::compare(db, tree, since, paths)).await
    }

    pub(in crate::store) async fn contents(
        &self,
        holder: Holder,
        sums: Vec<String>,
    ) -> Result<Vec<Option<(String, u64)>>> {
        self.readers.run(move |db| checkouts::contents(db, holder, &sums)).await
    }

    pub(in crate::store) async fn begin_stage(
        &self,
        holder: Holder,
        stage: StageId,
        base: u64,
        rules: Rules,
    ) -> Result<StageRoom> {
        self.writer.run(Durability::Process, move |db| stages::begin(db, holder, stage, base, &rules)).await
    }

    pub(in crate::store) async fn add_to_stage(
        &self,
        holder: Holder,
        stage: StageId,
        rows: Vec<StagedRow>,
    ) -> Result<()> {
        self.writer.run(Durability::Process, move |db| stages::add(db, holder, stage, &rows)).await
    }

    pub(in crate::store) async fn seal_stage(&self, holder: Holder, stage: StageId) -> Result<Staged> {
        self.writer.run(Durability::Power, move |db| stages::seal(db, holder, stage)).await
    }

    pub(in crate::store) async fn has_dead_stages(&self) -> Result<bool> {
        self.readers.run(stages::has_dead).await
    }

    pub(in crate::store) async fn drop_dead_stages(&self) -> Result<u64> {
        self.writer.run(Durability::Process, stages::drop_dead).await
    }
}
