//! What was typed, and what it means: flags and variables, checked once, units resolved.
//!
//! Nothing else sees the environment. The key never leaves here but inside `Key`, which cannot be printed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use protocol::RepoName;

pub use crate::network::Allowed;

use walls::path;
pub use walls::{CgroupUse, LevelUse, WallArgs, Walls};

mod walls;

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
    /// What decides the confinement
    #[command(flatten)]
    pub walls: WallArgs,
    /// How many tasks to run side by side
    #[arg(long, env = "CW_SLOTS", value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub slots: u32,
    /// How many slots have their walls built before there is a task for them [default: all, 4 at most]
    #[arg(long, env = "CW_READY", value_name = "N")]
    pub ready: Option<u32>,
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
    /// Bytes of files of sessions that are kept so that they need not be fetched again; their trees may have as many
    #[arg(long, env = "CW_CACHE_SIZE", value_name = "SIZE", default_value = "5G", value_parser = protocol::unit::size_bytes)]
    pub cache_size: u64,
    /// How many trees of sessions are kept for their next tasks
    #[arg(long, env = "CW_KEPT_TREES", value_name = "N", default_value = "8")]
    pub kept_trees: u32,
    /// What tasks with a restricted network may reach, as name:port, separated by commas
    #[arg(long, env = "CW_ALLOW", value_name = "NAME:PORT", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// How log lines look
    #[arg(long, env = "CW_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, or a filter such as `worker=debug`
    #[arg(long, env = "CW_LOG", value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

/// Attempts that are prepared unless somebody says how many: each takes three small processes.
const MOST_READY: u32 = 4;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A worker's settings, checked.
pub struct Config {
    /// Where the coordinator is.
    pub coordinator: Address,
    /// What the coordinator knows the worker by.
    pub key: Key,
    /// The repos that it serves.
    pub repos: Vec<RepoName>,
    /// What decides the confinement, and where it keeps what must outlive it.
    pub walls: Walls,
    /// How many attempts run side by side.
    pub slots: u32,
    /// How many slots have their walls built before there is a task for them.
    pub ready: u32,
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
    /// Bytes of contents of sessions that are kept.
    pub cache_bytes: u64,
    /// Trees of sessions that are kept.
    pub kept_trees: u32,
    /// What tasks with a restricted network may reach.
    pub allow: Vec<Allowed>,
    /// How log lines look.
    pub log_format: LogFormat,
}

impl Config {
    /// Checks what was typed and reads the key.
    ///
    /// # Errors
    /// The first thing that is missing or wrong, with what to do about it.
    pub fn new(args: &RunArgs) -> anyhow::Result<Self> {
        let slots = if args.once { 1 } else { args.slots };
        Ok(Self {
            coordinator: address(args.coordinator.as_deref())?,
            repos: repos(&args.repo)?,
            walls: Walls::new(&args.walls)?,
            slots,
            ready: args.ready.unwrap_or(MOST_READY).min(slots),
            grace: args.grace,
            once: args.once,
            idle_exit: args.idle_exit,
            http: args.http.as_deref().filter(|text| !text.is_empty()).map(loopback).transpose()?,
            keep_attempts: args.keep_attempts,
            artifacts_limit: args.artifacts_limit,
            cache_bytes: args.cache_size,
            kept_trees: args.kept_trees,
            allow: crate::network::allow::parse(&args.allow)?,
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

fn loopback(text: &str) -> anyhow::Result<SocketAddr> {
    let address: SocketAddr =
        text.parse().with_context(|| format!("--http `{text}`: expected an address such as 127.0.0.1:7224"))?;
    ensure!(address.ip().is_loopback(), "--http {address}: only a loopback address is served");
    Ok(address)
}

fn duration(text: &str) -> Result<Duration, protocol::unit::BadUnit> {
    protocol::unit::duration_ms(text).map(Duration::from_millis)
}

#[cfg(test)]
mod tests;
