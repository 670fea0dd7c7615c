//! One attempt's processes, seen from the worker: the stages of the confinement below it, and a socket to talk to them.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

use crate::confinement::Plan;
use crate::confinement::init::MAX_LISTENERS;
use crate::confinement::wire::{Note, Order, frame};

pub(crate) use family::Family;

mod family;
mod tree;

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

impl Process {
    /// Starts the first stage and gives it the plan. What became of it is its first note.
    pub(crate) async fn start(family: &Arc<Family>, plan: &Plan) -> io::Result<(Self, ChildStdout, ChildStderr)> {
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
        let plans = [frame(&plan.enter)?, frame(&plan.init)?].concat();
        match process.control.write_all(&plans).await {
            // A stage that failed reads no more: its note says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
        Ok((process, stdout, stderr))
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
