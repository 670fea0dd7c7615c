//! What is built around one task, decided before anything is done: pure functions of spec, policy and place.
//!
//! ```text
//!  worker ──> enter ──────────────> bwrap ──────────────> init (pid 1) ───────> program
//!             uid of the slot,      pids, ipc, uts,        listeners, return      user namespace, rlimits,
//!             cgroups; user, mount  mounts, capabilities   value, limits, reaping no-new-privs, seccomp
//!             and net namespaces
//! ```
//!
//! `enter` and `init` are this program again. Plans go to them over a socket, never in an argument. Nothing here touches
//! the system; `enter`, `init` and `apply` do. Below the level `bwrap` there is no bubblewrap between the two and there are
//! no namespaces: `level` says what is left.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use protocol::Spec;
use serde::{Deserialize, Serialize};

use crate::config::{CgroupUse, Walls};
use crate::directory::{Directory, Place};
use crate::language::PATH;
use crate::state::StateDir;
use cgroup::{Cgroup, Hierarchy};
use check::{Bare, Sight};
use mounts::System;

pub(crate) mod advice;
pub(crate) mod apply;
pub(crate) mod cgroup;
pub(crate) mod check;
pub(crate) mod crowd;
pub(crate) mod enter;
pub(crate) mod etc;
pub(crate) mod exceed;
pub(crate) mod gvisor;
pub(crate) mod init;
pub(crate) mod inside;
pub(crate) mod level;
pub(crate) mod limits;
pub(crate) mod mounts;
pub(crate) mod probe;
pub(crate) mod rules;
pub(crate) mod sampler;
pub(crate) mod seccomp;
pub(crate) mod wire;

pub(crate) use inside::Inside;
pub(crate) use level::Level;
pub(crate) use limits::Enforced;

/// Where the task works.
pub(crate) const WORK: &str = "/workspace";
/// The task's home.
pub(crate) const HOME: &str = "/home/task";
/// The task's temporary files.
pub(crate) const TEMPORARY: &str = "/tmp";
/// The task's code and input, read-only.
pub(crate) const TASK: &str = "/task";
/// This program, for the stage that is pid 1.
pub(crate) const INIT: &str = "/run/cw/init";

/// What the operator decided for all tasks of this worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    /// How much there is around them.
    pub(crate) level: Level,
    /// What makes their namespaces, at a level that has some.
    pub(crate) maker: Option<Maker>,
    /// The first of the uids that a root worker gives its slots; none when the worker is not root.
    pub(crate) first_uid: Option<u32>,
    /// Directories that tasks may read beside the system's.
    pub(crate) ro_mounts: Vec<PathBuf>,
}

/// Bubblewrap, and what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Maker {
    /// The bubblewrap to use.
    pub(crate) bwrap: PathBuf,
    /// Where `enter` mounts the attempt's directory for bubblewrap.
    pub(crate) staging: &'static str,
}

/// The plans of both stages, as far as they need no task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stages {
    pub(crate) enter: Enter,
    pub(crate) inner: Inner,
}

/// What `enter` does before it becomes the next stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Enter {
    /// Where all attempts have their directories.
    pub(crate) attempts: PathBuf,
    /// The attempt's own: its parts are what bubblewrap mounts.
    pub(crate) directory: String,
    /// The slot's user, when the worker is root.
    pub(crate) uid: Option<u32>,
    /// The cgroups to join.
    pub(crate) cgroups: Vec<PathBuf>,
    /// What it becomes.
    pub(crate) next: Next,
}

/// The stage after `enter`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Next {
    /// Bubblewrap with its arguments, in new namespaces; it takes the attempt's parts from `staging`.
    Bubblewrap {
        staging: PathBuf,
        /// Whether the attempt gets the /etc that all share.
        shares_etc: bool,
        /// The overlays of a session, in the directory of attempts.
        overlays: Option<String>,
        command: Vec<String>,
    },
    /// `init` itself, in the namespaces of the worker.
    Init,
}

/// What a task of a session is shown at its working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Whether it may only read.
    pub(crate) is_read_only: bool,
    /// Where the overlays are, in the directory of attempts.
    pub(crate) overlays: String,
}

/// What `init` puts around the process that will be the program, before there is a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inner {
    /// How much there is around it.
    pub(crate) level: Level,
    /// What the task may read, and start.
    pub(crate) reads: Vec<String>,
    /// Where it may write.
    pub(crate) writes: Vec<String>,
}

/// What `init` starts and watches over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Init {
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    /// All of its environment.
    pub(crate) env: BTreeMap<String, String>,
    /// The file that it reads; nothing when absent.
    pub(crate) stdin: Option<String>,
    /// Whether it may hand back a value over a descriptor of its own.
    pub(crate) returns: bool,
    /// Addresses to listen on for the worker, in this order.
    pub(crate) binds: Vec<SocketAddr>,
    /// Where the task finds what is its own.
    pub(crate) inside: Inside,
    /// What it may use.
    pub(crate) limits: Enforced,
    /// Processes and threads that count with its own and are not: `init` fills it in.
    pub(crate) others: u64,
}

/// What runs inside, before the walls are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Program {
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    /// All of its environment.
    pub(crate) env: BTreeMap<String, String>,
    /// Whether it may hand back a value.
    pub(crate) returns: bool,
    /// Addresses to listen on for the worker.
    pub(crate) binds: Vec<SocketAddr>,
}

/// What this worker builds around each task: the policy, and the machine as it was found.
#[derive(Debug)]
pub(crate) struct Confinement {
    pub(crate) policy: Policy,
    pub(crate) system: Vec<System>,
    /// Where cgroups can be made; none when they cannot, or must not.
    pub(crate) hierarchy: Option<Hierarchy>,
    /// What was seen of cgroups when their limits were tried.
    pub(crate) cgroup_seen: String,
    /// Where attempts have their directories.
    pub(crate) attempts: PathBuf,
    /// The program that is pid 1, where every attempt can link it.
    pub(crate) init: PathBuf,
}

impl Confinement {
    /// Looks at the machine, and decides.
    ///
    /// # Errors
    /// When the level is not to be had, bubblewrap is missing, or cgroups are required and cannot be made.
    pub(crate) fn found(walls: &Walls, state: &StateDir) -> anyhow::Result<Self> {
        let is_root = rustix::process::getuid().is_root();
        let level = Level::decide(walls.confinement, is_root)?;
        let (hierarchy, cgroup_seen) = cgroups(walls.cgroup)?;
        state.make_etc()?;
        let policy = Policy {
            level,
            maker: if level.has_namespaces() { Some(Maker::find(walls)?) } else { None },
            first_uid: is_root.then_some(walls.task_uid),
            ro_mounts: walls.ro_mounts.clone(),
        };
        if !level.has_namespaces() {
            state.open_way(&walls.state_dir)?;
        }
        Ok(Self {
            policy,
            system: mounts::system(),
            hierarchy,
            cgroup_seen,
            attempts: state.attempts(),
            init: state.init(),
        })
    }

    /// Where the attempt in this slot has its directory.
    pub(crate) fn place(&self, slot: u32) -> Place<'_> {
        Place {
            attempts: &self.attempts,
            init: &self.init,
            owner: self.policy.uid(slot),
            is_mounted: self.level().has_namespaces(),
        }
    }

    /// A cgroup for the attempt, when there can be one. It must be removed when all is over.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn cgroup(&self, directory: &Directory) -> std::io::Result<Option<Cgroup>> {
        self.hierarchy.as_ref().map(|found| found.make(&directory.name())).transpose()
    }

    /// What this worker confines tasks by.
    pub(crate) const fn level(&self) -> Level {
        self.policy.level
    }

    /// Why attempts get no cgroup, when they get none.
    pub(crate) fn lacks_cgroups(&self) -> Option<&str> {
        self.hierarchy.is_none().then_some(self.cgroup_seen.as_str())
    }

    /// What a program that tries the walls must find.
    pub(crate) fn sight(&self, bait: SocketAddr, inside: Inside) -> Sight {
        if self.level().has_namespaces() {
            return Sight::Inside(bait);
        }
        let state = self.attempts.parent().unwrap_or(&self.attempts);
        let closed = ["/", "/root", "/home"].map(Path::new).into_iter().chain([state, &self.attempts]);
        Sight::Bare(Bare {
            bait,
            inside,
            uid: self.policy.uid(0),
            closed: closed.map(|path| path.display().to_string()).collect(),
            changeable: vec![self.init.display().to_string()],
        })
    }

    /// The words for what can be asked of a run, beside its language.
    pub(crate) fn offers(&self) -> &'static [&'static str] {
        self.level().offers(self.hierarchy.is_some())
    }

    /// The walls that can be built before the task is known, but for its memory and the session that it is shown.
    pub(crate) fn stages(
        &self,
        (directory, cgroup): (&Directory, Option<&Cgroup>),
        slot: u32,
        memory_bytes: u64,
        shown: Option<&Shown>,
    ) -> Stages {
        let next = match &self.policy.maker {
            Some(maker) => Next::Bubblewrap {
                staging: maker.staging.into(),
                shares_etc: directory.may_share(),
                overlays: shown.map(|shown| shown.overlays.clone()),
                command: mounts::arguments(
                    maker,
                    &self.policy.ro_mounts,
                    &self.system,
                    memory_bytes.saturating_mul(2),
                    shown,
                ),
            },
            None => Next::Init,
        };
        let enter = Enter {
            attempts: self.attempts.clone(),
            directory: directory.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            uid: self.policy.uid(slot),
            cgroups: cgroup.map(|cgroup| cgroup.directories().to_vec()).unwrap_or_default(),
            next,
        };
        Stages { enter, inner: rules::plan(&self.policy, &directory.inside()) }
    }

    /// Removes the cgroups of workers that are dead.
    pub(crate) fn sweep(&self) {
        if let Some(hierarchy) = &self.hierarchy {
            hierarchy.sweep();
        }
    }
}

/// Where cgroups can be made and hold, and what was seen of them.
fn cgroups(wanted: CgroupUse) -> anyhow::Result<(Option<Hierarchy>, String)> {
    if wanted == CgroupUse::Off {
        return Ok((None, format!("{}: memory and processor time are sampled instead", advice::SWITCHED_OFF)));
    }
    let found = Hierarchy::find().ok_or_else(|| "none can be made here".to_owned());
    match found.and_then(|found| Ok((exceed::prove(&found)?, found))) {
        Ok((seen, found)) => Ok((Some(found), seen)),
        Err(why) if wanted == CgroupUse::Require => bail!(
            "--cgroup require: {why}; run the worker as root or in a systemd unit with Delegate=yes, or give --cgroup auto"
        ),
        Err(why) => Ok((None, format!("{why}: memory and processor time are sampled instead"))),
    }
}

impl Init {
    /// What runs inside, and within what limits.
    pub(crate) fn new(program: Program, spec: &Spec, inside: Inside, limits: Enforced) -> Self {
        let Program { argv, env, returns, binds } = program;
        let stdin = spec.stdin.as_ref().map(|_| format!("{}/stdin", inside.task));
        Self { argv, env, stdin, returns, binds, inside, limits, others: 0 }
    }
}

impl Maker {
    fn find(walls: &Walls) -> anyhow::Result<Self> {
        let staging = mounts::staging(&walls.ro_mounts)
            .context("no directory such as /mnt or /srv is free to mount on: leave one out of --ro-mount")?;
        Ok(Self { bwrap: probe::find_bwrap(PATH)?, staging })
    }
}

impl Policy {
    /// The user of a slot, when the worker is root.
    pub(crate) fn uid(&self, slot: u32) -> Option<u32> {
        self.first_uid.map(|first| first + slot)
    }
}
