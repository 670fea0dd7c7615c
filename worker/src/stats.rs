//! What the worker counts, for /metrics and /readyz.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use protocol::Reason;

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    busy: AtomicUsize,
    started: AtomicU64,
    released: AtomicU64,
    lost: AtomicU64,
    ended: Mutex<BTreeMap<Reason, u64>>,
    draining: AtomicBool,
}

impl Stats {
    /// So many slots are taken.
    pub(crate) fn busy(&self, slots: usize) {
        self.busy.store(slots, Relaxed);
    }

    pub(crate) fn started(&self) {
        self.started.fetch_add(1, Relaxed);
    }

    pub(crate) fn released(&self) {
        self.released.fetch_add(1, Relaxed);
    }

    pub(crate) fn lost(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    pub(crate) fn ended(&self, reason: Reason) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner).entry(reason).or_default() += 1;
    }

    pub(crate) fn draining(&self) {
        self.draining.store(true, Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// The counters as Prometheus reads them.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let head = |name: &str, kind: &str, help: &str| {
            format!("# HELP cw_worker_{name} {help}\n# TYPE cw_worker_{name} {kind}\n")
        };
        text += &head("slots_busy", "gauge", "Attempts that run.");
        let _ = writeln!(text, "cw_worker_slots_busy {}", self.busy.load(Relaxed));
        for (name, help, count) in [
            ("tasks_started_total", "Attempts that were begun.", &self.started),
            ("tasks_released_total", "Tasks that were given back.", &self.released),
            ("leases_lost_total", "Attempts whose result was dropped because the lease was over.", &self.lost),
        ] {
            text += &head(name, "counter", help);
            let _ = writeln!(text, "cw_worker_{name} {}", count.load(Relaxed));
        }
        text += &head("tasks_ended_total", "counter", "Attempts that ended, by reason.");
        for (reason, count) in self.ended.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(text, "cw_worker_tasks_ended_total{{reason=\"{reason}\"}} {count}");
        }
        text
    }
}
