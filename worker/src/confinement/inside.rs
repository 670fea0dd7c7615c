//! Where a task finds what is its own: at the same places in every confinement that has mounts, else where it really is.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The places, as the task names them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Inside {
    /// Where it works.
    pub(crate) work: String,
    /// Its home.
    pub(crate) home: String,
    /// Its temporary files.
    pub(crate) temporary: String,
    /// Its code and input, read-only.
    pub(crate) task: String,
    /// This program.
    pub(crate) init: String,
}

impl Inside {
    /// Behind mounts.
    pub(crate) fn mounted() -> Self {
        Self {
            work: super::WORK.into(),
            home: super::HOME.into(),
            temporary: super::TEMPORARY.into(),
            task: super::TASK.into(),
            init: super::INIT.into(),
        }
    }

    /// In the attempt's directory itself.
    pub(crate) fn bare(directory: &Path) -> Self {
        let below = |name: &str| directory.join(name).display().to_string();
        Self {
            work: below("work"),
            home: below("home"),
            temporary: below("tmp"),
            task: below("task"),
            init: below("init"),
        }
    }

    /// The directories in which it may write.
    pub(crate) fn writable(&self) -> [&str; 3] {
        [&self.work, &self.home, &self.temporary]
    }
}
