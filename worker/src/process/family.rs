//! The worker's own children, so that a process that lost its supervisor is found and ended.
//!
//! A task can kill or stop its supervisor: both have the same user. What it leaves then falls to the worker, the next reaper
//! above, and is told from the supervisors by this list.

use std::collections::HashSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::process::{Child, Command};

use super::tree;

const LONGEST_SWEEP: Duration = Duration::from_secs(5);

/// The supervisors that live.
#[derive(Debug, Default)]
pub(crate) struct Family {
    supervisors: Mutex<HashSet<u32>>,
}

impl Family {
    /// Makes this process the reaper of whatever loses its parent below it, and unreadable for other processes of
    /// the same user: the key is in its memory.
    pub(crate) fn found() -> io::Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
        Ok(Self::default())
    }

    /// Starts a supervisor. The list is held meanwhile, so that no sweep takes it for an orphan.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let mut supervisors = self.list();
        let child = command.spawn()?;
        supervisors.extend(child.id());
        Ok(child)
    }

    /// Takes a dead supervisor from the list.
    pub(crate) fn forget(&self, pid: u32) {
        self.list().remove(&pid);
    }

    /// Ends every process that fell to the worker. Blocks until they are gone, 5 s at most; says whether they are.
    pub(crate) fn end_orphans(&self) -> bool {
        let give_up_at = Instant::now() + LONGEST_SWEEP;
        let us = rustix::process::getpid();
        loop {
            let supervisors = self.list();
            let is_orphan = |pid: &Pid| !supervisors.contains(&pid.as_raw_nonzero().get().unsigned_abs());
            let orphans: Vec<Pid> = tree::children(us).into_iter().filter(is_orphan).collect();
            for orphan in &orphans {
                end(*orphan);
            }
            drop(supervisors);
            if orphans.is_empty() || Instant::now() > give_up_at {
                return orphans.is_empty();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends every process below the worker, the supervisors too, stopped or not. Nothing may be started any more.
    pub(crate) fn end_all(&self) -> bool {
        self.list().clear();
        self.end_orphans()
    }

    fn list(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.supervisors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills a process and all below it, and reaps it if it is dead already.
fn end(orphan: Pid) {
    for pid in tree::descendants(orphan) {
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = kill_process(orphan, Signal::KILL);
    let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
}
