//! What an attempt's processes use: watched while they live where a cgroup counts it, and told at their end.

use std::time::Duration;

use protocol::Outcome;
use tokio::time::{Instant, sleep};

use crate::confinement::cgroup::{Cgroup, Counted};
use crate::confinement::wire::End;

/// Between two looks at the cgroup.
const PACE: Duration = Duration::from_millis(100);

/// The cgroup of an attempt whose processes live.
pub(super) struct Watch<'attempt> {
    cgroup: Option<&'attempt Cgroup>,
    cpu_s: Option<u32>,
    /// When the program began, and what its cgroup had used until then.
    began: Option<(Instant, u64)>,
}

impl<'attempt> Watch<'attempt> {
    pub(super) const fn new(cgroup: Option<&'attempt Cgroup>, cpu_s: Option<u32>) -> Self {
        Self { cgroup, cpu_s, began: None }
    }

    /// From now on it is the program that uses something.
    pub(super) fn begin(&mut self) {
        self.began = Some((Instant::now(), self.cgroup.and_then(Cgroup::cpu_ms).unwrap_or(0)));
    }

    /// Waits until a limit is passed that the cgroup counts. The kernel may end only one process of several for want of
    /// memory: that is the end of the attempt all the same. Safe to cancel.
    pub(super) async fn passed(&self) -> Outcome {
        let Some(cgroup) = self.cgroup else { return std::future::pending().await };
        loop {
            sleep(PACE).await;
            if cgroup.is_out_of_memory() {
                return Outcome::Oom;
            }
            let is_over = |cpu_s: u32| self.cpu_ms(cgroup.cpu_ms()).is_some_and(|ms| ms > u64::from(cpu_s) * 1000);
            if self.cpu_s.is_some_and(is_over) {
                return Outcome::CpuLimit;
            }
        }
    }

    /// How long ago the program began.
    pub(super) fn wall_ms(&self) -> u64 {
        self.began.map_or(0, |(began_at, _)| u64::try_from(began_at.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// What the cgroup counted, without what it took to build the confinement.
    pub(super) fn own(&self, counted: Counted) -> Counted {
        Counted { cpu_ms: self.cpu_ms(counted.cpu_ms), ..counted }
    }

    fn cpu_ms(&self, counted_ms: Option<u64>) -> Option<u64> {
        let before_ms = self.began.map_or(0, |(_, before_ms)| before_ms);
        counted_ms.map(|ms| ms.saturating_sub(before_ms))
    }
}

/// What the processes used, and who says so.
#[derive(Debug, Clone, Default)]
pub(super) struct Used {
    /// From the start of the program to the end of its last process; none when there was none.
    pub(super) wall_ms: u64,
    pub(super) cpu_ms: Option<u64>,
    pub(super) peak_memory_bytes: Option<u64>,
    pub(super) source: &'static str,
}

impl Used {
    /// As pid 1 tells, or the cgroup where there is one, or else the worker's own clock.
    pub(super) fn new(end: Option<&End>, counted: Option<Counted>, wall_ms: u64) -> Self {
        let (cpu_ms, peak) = (end.map(|end| end.cpu_ms), end.map(|end| end.peak_memory_bytes));
        let is_sampled = end.is_some_and(|end| end.is_sampled);
        let wall_ms = end.map_or(wall_ms, |end| end.wall_ms);
        let Some(counted) = counted else {
            let source = if is_sampled { "sampled" } else { "rusage" };
            return Self { wall_ms, cpu_ms, peak_memory_bytes: peak, source };
        };
        // The program runs before the worker hears of it, so that the cgroup may say too little.
        let cpu_ms = counted.cpu_ms.max(cpu_ms);
        Self { wall_ms, cpu_ms, peak_memory_bytes: counted.peak_memory_bytes.max(peak), source: "cgroup" }
    }
}
