//! The program to be: a process that puts itself behind the last walls before there is a task for it (a user namespace in
//! which it is uid 1000, rules on files, no-new-privs, seccomp), waits for its plan, takes its rlimits and becomes the
//! program.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio, abort};

use anyhow::{anyhow, bail};
use nix::sched::{CloneFlags, unshare};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, getgid, getrlimit, getuid, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, setsid,
};
use serde::{Deserialize, Serialize};

use super::super::enter::map_user;
use super::super::rules::Rules;
use super::super::seccomp::Filters;
use super::super::wire::{frame, read_frame};
use super::super::{Enforced, Init, Inner, apply};

/// The variable that names the descriptor for the return value.
const RETURN_FD: &str = "CW_RETURN_FD";
/// What it says when its walls stand, and last before it becomes the program.
const STANDS: u8 = b'|';
const BEGINS: u8 = b'+';

/// Why the program does not run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum NotStarted {
    /// It cannot be run, as a shell would say.
    Program { code: i32, message: String },
    /// A wall around it could not be built.
    Confinement(String),
}

impl<E: std::fmt::Display> From<E> for NotStarted {
    fn from(error: E) -> Self {
        Self::Confinement(format!("{error:#}"))
    }
}

/// The process that will be the program.
pub(super) struct Waiting {
    pid: Pid,
    plan: UnixStream,
    words: File,
}

impl Waiting {
    /// Makes it; its walls stand then. `returns` is its end of the pipe for the return value.
    pub(super) fn fork(inner: &Inner, returns: OwnedFd) -> anyhow::Result<Self> {
        let (reads, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        let (plan, its_plan) = UnixStream::pair()?;
        match apply::fork()? {
            Some(child) => {
                let pid = Pid::from_raw(child.as_raw()).ok_or_else(|| anyhow!("the program has no process id"))?;
                drop((writes, its_plan, returns));
                let mut waiting = Self { pid, plan, words: File::from(reads) };
                match waiting.said(STANDS) {
                    Ok(()) => Ok(waiting),
                    Err(NotStarted::Program { message, .. } | NotStarted::Confinement(message)) => bail!(message),
                }
            }
            None => {
                drop((reads, plan));
                become_program(inner, its_plan, &File::from(writes), &returns)
            }
        }
    }

    /// Lets it be the program of this plan.
    pub(super) fn begin(mut self, plan: &Init) -> Result<Pid, NotStarted> {
        // One that could not build its walls reads nothing any more: its words say why.
        let _ = self.plan.write_all(&frame(plan)?);
        self.said(BEGINS)?;
        // Becoming the program closes its end; what it says instead is why it cannot.
        match self.rest() {
            rest if rest.is_empty() => Ok(self.pid),
            rest => Err(complaint(&rest)),
        }
    }

    /// Waits for a word; anything else is a complaint.
    fn said(&mut self, expected: u8) -> Result<(), NotStarted> {
        let mut word = [0];
        match self.words.read(&mut word) {
            Ok(1) if word[0] == expected => Ok(()),
            Ok(_) | Err(_) => Err(complaint(&[&word[..], &self.rest()].concat())),
        }
    }

    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.words.read_to_end(&mut rest);
        rest
    }
}

fn complaint(words: &[u8]) -> NotStarted {
    let died = || NotStarted::Confinement("the process to be the program died before it began".into());
    serde_json::from_slice(words).unwrap_or_else(|_| died())
}

/// Never returns, not even by a panic: the caller's rest is pid 1's.
fn become_program(inner: &Inner, plan: UnixStream, mut words: &File, returns: &OwnedFd) -> ! {
    if let Ok(Err(why)) = catch_unwind(AssertUnwindSafe(|| build_and_wait(inner, plan, words, returns))) {
        let _ = words.write_all(&serde_json::to_vec(&why).unwrap_or_default());
    }
    abort()
}

fn build_and_wait(inner: &Inner, plan: UnixStream, mut words: &File, returns: &OwnedFd) -> Result<(), NotStarted> {
    build(inner)?;
    words.write_all(&[STANDS])?;
    let plan: Init = read_frame(plan)?;
    limit(&plan.limits, plan.others).map_err(|error| format!("cannot set limits: {error}"))?;
    let mut command = command(&plan)?;
    if plan.returns {
        fcntl_setfd(returns, FdFlags::empty())?;
        command.env(RETURN_FD, returns.as_raw_fd().to_string());
    }
    words.write_all(&[BEGINS])?;
    Err(not_run(&plan, &command.exec()))
}

/// The walls, in this order: filters come last, because they forbid the rest.
fn build(inner: &Inner) -> anyhow::Result<()> {
    use anyhow::Context as _;
    // Not in pid 1's group: what a task says to its own group must not reach pid 1.
    setsid().context("cannot begin a session")?;
    if inner.level.has_namespaces() {
        become_user_1000()?;
    } else {
        die_with_init()?;
    }
    Rules::new(inner)?.apply().context("cannot put rules on files in force")?;
    Filters::compile(inner.level)?.apply().context("cannot filter system calls")
}

/// No namespace ends with `init`: what kills that must kill the program.
fn die_with_init() -> anyhow::Result<()> {
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

fn become_user_1000() -> anyhow::Result<()> {
    use anyhow::Context as _;
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    // Pid 1 closed its /proc/self, where the maps are written; gVisor lets nobody else write them. No task runs yet.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    unshare(CloneFlags::CLONE_NEWUSER).context("cannot make a user namespace")?;
    map_user("1000", uid, gid).context("cannot become user 1000")?;
    // When memory is scarce, the kernel ends a task before it ends what watches over it. Not every kernel can be told.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

fn command(plan: &Init) -> io::Result<Command> {
    let stdin = plan.stdin.as_ref().map(File::open).transpose()?.map_or_else(Stdio::null, Stdio::from);
    let program = plan.argv.first().ok_or(ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(&plan.argv[1..]).env_clear().envs(&plan.env).stdin(stdin);
    Ok(command)
}

fn limit(limits: &Enforced, others: u64) -> io::Result<()> {
    let pids = u64::from(limits.pids) + others + limits.counted_with.unwrap_or(0);
    set(Resource::Nproc, pids, pids)?;
    set(Resource::Nofile, limits.open_files.into(), limits.open_files.into())?;
    set(Resource::Fsize, limits.file_size_bytes, limits.file_size_bytes)?;
    // Behind the sampler, which is what says `oom`; without the room that runtimes reserve and never use.
    let data = limits.memory_bytes.saturating_mul(2).saturating_add(64 << 20);
    set(Resource::Data, data, data)?;
    if let Some(cpu_s) = limits.cpu_s {
        // Behind the sampler, too, which sees all processes.
        let seconds = u64::from(cpu_s) + 1;
        set(Resource::Cpu, seconds, seconds + 1)?;
    }
    Ok(())
}

/// Sets a limit, or leaves it where the worker itself may have less: nobody can raise that here.
fn set(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Rlimit { current: Some(current.min(most)), maximum: Some(maximum.min(most)) };
    setrlimit(resource, limit).map_err(io::Error::from)
}

fn not_run(plan: &Init, error: &io::Error) -> NotStarted {
    let program = plan.argv.first().map_or("", String::as_str);
    let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
    let why = if code == 127 { "not found".to_owned() } else { error.to_string() };
    NotStarted::Program { code, message: format!("{program}: {why}") }
}
