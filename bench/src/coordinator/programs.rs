//! The programs that are measured, built the way they are shipped.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Where the built programs are.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) coordinator: PathBuf,
    pub(crate) worker: PathBuf,
}

impl Programs {
    /// Builds what is not up to date, beside this program.
    pub(crate) fn build() -> Result<Self> {
        let status = Command::new("cargo")
            .args(["build", "--release", "--quiet", "-p", "coordinator", "-p", "worker"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .context("running cargo, which builds the programs to measure")?;
        ensure!(status.success(), "the programs to measure do not build");
        let directory = std::env::current_exe()?.parent().context("no directory of this program")?.to_owned();
        Ok(Self { coordinator: directory.join("cw-coordinator"), worker: directory.join("cw-worker") })
    }
}
