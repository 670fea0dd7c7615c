//! `cw-worker trial` as a process that goes one round whenever it is told to: our walls, as others' are a program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// How long the walls stand before the program comes, where they are ready for it.
const REST_MS: &str = "5";

/// More than any run has.
const ROUNDS: &str = "1000000";

/// A trial that waits for the next round. Dropping it lets it leave.
pub(super) struct Trial {
    child: Child,
    pace: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

/// How long the parts of a round took.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Took {
    build_us: u64,
    run_us: u64,
    clean_up_us: u64,
}

impl Took {
    /// With walls that stand; with walls that must be built; with what must be removed, too.
    pub(super) fn times(self) -> [Duration; 3] {
        let cold = self.build_us + self.run_us;
        [self.run_us, cold, cold + self.clean_up_us].map(Duration::from_micros)
    }
}

/// Whose trial it is, and where its state is.
pub(super) struct Place<'place> {
    pub(super) worker: &'place Path,
    pub(super) state: &'place Path,
    /// `auto`, `off` or `require`.
    pub(super) cgroup: &'place str,
}

impl Trial {
    /// Starts it; the first round finds out whether it works.
    pub(super) fn start(place: &Place<'_>, program: &[String]) -> Result<Self> {
        let mut command = Command::new(place.worker);
        command.args(["trial", "--paced", "--rest-ms", REST_MS, "--rounds", ROUNDS, "--cgroup", place.cgroup]);
        command.arg("--state-dir").arg(place.state).env("CW_TASK_UID", super::task_uid());
        command.arg("--").args(program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {}", place.worker.display()))?;
        let (pace, lines) = child.stdin.take().zip(child.stdout.take()).context("a trial has no pipes")?;
        Ok(Self { child, pace: Some(pace), lines: BufReader::new(lines) })
    }

    /// Goes one round.
    pub(super) fn round(&mut self) -> Result<Took> {
        let mut line = String::new();
        let told = self.pace.as_mut().map(|pace| pace.write_all(b"\n"));
        if told.is_none_or(|told| told.is_err()) || self.lines.read_line(&mut line)? == 0 {
            bail!("a trial left: {}", self.complaint());
        }
        serde_json::from_str(&line).context("reading a trial's times")
    }

    fn complaint(&mut self) -> String {
        let said = self.child.stderr.take().and_then(|stderr| std::io::read_to_string(stderr).ok());
        said.unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // Without a next round it leaves by itself, and removes what it made.
        self.pace = None;
        if let Err(error) = self.child.wait() {
            eprintln!("could not wait for a trial: {error}");
        }
    }
}
