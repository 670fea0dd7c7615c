//! How much of a confinement tasks get: decided once, from what the operator said and from who the worker is. Everything
//! that differs between the levels is asked here.

use anyhow::bail;
use serde::{Deserialize, Serialize};

use crate::config::LevelUse;

/// The walls around a task, from the highest level to the lowest. The worker never takes a lower one by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// Namespaces by bubblewrap, and all that follows.
    Bwrap,
    /// No namespaces: a user for each slot, and what a process can do to itself.
    Process,
    /// The same without another user: the worker is an ordinary user's.
    None,
}

impl Level {
    /// The level that was asked for.
    ///
    /// # Errors
    /// When it is not to be had by this user, with the one that is.
    pub(crate) fn decide(asked: LevelUse, is_root: bool) -> anyhow::Result<Self> {
        match (asked, is_root) {
            (LevelUse::Auto | LevelUse::Bwrap, _) => Ok(Self::Bwrap),
            (LevelUse::Process, true) => Ok(Self::Process),
            (LevelUse::None, false) => Ok(Self::None),
            (LevelUse::Process, false) => bail!(
                "--confinement process: only root can give tasks users of their own; what is left without is called \
                 `none`: --confinement none"
            ),
            (LevelUse::None, true) => bail!(
                "--confinement none: tasks would be root; as root the level without namespaces is `process`: \
                 --confinement process"
            ),
        }
    }

    /// The word for it in results and lease requests.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Bwrap => "bwrap",
            Self::Process => "process",
            Self::None => "none",
        }
    }

    /// What does it, for people.
    pub(crate) const fn means(self) -> &'static str {
        match self {
            Self::Bwrap => "bubblewrap",
            Self::Process => "users of their own, without namespaces",
            Self::None => "seccomp and Landlock alone",
        }
    }

    /// Layers without which no worker starts at this level.
    pub(crate) const fn required(self) -> &'static [&'static str] {
        match self {
            Self::Bwrap => &["uid", "namespaces", "privileges", "seccomp", "rlimits", "files", "network"],
            Self::Process => &["uid", "privileges", "seccomp", "rlimits", "network"],
            Self::None => &["privileges", "seccomp", "rlimits", "network"],
        }
    }

    /// What can be asked of a run, beside its language. Without namespaces only a cgroup holds what a task uses, and there
    /// is no inside to which endpoints could be carried, and nothing that makes a part of a tree read-only.
    pub(crate) const fn offers(self, has_cgroup: bool) -> &'static [&'static str] {
        match (self, has_cgroup) {
            (Self::Bwrap, _) => &["limits", "network:none", "network:restricted", "session"],
            (Self::Process | Self::None, true) => &["limits", "network:none"],
            (Self::Process | Self::None, false) => &["network:none"],
        }
    }

    /// Whether tasks have file systems, processes and a network of their own.
    pub(crate) const fn has_namespaces(self) -> bool {
        match self {
            Self::Bwrap => true,
            Self::Process | Self::None => false,
        }
    }

    /// How the doctor calls a wall that is missing and not required.
    pub(crate) const fn lacks(self) -> &'static str {
        match self {
            Self::Bwrap => "no, extra",
            Self::Process | Self::None => "no",
        }
    }

    /// What to do to get a layer that this level never has.
    pub(crate) fn way_to(self, layer: &str) -> Option<&'static str> {
        match (self, layer) {
            (Self::Process | Self::None, "namespaces" | "files") => Some("--confinement bwrap has it"),
            (Self::None, "uid") => Some("--confinement bwrap has it, and a root worker's --confinement process"),
            (Self::Process | Self::None, "landlock") => Some("Linux 6.12 has all of it, with lsm=…,landlock"),
            (Self::Bwrap | Self::Process | Self::None, _) => None,
        }
    }

    /// Whether the kernel's own limit on processes counts others, too, so that they must be watched.
    pub(crate) const fn counts_processes(self) -> bool {
        match self {
            Self::Bwrap | Self::Process => false,
            Self::None => true,
        }
    }

    /// What every start says of it.
    pub(crate) const fn warning(self) -> Option<&'static str> {
        match self {
            Self::Bwrap => None,
            Self::Process => Some(
                "--confinement process: tasks are NOT in namespaces. They are users of their own on this machine, see \
                 whatever every user sees of it, and only Landlock keeps them from it: run no task that you do not trust",
            ),
            Self::None => Some(
                "--confinement none: tasks run as the worker's OWN USER, without namespaces. Only Landlock keeps them \
                 from that user's files, the worker's key among them: run no task that you do not trust",
            ),
        }
    }

    /// What the doctor says when everything holds that the level has.
    pub(crate) const fn verdict(self) -> &'static str {
        match self {
            Self::Bwrap => "The minimum holds: tasks are confined by bubblewrap.",
            Self::Process => {
                "What --confinement process has holds; it is below the usual minimum: tasks are in no namespaces."
            }
            Self::None => {
                "What --confinement none has holds; it is below the usual minimum: tasks are the worker's own user, in \
                 no namespaces."
            }
        }
    }
}

#[cfg(test)]
mod tests;
