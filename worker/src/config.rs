//! What was typed, and what it means: flags and variables, checked once, units resolved.
//!
//! Nothing else sees the environment. The key never leaves here but inside `Key`, which cannot be printed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use protocol::RepoName;

/// The flags of `cw-worker run`; each is also a variable.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The coordinator: http://host:port or unix:/path
    #[arg(long, env = "CW_COORDINATOR", value_name = "URL")]
    pub coordinator: Option<String>,
    /// The file that holds the worker's key
    #[arg(long, env = "CW_KEY_FILE", value_name = "FILE", value_parser = path())]
    pub key_file: Option<PathBuf>,
    /// Delete the key file once it is read
    #[arg(long, env = "CW_KEY_ONCE")]
    pub key_once: bool,
    /// The repos to serve, separated by commas
    #[arg(long, env = "CW_REPO", value_name = "REPO", value_delimiter = ',')]
    pub repo: Vec<String>,
    /// Where attempts and unsent reports are kept [default: $XDG_STATE_HOME/code-workers/worker]
    #[arg(long, env = "CW_STATE_DIR", value_name = "DIR", value_parser = path())]
    pub state_dir: Option<PathBuf>,
    /// How many tasks to run side by side
    #[arg(long, env = "CW_SLOTS", value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub slots: u32,
    /// How long running tasks may take to finish after TERM or INT
    #[arg(long, env = "CW_GRACE", value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub grace: Duration,
    /// Take one task, do it, leave
    #[arg(long, env = "CW_ONCE")]
    pub once: bool,
    /// Leave when there was no task for this long
    #[arg(long, env = "CW_IDLE_EXIT", value_name = "TIME", value_parser = duration)]
    pub idle_exit: Option<Duration>,
    /// Serve /livez, /readyz and /metrics on this loopback address
    #[arg(long, env = "CW_HTTP", value_name = "ADDR")]
    pub http: Option<String>,
    /// Keep the directories of attempts, to look into them
    #[arg(long, env = "CW_KEEP_ATTEMPTS")]
    pub keep_attempts: bool,
    /// Bytes of files that are uploaded for one attempt; more are only listed
    #[arg(long, env = "CW_ARTIFACTS_LIMIT", value_name = "SIZE", default_value = "100M", value_parser = protocol::unit::size_bytes)]
    pub artifacts_limit: u64,
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
    /// As root: the first of the users that tasks run as, one for each slot
    #[arg(long, env = "CW_TASK_UID", value_name = "UID", default_value = "60600", value_parser = clap::value_parser!(u32).range(1..=2_000_000_000))]
    pub task_uid: u32,
    /// How log lines look
    #[arg(long, env = "CW_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, or a filter such as `worker=debug`
    #[arg(long, env = "CW_LOG", value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
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

/// A worker's settings, checked.
pub struct Config {
    /// Where the coordinator is.
    pub coordinator: Address,
    /// What the coordinator knows the worker by.
    pub key: Key,
    /// The repos that it serves.
    pub repos: Vec<RepoName>,
    /// Where it keeps what must outlive it.
    pub state_dir: PathBuf,
    /// How many attempts run side by side.
    pub slots: u32,
    /// How long attempts may take to finish once it drains.
    pub grace: Duration,
    /// Whether it leaves after one task.
    pub once: bool,
    /// After how long without a task it leaves.
    pub idle_exit: Option<Duration>,
    /// Where it serves its health.
    pub http: Option<SocketAddr>,
    /// Whether directories of attempts stay.
    pub keep_attempts: bool,
    /// Bytes of files that are uploaded for one attempt.
    pub artifacts_limit: u64,
    /// The Python of python tasks, when it is not the system's.
    pub python: Option<PathBuf>,
    /// The node of javascript tasks, when it is not the system's.
    pub node: Option<PathBuf>,
    /// What of the machine tasks may read beside the system's directories.
    pub ro_mounts: Vec<PathBuf>,
    /// Whether attempts get cgroups.
    pub cgroup: CgroupUse,
    /// The first of the users that a root worker gives its slots.
    pub task_uid: u32,
    /// How log lines look.
    pub log_format: LogFormat,
}

impl Config {
    /// Checks what was typed and reads the key.
    ///
    /// # Errors
    /// The first thing that is missing or wrong, with what to do about it.
    pub fn new(args: &RunArgs) -> anyhow::Result<Self> {
        Ok(Self {
            coordinator: address(args.coordinator.as_deref())?,
            repos: repos(&args.repo)?,
            state_dir: state_dir(args.state_dir.as_deref())?,
            slots: if args.once { 1 } else { args.slots },
            grace: args.grace,
            once: args.once,
            idle_exit: args.idle_exit,
            http: args.http.as_deref().filter(|text| !text.is_empty()).map(loopback).transpose()?,
            keep_attempts: args.keep_attempts,
            artifacts_limit: args.artifacts_limit,
            python: args.python.clone().filter(|path| !path.as_os_str().is_empty()),
            node: args.node.clone().filter(|path| !path.as_os_str().is_empty()),
            ro_mounts: ro_mounts(&args.ro_mount)?,
            cgroup: args.cgroup,
            task_uid: args.task_uid,
            log_format: args.log_format,
            // Last, because reading it may delete the file.
            key: Key::read(args.key_file.as_deref(), args.key_once)?,
        })
    }
}

/// Where the coordinator is: what people see, and what the HTTP client needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// As it was typed.
    pub shown: String,
    /// What every request's URL begins with.
    pub base: String,
    /// The Unix socket to connect to instead of the URL's host.
    pub socket: Option<PathBuf>,
}

fn address(text: Option<&str>) -> anyhow::Result<Address> {
    let text = text.unwrap_or_default().trim_end_matches('/');
    ensure!(!text.is_empty(), "no coordinator: give --coordinator or CW_COORDINATOR, such as http://127.0.0.1:7223");
    if let Some(path) = text.strip_prefix("unix:") {
        let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
        ensure!(
            path.is_absolute(),
            "coordinator `{text}`: the socket's path must be absolute, such as unix:/run/cw.sock"
        );
        return Ok(Address { shown: text.into(), base: "http://localhost".into(), socket: Some(path) });
    }
    if text.starts_with("https:") {
        bail!(
            "coordinator `{text}`: https is not spoken; the way to the coordinator is loopback or a relay: use http://"
        );
    }
    ensure!(text.starts_with("http://"), "coordinator `{text}`: expected http://host:port or unix:/path");
    let url = reqwest::Url::parse(text).with_context(|| format!("coordinator `{text}` is not a URL"))?;
    let plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    ensure!(
        url.username().is_empty() && url.password().is_none(),
        "coordinator: a URL must not hold a user or password"
    );
    ensure!(plain, "coordinator `{text}`: expected no path after the host");
    Ok(Address { shown: text.into(), base: text.into(), socket: None })
}

/// The worker's key.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    /// The value of the header that carries it.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }

    fn read(path: Option<&Path>, once: bool) -> anyhow::Result<Self> {
        let path = path.filter(|path| !path.as_os_str().is_empty()).context(
            "no key file: give --key-file or CW_KEY_FILE; `cw keys create --role worker --repo NAME` makes a key",
        )?;
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read key file {}", path.display()))?;
        let key = text.trim();
        ensure!(!key.is_empty(), "key file {} is empty", path.display());
        let plain = key.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(plain, "key file {} holds something else than one key", path.display());
        if once {
            std::fs::remove_file(path)
                .with_context(|| format!("cannot delete key file {} (--key-once)", path.display()))?;
        }
        Ok(Self(key.into()))
    }
}

fn repos(typed: &[String]) -> anyhow::Result<Vec<RepoName>> {
    let mut repos = Vec::new();
    for name in typed.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        let repo: RepoName = name.parse().with_context(|| format!("repo `{name}`"))?;
        if !repos.contains(&repo) {
            repos.push(repo);
        }
    }
    ensure!(!repos.is_empty(), "no repo: give --repo or CW_REPO, such as --repo rhizome");
    Ok(repos)
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

fn loopback(text: &str) -> anyhow::Result<SocketAddr> {
    let address: SocketAddr =
        text.parse().with_context(|| format!("--http `{text}`: expected an address such as 127.0.0.1:7224"))?;
    ensure!(address.ip().is_loopback(), "--http {address}: only a loopback address is served");
    Ok(address)
}

/// An empty variable is one that is not set: clap's own parser would refuse it in its own words.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn duration(text: &str) -> Result<Duration, protocol::unit::BadUnit> {
    protocol::unit::duration_ms(text).map(Duration::from_millis)
}

#[cfg(test)]
mod tests;
