//! One suite for every kind of store: what a store promises, and random sequences of verbs on which the rules, a model and the
//! store must agree.

mod agreement;
mod model;
mod promises;
mod workspaces;

use std::sync::Arc;

use protocol::spec::{Priority, Run, Spec};
use protocol::{KeyId, LeaseId, TaskId, Timestamp, WorkerId, WorkerInfo, WorkerState};

use super::sqlite::Sqlite;
use super::{Ask, NewTask, SessionRules, Store, Ttls};
use crate::clock::Now;

const TTLS: Ttls = Ttls { first_s: 10, code_s: 30, agent_s: 120 };
const KEY: KeyId = KeyId::new(0, 1);

/// A store of some kind, and what must outlive it.
struct Opened {
    store: Store,
    dir: tempfile::TempDir,
}

/// Runs each test against every kind of store.
macro_rules! every_store {
    ($($(#[$meta:meta])* async fn $name:ident($store:ident) $body:block)+) => {
        mod sqlite {
            use super::*;
            $($(#[$meta])* #[tokio::test] async fn $name() { let $store = super::super::open_sqlite(); $body })+
        }
    };
}
use every_store;

fn open_sqlite() -> Opened {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::Sqlite(Sqlite::open(&dir.path().join("queue.db")).unwrap());
    Opened { store, dir }
}

impl Opened {
    /// Closes the store and opens it again, as a restart does.
    async fn reopen(self) -> Self {
        let Self { store, dir } = self;
        store.close().await;
        drop(store);
        let store = Store::Sqlite(Sqlite::open(&dir.path().join("queue.db")).unwrap());
        Self { store, dir }
    }
}

fn at(ms: i64) -> Now {
    Now { at: Timestamp::from_ms(1_000_000 + ms), wall: Timestamp::from_ms(1_000_000 + ms) }
}

fn rules() -> Arc<SessionRules> {
    Arc::new(SessionRules { quota_bytes: 1000, layout: Vec::new() })
}

fn spec(repo: &str, code: &str) -> Spec {
    Spec::new(repo.parse().unwrap(), Run::Python { code: code.into() })
}

fn new(number: u128, spec: Spec) -> NewTask {
    NewTask { id: TaskId::new(0, number), spec, idempotency: None, rules: rules(), only_if_free: false }
}

fn urgent(priority: Priority, spec: Spec) -> Spec {
    Spec { priority, ..spec }
}

fn worker(runs: &[&str]) -> WorkerInfo {
    WorkerInfo {
        id: WorkerId::new(0, 1),
        version: String::new(),
        runs: runs.iter().map(|&word| word.to_owned()).collect(),
        confinement: Vec::new(),
        slots: 1,
        state: WorkerState::Ready,
        why: None,
    }
}

fn ask(number: u128, repos: &[&str], runs: &[&str]) -> Ask {
    Ask {
        worker: worker(runs),
        repos: repos.iter().map(|repo| repo.parse().unwrap()).collect(),
        key: KEY,
        lease: LeaseId::new(0, number),
        ttls: TTLS,
    }
}
