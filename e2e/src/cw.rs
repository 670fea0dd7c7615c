//! `cw` as a user of the coordinator's machine types it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::binaries::binary;
use crate::coordinator::Coordinator;
use crate::program::command;

const LONGEST_RUN: Duration = Duration::from_secs(60);

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// The one JSON value on standard output.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.out).with_context(|| format!("not JSON: {self:?}"))
    }

    /// This run, if it ended with this code.
    ///
    /// # Errors
    /// When it did not.
    pub fn with_code(self, code: i32) -> anyhow::Result<Self> {
        ensure!(self.code == code, "expected exit code {code}: {self:?}");
        Ok(self)
    }
}

impl Coordinator {
    /// Runs `cw` to its end.
    ///
    /// # Errors
    /// When it cannot be run, or does not end within a minute.
    pub async fn cw(&self, args: &[&str]) -> anyhow::Result<Ran> {
        let mut command = self.cw_command()?;
        command.args(args);
        finish(command, "").await
    }

    /// Runs `cw` with this on its standard input.
    ///
    /// # Errors
    /// When it cannot be run, or does not end within a minute.
    pub async fn cw_reading(&self, stdin: &str, args: &[&str]) -> anyhow::Result<Ran> {
        let mut command = self.cw_command()?;
        command.args(args);
        finish(command, stdin).await
    }

    /// A `cw` that is not started yet.
    ///
    /// # Errors
    /// When it was not built.
    pub fn cw_command(&self) -> anyhow::Result<Command> {
        Ok(self.as_user(&binary("cw")?))
    }

    /// Another program in the environment that `cw` gets.
    #[must_use]
    pub fn as_user(&self, program: &Path) -> Command {
        let mut command = command(program, self.home());
        command.env("CW_COORDINATOR", self.url()).env("CW_STATE_DIR", self.state_dir());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Runs a command to its end.
///
/// # Errors
/// When it cannot be run, or does not end within a minute.
pub async fn finish(mut command: Command, stdin: &str) -> anyhow::Result<Ran> {
    let mut child = command.spawn().context("starting cw")?;
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read its input may be gone before it is written.
        let _ = input.write_all(stdin.as_bytes()).await;
    }
    ended(child).await
}

/// Waits for a command that was started.
///
/// # Errors
/// When it does not end within a minute.
pub async fn ended(child: Child) -> anyhow::Result<Ran> {
    let output = timeout(LONGEST_RUN, child.wait_with_output()).await.context("cw did not end within a minute")??;
    Ok(Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
