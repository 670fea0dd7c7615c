//! Processor time of all processes, those that are gone too. The kernel adds the time of a child to whoever reaps it; a
//! parent that ignores SIGCHLD reaps nobody, so that the time is lost: it is missed here, and added.

use std::collections::HashMap;

use super::processes::Process;

/// A process by its pid and beginning.
type Id = (u32, u64);

/// What was seen so far, in ticks.
#[derive(Debug, Default)]
pub(super) struct CpuAccount {
    seen: HashMap<Id, Times>,
    /// What those had used that are gone.
    gone: u64,
    /// What was found again with those that reaped them.
    found: u64,
    /// What pid 1 found at the last look.
    by_init: u64,
    total: u64,
}

#[derive(Debug, Clone, Copy)]
struct Times {
    own: u64,
    reaped: u64,
}

impl CpuAccount {
    /// Adds a look; says the processor time so far, in milliseconds.
    pub(super) fn update(&mut self, processes: &[Process]) -> u64 {
        self.add(processes, reaped_ms() / tick_ms());
        self.total_ms()
    }

    /// The processor time so far, in milliseconds.
    pub(super) fn total_ms(&self) -> u64 {
        self.total * tick_ms()
    }

    fn add(&mut self, processes: &[Process], by_init: u64) {
        let times = |process: &Process| Times { own: process.ticks, reaped: process.reaped_ticks };
        let now: HashMap<Id, Times> =
            processes.iter().map(|process| ((process.pid, process.started), times(process))).collect();
        for (id, before) in &self.seen {
            if !now.contains_key(id) {
                // Both figures were rounded: what may be the rounding does not count.
                self.gone += (before.own + before.reaped).saturating_sub(1);
            }
        }
        for (id, times) in &now {
            let before = self.seen.get(id).map_or(0, |before| before.reaped);
            self.found += times.reaped.saturating_sub(before);
        }
        self.found += by_init.saturating_sub(self.by_init);
        let living: u64 = now.values().map(|times| times.own + times.reaped).sum();
        // Between two looks a child may be gone that is found only at the next: nothing is settled for good.
        self.total = living + by_init + self.gone.saturating_sub(self.found);
        (self.seen, self.by_init) = (now, by_init);
    }
}

/// Processor time of those that this process reaped.
fn reaped_ms() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return 0 };
    let ms = |time: nix::sys::time::TimeVal| time.tv_sec() * 1000 + time.tv_usec() / 1000;
    u64::try_from(ms(usage.user_time()) + ms(usage.system_time())).unwrap_or(0)
}

fn tick_ms() -> u64 {
    (1000 / rustix::param::clock_ticks_per_second().max(1)).max(1)
}

#[cfg(test)]
mod tests;
