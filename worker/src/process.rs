//! One attempt's processes, seen from the worker: a supervisor (this program again) holds them as their reaper.
//!
//! The worker talks with the supervisor over a socket, a JSON line each: first the plan, then orders one way and notes
//! the other. The socket's end tells each side that the other one died. No secret ever goes over it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

pub(crate) use family::Family;

mod family;
pub(crate) mod supervise;
mod tree;

/// How long a supervisor may take to leave once it has nothing to do.
const LEAVE: Duration = Duration::from_secs(2);

/// What the supervisor starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    /// All of its environment.
    pub(crate) env: BTreeMap<String, String>,
    /// Its working directory.
    pub(crate) directory: PathBuf,
    /// The file that it reads; nothing when absent.
    pub(crate) stdin: Option<PathBuf>,
}

/// What the worker tells the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// End every process: TERM, then KILL when this time is over.
    Stop {
        /// The time between, in milliseconds.
        grace_ms: u64,
    },
}

/// What the supervisor tells the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    /// The program runs.
    Started,
    /// It does not.
    NotStarted {
        /// The code that a shell would give: 127 not found, 126 not executable.
        code: i32,
        /// Why.
        message: String,
    },
    /// All processes are gone.
    Ended(End),
}

/// How the processes of an attempt ended, and what they used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// How the program itself ended.
    pub(crate) status: Status,
    /// Processor time of all of them.
    pub(crate) cpu_ms: u64,
    /// The most memory that one of them had.
    pub(crate) peak_memory_bytes: u64,
    /// Whether some could not be ended.
    pub(crate) left_over: bool,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// By itself.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
}

/// A supervisor and, below it, the processes of one attempt. Dropping it ends them all.
pub(crate) struct Process {
    child: Child,
    pid: Option<u32>,
    orders: OwnedWriteHalf,
    notes: Lines<BufReader<OwnedReadHalf>>,
    family: Arc<Family>,
}

impl Process {
    /// Starts a supervisor and gives it the plan. Whether the program runs is its first note.
    pub(crate) async fn start(family: &Arc<Family>, plan: &Plan) -> io::Result<(Self, ChildStdout, ChildStderr)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // The link leads to this very program, even when its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("cw-worker").arg("supervise").env_clear().current_dir("/");
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = family.spawn(&mut command)?;
        let pid = child.id();
        let pipes = child.stdout.take().zip(child.stderr.take());
        let (stdout, stderr) = pipes.ok_or_else(|| io::Error::other("the supervisor has no output"))?;
        let (notes, orders) = UnixStream::from_std(ours)?.into_split();
        let notes = BufReader::new(notes).lines();
        let mut process = Self { child, pid, orders, notes, family: Arc::clone(family) };
        process.tell(plan).await?;
        Ok((process, stdout, stderr))
    }

    /// The supervisor's next note; none when it is gone. Safe to cancel.
    pub(crate) async fn note(&mut self) -> Option<Note> {
        let line = self.notes.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    /// Ends every process. The note `Ended` follows.
    pub(crate) async fn stop(&mut self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        // A supervisor that is gone has no processes any more: its last note, or its silence, says so.
        let _ = self.tell(&Order::Stop { grace_ms }).await;
    }

    /// Kills the supervisor, which works on a stopped one, too. What it watched over falls to the worker.
    pub(crate) fn kill(&mut self) {
        // It fails only for one that is gone already.
        let _ = self.child.start_kill();
    }

    /// Waits for the supervisor itself, and kills one that does not leave; says how it ended.
    pub(crate) async fn close(mut self) -> Option<Status> {
        use std::os::unix::process::ExitStatusExt as _;
        drop(self.orders);
        let mut left = timeout(LEAVE, self.child.wait()).await;
        if left.is_err() {
            let _ = self.child.start_kill();
            left = timeout(LEAVE, self.child.wait()).await;
        }
        // One that even now is not gone is an orphan like any other.
        self.pid.inspect(|pid| self.family.forget(*pid));
        let status = left.ok()?.ok()?;
        Some(status.signal().map_or_else(|| Status::Exited(status.code().unwrap_or(-1)), Status::Signalled))
    }

    async fn tell<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.orders.write_all(&line).await
    }
}
