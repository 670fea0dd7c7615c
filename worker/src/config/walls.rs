//! What decides the confinement: the flags that `run` and `doctor` share, checked.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

/// The flags; each is also a variable.
#[derive(Args, Debug)]
pub struct WallArgs {
    /// Where attempts and unsent reports are kept [default: $XDG_STATE_HOME/code-workers/worker]
    #[arg(long, env = "CW_STATE_DIR", value_name = "DIR", value_parser = path())]
    pub state_dir: Option<PathBuf>,
    /// The Python that runs python tasks [default: python3 of the system]
    #[arg(long, env = "CW_PYTHON", value_name = "PATH", value_parser = path())]
    pub python: Option<PathBuf>,
    /// The node that runs javascript tasks, 18 or newer [default: node of the system]
    #[arg(long, env = "CW_NODE", value_name = "PATH", value_parser = path())]
    pub node: Option<PathBuf>,
    /// Directories that tasks may read beside the system's, separated by commas
    #[arg(long, env = "CW_RO_MOUNT", value_name = "DIR", value_delimiter = ',', value_parser = path())]
    pub ro_mount: Vec<PathBuf>,
    /// Whether each attempt gets a cgroup
    #[arg(long, env = "CW_CGROUP", value_enum, default_value_t = CgroupUse::Auto)]
    pub cgroup: CgroupUse,
    /// What tasks are confined by; what is below bubblewrap is only taken when it is asked for
    #[arg(long, env = "CW_CONFINEMENT", value_enum, default_value_t = LevelUse::Auto)]
    pub confinement: LevelUse,
    /// As root: the first of the users that tasks run as, one for each slot
    #[arg(long, env = "CW_TASK_UID", value_name = "UID", default_value = "60600", value_parser = clap::value_parser!(u32).range(1..=2_000_000_000))]
    pub task_uid: u32,
}

/// Whether attempts get cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CgroupUse {
    /// Where they can be made.
    Auto,
    /// Never: rlimits and samples hold the limits.
    Off,
    /// Always: the worker does not start where they cannot be made.
    Require,
}

/// What tasks are confined by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LevelUse {
    /// By bubblewrap; where that cannot be, the worker does not start.
    Auto,
    /// The same.
    Bwrap,
    /// By users of their own, without namespaces: as root only.
    Process,
    /// Without even that: as an ordinary user only.
    None,
}

/// The same, checked.
#[derive(Debug, Clone)]
pub struct Walls {
    /// Where the worker keeps what must outlive it.
    pub state_dir: PathBuf,
    /// The Python of python tasks, when it is not the system's.
    pub python: Option<PathBuf>,
    /// The node of javascript tasks, when it is not the system's.
    pub node: Option<PathBuf>,
    /// What of the machine tasks may read beside the system's directories.
    pub ro_mounts: Vec<PathBuf>,
    /// Whether attempts get cgroups.
    pub cgroup: CgroupUse,
    /// What tasks are confined by.
    pub confinement: LevelUse,
    /// The first of the users that a root worker gives its slots.
    pub task_uid: u32,
}

impl Walls {
    /// Checks what was typed.
    ///
    /// # Errors
    /// The first thing that is wrong, with what to do about it.
    pub fn new(args: &WallArgs) -> anyhow::Result<Self> {
        Ok(Self {
            state_dir: state_dir(args.state_dir.as_deref())?,
            python: args.python.clone().filter(|path| !path.as_os_str().is_empty()),
            node: args.node.clone().filter(|path| !path.as_os_str().is_empty()),
            ro_mounts: ro_mounts(&args.ro_mount)?,
            cgroup: args.cgroup,
            confinement: args.confinement,
            task_uid: args.task_uid,
        })
    }
}

#[allow(clippy::disallowed_methods, reason = "this is the place that sees the environment")]
fn state_dir(typed: Option<&Path>) -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = typed
        .filter(|path| !path.as_os_str().is_empty())
        .map(Path::to_path_buf)
        .or_else(|| Some(set("XDG_STATE_HOME")?.join("code-workers/worker")))
        .or_else(|| Some(set("HOME")?.join(".local/state/code-workers/worker")))
        .context("no state directory: give --state-dir or CW_STATE_DIR")?;
    ensure!(path.to_str().is_some(), "state directory {} is not UTF-8", path.display());
    std::path::absolute(&path).with_context(|| format!("state directory {}", path.display()))
}

/// A task must find a directory where programs expect it, and must not read through it what is the worker's.
fn ro_mounts(typed: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut mounts = Vec::new();
    for path in typed.iter().filter(|path| !path.as_os_str().is_empty()) {
        let shown = path.display();
        ensure!(path.is_absolute(), "--ro-mount {shown}: expected an absolute path");
        ensure!(path.is_dir(), "--ro-mount {shown}: not a directory");
        let own = ["/", "/proc", "/sys", "/dev", "/tmp", "/workspace", "/home/task", "/task", "/etc", "/run"];
        ensure!(!own.iter().any(|own| Path::new(own) == path), "--ro-mount {shown}: tasks have one of their own");
        mounts.push(path.clone());
    }
    Ok(mounts)
}

/// An empty variable is one that is not set: clap's own parser would refuse it in its own words.
pub(super) fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}
