//! Whom the last stage signals when it ends a task: every process that came of it, and nobody else.

use std::collections::HashSet;

use anyhow::ensure;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid as NixPid;
use rustix::process::{Pid, getpid, set_child_subreaper};

use super::super::Level;
use crate::process::tree;

/// How often to look for orphans that were made while others were killed, before the loop reaps.
const ROUNDS: u32 = 1000;

/// Everything that came of the task.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reach {
    /// This is pid 1 of a namespace that holds nothing else.
    Namespace,
    /// What descends from this process, which reaps whoever loses a parent below it.
    Descendants,
}

impl Reach {
    /// Makes sure that it is so.
    pub(super) fn claim(level: Level) -> anyhow::Result<Self> {
        if level.has_namespaces() {
            ensure!(std::process::id() == 1, "this is started by `cw-worker run`, not by hand");
            return Ok(Self::Namespace);
        }
        set_child_subreaper(Some(getpid()))?;
        Ok(Self::Descendants)
    }

    pub(super) fn signal_all(self, signal: Signal) {
        match (self, signal) {
            (Self::Namespace, _) => drop(kill(NixPid::from_raw(-1), signal)),
            (Self::Descendants, Signal::SIGKILL) => kill_children(),
            (Self::Descendants, _) => tree::descendants(getpid()).into_iter().for_each(|pid| send(pid, signal)),
        }
    }
}

/// Who is killed leaves its children to this process, so that they are killed next. To look at the children alone is fast,
/// faster than processes can flee by making others; and until this process reaps one, its pid is nobody else's.
fn kill_children() {
    let mut killed = HashSet::new();
    for _ in 0..ROUNDS {
        let mut children = tree::own_children();
        children.retain(|child| killed.insert(*child));
        if children.is_empty() {
            return;
        }
        children.into_iter().for_each(|child| send(child, Signal::SIGKILL));
    }
}

fn send(pid: Pid, signal: Signal) {
    let _ = kill(NixPid::from_raw(pid.as_raw_nonzero().get()), signal);
}
