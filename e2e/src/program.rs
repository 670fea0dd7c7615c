//! A program under test: its process, and what it logged. Dropping it kills it, and shows the end of its log for whoever
//! reads why a test failed.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anyhow::{Context as _, ensure};
use protocol::TaskId;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::process::{Child, Command};

const SHOWN_LINES: usize = 40;

/// A command that inherits nothing but where programs are, and a home of its own.
#[must_use]
pub fn command(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    // Coverage of the real binaries is collected through a variable.
    let passed_on = |name: &std::ffi::OsStr| name == "PATH" || name.to_string_lossy().starts_with("LLVM_PROFILE");
    command.env_clear().envs(std::env::vars_os().filter(|(name, _)| passed_on(name)));
    command.env("HOME", home).current_dir(home).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// A running program.
pub struct Program {
    child: Child,
    pid: Pid,
    log: PathBuf,
}

impl Program {
    /// Starts it; what it says on standard error is added to the log.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let file = std::fs::File::options().create(true).append(true).open(log).context("opening a program's log")?;
        command.stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("starting {:?}", command.as_std().get_program()))?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).context("the program has no pid")?;
        Ok(Self { child, pid, log: log.to_owned() })
    }

    /// Its process.
    #[must_use]
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Everything that it, and those before it with the same log, said.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it is gone.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        ensure!(self.child.id().is_some(), "process {:?} has ended already", self.pid);
        kill_process(self.pid, signal).with_context(|| format!("sending {signal:?} to {:?}", self.pid))
    }

    /// Kills it with SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("killing a program")
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// When it does not within half a minute.
    pub async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        crate::eventually("the program ends", async || Ok(self.child.try_wait()?)).await
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn has_ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that ended before has been seen to.
        if self.child.id().is_none() {
            return;
        }
        let _ = self.child.start_kill();
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        eprintln!("--- {}", self.log.display());
        for line in lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES)) {
            eprintln!("{line}");
        }
    }
}

/// Whether a process lives; one that only waits to be reaped does not.
#[must_use]
pub fn is_alive(pid: i32) -> bool {
    let Some(known) = Pid::from_raw(pid) else { return false };
    if test_kill_process(known).is_err() {
        return false;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['Z', 'X']))
}

/// The processes of a task, as the machine knows them: each has the task's id in its environment.
#[must_use]
pub fn processes_of(task: TaskId) -> Vec<i32> {
    let mark = format!("CW_TASK_ID={task}");
    let is_of_task = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_of_task).collect()
}
