//! All that descends from the worker. It knows the stages that it started; any other child is an orphan of a stage that
//! was killed, and is ended. One thread starts them all, because what dies with its parent dies with the thread.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use super::tree;
use crate::confinement::apply::keep_descriptors;

const LONGEST_SWEEP: Duration = Duration::from_secs(5);

/// The first stages that live, and the thread that starts them.
#[derive(Debug)]
pub(crate) struct Family {
    stages: Arc<Mutex<HashSet<u32>>>,
    spawner: mpsc::Sender<Birth>,
}

/// Something to start, and who wants to know.
type Birth = (Command, oneshot::Sender<io::Result<Child>>);

impl Family {
    /// Makes this process the reaper of whatever loses its parent below it, and unreadable for other processes of
    /// the same user: the key is in its memory. Must be called inside the runtime.
    pub(crate) fn found() -> io::Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
        keep_descriptors()?;
        let (spawner, births) = mpsc::channel();
        let stages = Arc::new(Mutex::new(HashSet::new()));
        let (runtime, known) = (tokio::runtime::Handle::current(), Arc::clone(&stages));
        std::thread::Builder::new().name("spawner".into()).spawn(move || {
            let _inside = runtime.enter();
            for birth in births {
                give_birth(&known, birth);
            }
        })?;
        Ok(Self { stages, spawner })
    }

    /// Starts a first stage.
    pub(crate) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (tell, told) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts processes is gone");
        self.spawner.send((command, tell)).map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    /// Takes a dead stage from the list.
    pub(crate) fn forget(&self, pid: u32) {
        list(&self.stages).remove(&pid);
    }

    /// Ends every process that fell to the worker. Blocks until they are gone, 5 s at most; says whether they are.
    pub(crate) fn end_orphans(&self) -> bool {
        let give_up_at = Instant::now() + LONGEST_SWEEP;
        let us = rustix::process::getpid();
        loop {
            let stages = list(&self.stages);
            let is_orphan = |pid: &Pid| !stages.contains(&pid.as_raw_nonzero().get().unsigned_abs());
            let orphans: Vec<Pid> = tree::children(us).into_iter().filter(is_orphan).collect();
            for orphan in &orphans {
                end(*orphan);
            }
            drop(stages);
            if orphans.is_empty() || Instant::now() > give_up_at {
                return orphans.is_empty();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends every process below the worker, the stages too. Nothing may be started any more.
    pub(crate) fn end_all(&self) -> bool {
        list(&self.stages).clear();
        self.end_orphans()
    }
}

/// The list is held meanwhile, so that no sweep takes the new one for an orphan.
fn give_birth(stages: &Mutex<HashSet<u32>>, (mut command, tell): Birth) {
    let mut stages = list(stages);
    let child = command.kill_on_drop(true).spawn();
    if let Ok(child) = &child {
        stages.extend(child.id());
    }
    // Who asked may have been cancelled: then the child is dropped, and so killed.
    let _ = tell.send(child);
}

fn list(stages: &Mutex<HashSet<u32>>) -> MutexGuard<'_, HashSet<u32>> {
    stages.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills a process and all below it, and reaps it if it is dead already.
fn end(orphan: Pid) {
    for pid in tree::descendants(orphan) {
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = kill_process(orphan, Signal::KILL);
    let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
}
