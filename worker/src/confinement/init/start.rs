//! Starts the program behind the last walls: a user namespace in which it is uid 1000, rlimits, rules
//! on files, no-new-privs, seccomp.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::{Command, Stdio};

use anyhow::anyhow;
use nix::sched::{CloneFlags, unshare};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, getgid, getrlimit, getuid, set_dumpable_behavior, setrlimit,
};

use super::super::enter::map_user;
use super::super::rules::Rules;
use super::super::seccomp::Filters;
use super::super::{Enforced, Init, apply};

/// The variable that names the descriptor for the return value.
const RETURN_FD: &str = "CW_RETURN_FD";

/// Why the program does not run.
pub(super) enum NotStarted {
    /// It cannot be run, as a shell would say.
    Program { code: i32, message: String },
    /// A wall around it could not be built.
    Confinement(anyhow::Error),
}

pub(super) fn start(plan: &Init, returns: Option<OwnedFd>) -> Result<Pid, NotStarted> {
    let (reads, writes) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from).map_err(wall)?;
    let mut command = command(plan, returns.as_ref()).map_err(wall)?;
    let filters = Filters::compile().map_err(NotStarted::Confinement)?;
    let mut rules = Some(Rules::new().map_err(NotStarted::Confinement)?);
    let limits = plan.limits;
    let words = File::from(writes);
    apply::before_exec(&mut command, move || {
        let built = build(&limits, rules.take(), &filters, returns.as_ref());
        built.inspect_err(|error| drop((&words).write_all(error.to_string().as_bytes())))
    });
    let spawned = command.spawn();
    // The command holds the ends that were for the program.
    drop(command);
    let error = match spawned {
        Ok(child) => return pid(child.id()).map_err(wall),
        Err(error) => error,
    };
    let mut why = String::new();
    let _ = File::from(reads).read_to_string(&mut why);
    if why.is_empty() { Err(program(plan, &error)) } else { Err(NotStarted::Confinement(anyhow!(why))) }
}

fn command(plan: &Init, returns: Option<&OwnedFd>) -> io::Result<Command> {
    let stdin = plan.stdin.as_ref().map(File::open).transpose()?.map_or_else(Stdio::null, Stdio::from);
    let program = plan.argv.first().ok_or(ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(&plan.argv[1..]).env_clear().envs(&plan.env).stdin(stdin);
    command.envs(returns.map(|pipe| (RETURN_FD, pipe.as_raw_fd().to_string())));
    Ok(command)
}

/// The walls, in this order: limits count in the new user namespace; filters come last, because they forbid the rest.
fn build(limits: &Enforced, rules: Option<Rules>, filters: &Filters, returns: Option<&OwnedFd>) -> io::Result<()> {
    let step = |name: &'static str| move |error: io::Error| io::Error::other(format!("{name}: {error}"));
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    // Pid 1 closed its /proc/self, where the maps are written; gVisor lets nobody else write them. No task runs yet.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| step("cannot make a user namespace")(error.into()))?;
    map_user("1000", uid, gid).map_err(step("cannot become user 1000"))?;
    limit(limits).map_err(step("cannot set limits"))?;
    if let Some(pipe) = returns {
        fcntl_setfd(pipe, FdFlags::empty())?;
    }
    if let Some(rules) = rules {
        rules.apply().map_err(step("cannot put rules on files in force"))?;
    }
    filters.apply().map_err(step("cannot filter system calls"))
}

fn limit(limits: &Enforced) -> io::Result<()> {
    set(Resource::Core, 0, 0)?;
    set(Resource::Nproc, limits.pids.into(), limits.pids.into())?;
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
    // When memory is scarce, the kernel ends a task before it ends what watches over it. Not every kernel can be told.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

/// Sets a limit, or leaves it where the worker itself may have less: nobody can raise that here.
fn set(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Rlimit { current: Some(current.min(most)), maximum: Some(maximum.min(most)) };
    setrlimit(resource, limit).map_err(io::Error::from)
}

fn pid(raw: u32) -> io::Result<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("the program has no process id"))
}

fn wall(error: io::Error) -> NotStarted {
    NotStarted::Confinement(error.into())
}

fn program(plan: &Init, error: &io::Error) -> NotStarted {
    let program = plan.argv.first().map_or("", String::as_str);
    let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
    let why = if code == 127 { "not found".to_owned() } else { error.to_string() };
    NotStarted::Program { code, message: format!("{program}: {why}") }
}
