//! One attempt's processes, seen from the worker: the stages of the confinement below it, and a socket to talk to them.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recv, recvmsg};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

use crate::confinement::init::MAX_LISTENERS;
use crate::confinement::wire::{Note, Order, frame};
use crate::confinement::{Init, Stages};

pub(crate) use family::Family;

mod family;
pub(crate) mod tree;

/// How long the stages may take to build the walls. In gVisor on a busy machine they need seconds.
const BUILD: Duration = Duration::from_secs(30);
/// How long the stages may take to leave once they have nothing to do.
const LEAVE: Duration = Duration::from_secs(2);

/// The confinement of one attempt and the processes in it. Dropping it ends them all.
pub(crate) struct Process {
    child: Child,
    pid: Option<u32>,
    control: UnixStream,
    heard: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
    family: Arc<Family>,
}

/// Why there are no walls.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotBuilt {
    /// Not even a process could be started.
    #[error("cannot start a process: {0}")]
    Process(io::Error),
    /// A step failed.
    #[error("{0}")]
    Walls(String),
}

/// Stages that were started, and what comes out of them.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl Process {
    /// Starts the stages; when they stand, the last one waits for `begin`.
    ///
    /// # Errors
    /// Which step failed, and why.
    pub(crate) async fn start(family: &Arc<Family>, plan: &Stages) -> Result<Started, NotBuilt> {
        let mut started = Self::spawn(family, plan).await.map_err(NotBuilt::Process)?;
        match started.process.stand().await {
            Ok(()) => Ok(started),
            Err(mut message) => {
                started.process.close().await;
                let mut complaint = String::new();
                // What bubblewrap itself has to say.
                let _ = timeout(LEAVE, started.stderr.read_to_string(&mut complaint)).await;
                if !complaint.trim().is_empty() && !message.contains(complaint.trim()) {
                    message += &format!(": {}", complaint.trim());
                }
                Err(NotBuilt::Walls(message))
            }
        }
    }

    async fn spawn(family: &Arc<Family>, plan: &Stages) -> io::Result<Started> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // The link leads to this very program, even when its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("cw-worker").arg("enter").env_clear().current_dir("/");
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = family.spawn(command).await?;
        let pid = child.id();
        let pipes = child.stdout.take().zip(child.stderr.take());
        let (stdout, stderr) = pipes.ok_or_else(|| io::Error::other("the first stage has no output"))?;
        let control = UnixStream::from_std(ours)?;
        let (heard, descriptors) = (Vec::new(), VecDeque::new());
        let mut process = Self { child, pid, control, heard, descriptors, family: Arc::clone(family) };
        process.send(&[frame(&plan.enter)?, frame(&plan.inner)?].concat()).await?;
        Ok(Started { process, stdout, stderr })
    }

    /// Waits until the walls stand.
    ///
    /// # Errors
    /// Which step failed, and why.
    async fn stand(&mut self) -> Result<(), String> {
        match timeout(BUILD, self.note()).await {
            Ok(Some(Note::Waiting)) => Ok(()),
            Ok(Some(Note::Unconfined { message })) => Err(message),
            Ok(Some(note)) => Err(format!("the stages said {note:?} too early")),
            Ok(None) => Err("a stage ended before the walls stood".into()),
            Err(_) => Err(format!("the walls did not stand within {} s", BUILD.as_secs())),
        }
    }

    /// Lets the program begin. What became of it is the next note.
    pub(crate) async fn begin(&mut self, plan: &Init) -> io::Result<()> {
        self.send(&frame(plan)?).await
    }

    /// Whether the stages wait for a program and have nothing to say.
    pub(crate) fn is_waiting(&self) -> bool {
        let mut byte = [0; 1];
        let peeked = recv(&self.control, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        peeked.is_err_and(|error| error == Errno::AGAIN)
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.control.write_all(bytes).await {
            // A stage that failed reads no more: its note says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    /// The next note; none when every stage is gone. Safe to cancel.
    pub(crate) async fn note(&mut self) -> Option<Note> {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return serde_json::from_slice(&line).ok();
            }
            self.control.readable().await.ok()?;
            let Self { control, heard, descriptors, .. } = self;
            match control.try_io(Interest::READABLE, || receive(control, heard, descriptors)) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// The descriptors that came with the notes so far, in order.
    pub(crate) fn descriptors(&mut self) -> Vec<OwnedFd> {
        self.descriptors.drain(..).collect()
    }

    /// Ends every process. The note `Ended` follows.
    pub(crate) async fn stop(&mut self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let Ok(mut line) = serde_json::to_vec(&Order::Stop { grace_ms }) else { return };
        line.push(b'\n');
        // A stage that is gone has no processes any more: its last note, or its silence, says so.
        let _ = self.control.write_all(&line).await;
    }

    /// Kills the outermost stage; the kernel and the closed socket end the others.
    pub(crate) fn kill(&mut self) {
        // It fails only for one that is gone already.
        let _ = self.child.start_kill();
    }

    /// Waits for the stages, and kills those that do not leave.
    pub(crate) async fn close(mut self) {
        drop(self.control);
        let mut left = timeout(LEAVE, self.child.wait()).await;
        if left.is_err() {
            let _ = self.child.start_kill();
            left = timeout(LEAVE, self.child.wait()).await;
        }
        // One that even now is not gone is an orphan like any other.
        drop(left);
        self.pid.inspect(|pid| self.family.forget(*pid));
    }
}

/// One read, with the descriptors that come along.
fn receive(control: &UnixStream, heard: &mut Vec<u8>, descriptors: &mut VecDeque<OwnedFd>) -> io::Result<usize> {
    let mut buffer = [0; 16 << 10];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_LISTENERS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let read = recvmsg(control, &mut [IoSliceMut::new(&mut buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    heard.extend_from_slice(&buffer[..read.bytes]);
    Ok(read.bytes)
}
