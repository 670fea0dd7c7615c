//! The first stage: joins the cgroups, becomes the slot's user, leaves the host's namespaces, and becomes bubblewrap; at a
//! level without namespaces it becomes `init` itself.
//!
//! The order matters. Cgroups need the worker's rights, so they come first. Another user comes before the namespaces:
//! with uid 0 outside, a task can write to /proc/sys in spite of everything that follows. The directory of all attempts is
//! entered before that, because its parents are closed to the slot's user; the working directory follows into the new
//! mount namespace, and what is in it is mounted from there.

use std::convert::Infallible;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::mount::{MountPropagationFlags, mount_bind_recursive, mount_change};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, getgid, getuid, set_dumpable_behavior, set_parent_process_death_signal,
    setrlimit, setsid,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use super::limits::NO_CORE_BYTES;
use super::mounts::OVERLAYS;
use super::wire::{self, Note};
use super::{Enter, Next, apply, cgroup};
use crate::state::ETC;

/// Runs as the first stage that the worker on standard input asked for. Returns only when it failed.
pub(crate) fn run() -> ExitCode {
    let Err(error) = enter();
    // Nothing listens when this was started by hand.
    wire::say(apply::control_on_stdin(), &Note::Unconfined { message: format!("{error:#}") });
    eprintln!("cw-worker: {error:#}");
    ExitCode::FAILURE
}

fn enter() -> anyhow::Result<Infallible> {
    let control = apply::control_on_stdin();
    let plan: Enter = wire::read_frame(control).context("this is started by `cw-worker run`, not by hand")?;
    keep_no_cores();
    for cgroup in &plan.cgroups {
        cgroup::join(cgroup)?;
    }
    std::env::set_current_dir(&plan.attempts).context("cannot enter the directory of attempts")?;
    if let Some(uid) = plan.uid {
        become_user(uid).with_context(|| format!("cannot become user {uid}"))?;
    }
    match &plan.next {
        Next::Bubblewrap { staging, shares_etc, overlays, command } => {
            leave_namespaces().context("cannot make user, mount and network namespaces")?;
            apply::raise_loopback().context("cannot raise the loopback interface")?;
            mount_parts(&plan.directory, staging, *shares_etc)?;
            if let Some(overlays) = overlays {
                mount_bind_recursive(overlays, staging.join(OVERLAYS)).context("cannot mount the overlays")?;
            }
            become_bubblewrap(command)
        }
        Next::Init => become_init(&plan.attempts.join(&plan.directory)),
    }
}

/// Comes while this may still raise a limit of 0 that the worker was started with: only root may.
fn keep_no_cores() {
    let limit = Some(NO_CORE_BYTES);
    let _ = setrlimit(Resource::Core, Rlimit { current: limit, maximum: limit });
}

fn mount_parts(directory: &str, staging: &Path, shares_etc: bool) -> anyhow::Result<()> {
    mount_bind_recursive(directory, staging)
        .with_context(|| format!("cannot mount the attempt's directory at {}", staging.display()))?;
    if shares_etc {
        mount_bind_recursive(ETC, staging.join("etc")).context("cannot mount the task's /etc")?;
    }
    Ok(())
}

fn become_bubblewrap(command: &[String]) -> anyhow::Result<Infallible> {
    std::env::set_current_dir("/")?;
    let (program, arguments) = command.split_first().context("no bubblewrap in the plan")?;
    let error = Command::new(program).args(arguments).env_clear().exec();
    Err(error).with_context(|| format!("cannot start {program}"))
}

/// Nothing is left to it that a worker may have and a task must not: rights, or the terminal of whoever started it.
fn become_init(directory: &Path) -> anyhow::Result<Infallible> {
    std::env::set_current_dir(directory.join("work"))
        .with_context(|| format!("cannot come to the attempt's directory {}", directory.display()))?;
    set_capabilities(None, NO_CAPABILITIES).context("cannot give up capabilities")?;
    set_no_new_privs(true).context("cannot give up new privileges")?;
    setsid().context("cannot begin a session")?;
    // The end of the worker wakes it, should something have stopped it: then it hears of that end, and ends the task.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    let program = directory.join("init");
    let error = Command::new(&program).arg("init").env_clear().exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

const NO_CAPABILITIES: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

fn become_user(uid: u32) -> anyhow::Result<()> {
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    // The change of user closed /proc/self, where the maps of the namespace are written.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    Ok(())
}

fn leave_namespaces() -> anyhow::Result<()> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)?;
    map_user("0", uid, gid)?;
    // Nothing that is mounted from here on is seen outside. gVisor has no such groups.
    match mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC) {
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(error) => Err(error).context("cannot make mounts private"),
    }
}

/// Lets one user of the parent namespace be `inside` in this one.
pub(super) fn map_user(inside: &str, uid: u32, gid: u32) -> io::Result<()> {
    let proc = Path::new("/proc/self");
    match fs::File::options().write(true).open(proc.join("setgroups")) {
        Ok(mut file) => file.write_all(b"deny")?,
        // gVisor has no such file, and lets groups be mapped without it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::write(proc.join("uid_map"), format!("{inside} {uid} 1"))?;
    fs::write(proc.join("gid_map"), format!("{inside} {gid} 1"))
}
