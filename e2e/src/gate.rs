//! How a test speaks to a task behind its walls: by files in a directory that workers show to their tasks, read-only.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Where that directory is, below the coordinator's.
#[must_use]
pub fn shared(home: &Path) -> PathBuf {
    home.join("shared")
}

/// Makes it. The users that tasks run as must be able to get there.
pub(crate) fn share(home: &Path) -> io::Result<()> {
    let shared = shared(home);
    fs::create_dir(&shared)?;
    [home, &shared].into_iter().try_for_each(|open| fs::set_permissions(open, Permissions::from_mode(0o755)))
}

/// A gate that tasks wait at until the test opens it.
pub struct Gate(PathBuf);

impl Gate {
    pub(crate) fn new(shared: &Path) -> Self {
        Self(shared.join("gate"))
    }

    /// The line of shell that waits.
    #[must_use]
    pub fn wait(&self) -> String {
        format!("until [ -e {} ]; do sleep 0.02; done", self.0.display())
    }

    /// Lets everyone pass.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn open(&self) -> io::Result<()> {
        fs::write(&self.0, "")
    }
}
