//! What was typed, and what it means. Nothing else in the coordinator sees flags or the environment.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use protocol::path::WorkspacePath;
use protocol::unit::{duration_ms, size_bytes};

use crate::retention::{ORPHANS_MS, Retention};
use crate::store::{SessionRules, Ttls};

/// Accepts tasks, leases them to workers, keeps their results.
#[derive(Debug, Parser)]
#[command(name = "cw-coordinator", version)]
pub struct Arguments {
    #[command(subcommand)]
    /// What to do instead of serving.
    pub command: Option<Command>,
    /// Where everything is kept; `$XDG_STATE_HOME/code-workers` by default
    #[arg(long, env = "CW_STATE_DIR", global = true)]
    pub state_dir: Option<PathBuf>,
    /// How log lines look
    #[arg(long, env = "CW_LOG_FORMAT", global = true, default_value = "text")]
    pub log_format: LogFormat,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, Subcommand)]
/// What to do instead of serving.
pub enum Command {
    /// Copy the database into a new file, also while the coordinator runs
    Backup {
        /// The file to write; it must not exist
        to: PathBuf,
    },
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, clap::Args)]
struct Serve {
    /// The address that serves all routes: host:port on loopback, or unix:/path
    #[arg(long, env = "CW_LISTEN", default_value = "127.0.0.1:7222")]
    listen: String,
    /// The address that serves only the workers' routes, where relays lead; `none` for none
    #[arg(long, env = "CW_WORKER_LISTEN", default_value = "127.0.0.1:7223")]
    worker_listen: String,
    /// Listen on an address that others can reach; there is no encryption
    #[arg(long, env = "CW_LISTEN_ANYWAY")]
    listen_anyway: bool,
    /// More names by which clients may call the coordinator in `Host` and `Origin`
    #[arg(long, env = "CW_ALLOWED_HOSTS", value_delimiter = ',')]
    allowed_hosts: Vec<String>,
    /// The agent that a bare prompt goes to when its repo names none
    #[arg(long, env = "CW_AGENT", default_value = "opencode")]
    agent: String,
    /// How long a lease lives after a renewal
    #[arg(long, env = "CW_LEASE_TTL", default_value = "30s", value_parser = seconds)]
    lease_ttl: u32,
    /// How long an agent's lease lives after a renewal
    #[arg(long, env = "CW_AGENT_LEASE_TTL", default_value = "2m", value_parser = seconds)]
    agent_lease_ttl: u32,
    /// How long a lease lives until its first renewal
    #[arg(long, env = "CW_FIRST_LEASE_TTL", default_value = "10s", value_parser = seconds)]
    first_lease_ttl: u32,
    /// How long done tasks are kept
    #[arg(long, env = "CW_RETENTION", default_value = "30d", value_parser = milliseconds)]
    retention: i64,
    /// How long the output of done tasks is kept; what their results show of it stays
    #[arg(long, env = "CW_OUTPUT_RETENTION", default_value = "7d", value_parser = milliseconds)]
    output_retention: i64,
    /// Bytes of files that one attempt may bring, such as 100M
    #[arg(long, env = "CW_ARTIFACTS_LIMIT", default_value = "100M", value_parser = size_bytes)]
    artifacts_limit: u64,
    /// Bytes that the files of a session may have, unless it was made with another quota
    #[arg(long, env = "CW_SESSION_QUOTA", default_value = "5G", value_parser = size_bytes)]
    session_quota: u64,
    /// How long a session is kept after its last use; for ever when it is not set
    #[arg(long, env = "CW_SESSION_RETENTION")]
    session_retention: Option<String>,
    /// Directories, by commas, that a new session begins with, such as repos,artifacts
    #[arg(long, env = "CW_SESSION_LAYOUT", value_delimiter = ',')]
    session_layout: Vec<String>,
    /// A directory that every workspace shows read-only as utils/
    #[arg(long, env = "CW_UTILS_DIR")]
    utils_dir: Option<PathBuf>,
    /// A directory that every workspace shows read-only as skills/
    #[arg(long, env = "CW_SKILLS_DIR")]
    skills_dir: Option<PathBuf>,
    /// How long requests may take to finish when the coordinator is told to stop
    #[arg(long, env = "CW_GRACE", default_value = "10s", value_parser = milliseconds)]
    grace: i64,
}

fn seconds(text: &str) -> Result<u32, String> {
    let ms = duration_ms(text).map_err(|error| error.to_string())?;
    u32::try_from(ms / 1000).ok().filter(|seconds| *seconds > 0).ok_or_else(|| "must be at least 1s".into())
}

fn milliseconds(text: &str) -> Result<i64, String> {
    let ms = duration_ms(text).map_err(|error| error.to_string())?;
    i64::try_from(ms).map_err(|_| "too long".into())
}

/// What the coordinator serves, and how.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where everything is kept.
    pub state_dir: PathBuf,
    /// The address of all routes.
    pub listen: Address,
    /// The address of the workers' routes.
    pub worker_listen: Option<Address>,
    /// Names by which clients may call the coordinator, besides the usual ones.
    pub allowed_hosts: Vec<String>,
    /// The agent of a bare prompt.
    pub default_agent: String,
    /// How long leases live.
    pub ttls: Ttls,
    /// How long things are kept.
    pub retention: Retention,
    /// Bytes of files that one attempt may bring.
    pub artifacts_limit: u64,
    /// What holds for workspaces.
    pub sessions: Sessions,
    /// How long requests may take to finish at the end.
    pub grace: std::time::Duration,
    /// What one listener puts up with.
    pub patience: Patience,
}

/// What holds for workspaces.
#[derive(Debug, Clone)]
pub struct Sessions {
    /// What a session begins with, and may have.
    pub rules: SessionRules,
    /// The directory that is shown as `utils/`.
    pub utils_dir: Option<PathBuf>,
    /// The directory that is shown as `skills/`.
    pub skills_dir: Option<PathBuf>,
}

/// What one listener puts up with from those who connect.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long the head of a request may take to arrive; an idle connection lives as long.
    pub header_timeout: std::time::Duration,
    /// How long a body may take to arrive.
    pub body_timeout: std::time::Duration,
    /// Connections at one time; the next waits in the kernel's queue.
    pub max_connections: usize,
}

impl Default for Patience {
    fn default() -> Self {
        let timeout = std::time::Duration::from_secs(30);
        Self { header_timeout: timeout, body_timeout: timeout, max_connections: 10_000 }
    }
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(out, "{address}"),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl Arguments {
    /// Where everything is kept.
    ///
    /// # Errors
    /// When neither a flag nor the environment says where.
    pub fn state_dir(&self) -> anyhow::Result<PathBuf> {
        if let Some(dir) = &self.state_dir {
            return Ok(dir.clone());
        }
        let set = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
        let base = base
            .context("neither CW_STATE_DIR, XDG_STATE_HOME nor HOME says where to keep the queue; set CW_STATE_DIR")?;
        Ok(base.join("code-workers"))
    }

    /// What was typed, checked.
    ///
    /// # Errors
    /// What is wrong with an address, in words.
    pub fn config(&self) -> anyhow::Result<Config> {
        let serve = &self.serve;
        let listen = address(&serve.listen, serve.listen_anyway).context("--listen (CW_LISTEN)")?;
        let worker_listen = match serve.worker_listen.as_str() {
            "none" | "" => None,
            text => Some(address(text, serve.listen_anyway).context("--worker-listen (CW_WORKER_LISTEN)")?),
        };
        Ok(Config {
            state_dir: self.state_dir()?,
            listen,
            worker_listen,
            allowed_hosts: serve.allowed_hosts.clone(),
            default_agent: serve.agent.clone(),
            ttls: Ttls { first_s: serve.first_lease_ttl, code_s: serve.lease_ttl, agent_s: serve.agent_lease_ttl },
            retention: Retention {
                tasks_ms: serve.retention,
                output_ms: serve.output_retention,
                sessions_ms: serve.session_retention()?,
                orphans_ms: ORPHANS_MS,
            },
            artifacts_limit: serve.artifacts_limit,
            sessions: serve.sessions()?,
            grace: std::time::Duration::from_millis(serve.grace.unsigned_abs()),
            patience: Patience::default(),
        })
    }
}

impl Serve {
    fn session_retention(&self) -> anyhow::Result<Option<i64>> {
        let text = self.session_retention.as_deref().filter(|text| !text.is_empty());
        text.map(milliseconds)
            .transpose()
            .map_err(|error| anyhow::anyhow!("--session-retention (CW_SESSION_RETENTION): {error}"))
    }

    fn sessions(&self) -> anyhow::Result<Sessions> {
        let directory = |text: &String| {
            let path = text.parse().and_then(WorkspacePath::writable);
            path.with_context(|| format!("--session-layout (CW_SESSION_LAYOUT): `{text}`"))
        };
        let layout =
            self.session_layout.iter().filter(|text| !text.is_empty()).map(directory).collect::<Result<_, _>>()?;
        let set = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        Ok(Sessions {
            rules: SessionRules { quota_bytes: self.session_quota, layout },
            utils_dir: set(&self.utils_dir),
            skills_dir: set(&self.skills_dir),
        })
    }
}

/// An address on loopback, or a Unix socket; another only when the operator insists.
fn address(text: &str, anyway: bool) -> anyhow::Result<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        ensure!(path.starts_with('/'), "`{text}`: the path of a Unix socket is absolute, such as unix:/run/cw.sock");
        return Ok(Address::Unix(path.into()));
    }
    let text = text.replace("localhost:", "127.0.0.1:");
    let Ok(address) = text.parse::<SocketAddr>() else {
        bail!("`{text}` is not an address: expected IP:port such as 127.0.0.1:7222, or unix:/path");
    };
    ensure!(
        address.ip().is_loopback() || anyway,
        "`{address}` is not on loopback: keys and tasks would cross the network unencrypted. Listen on 127.0.0.1 and relay, \
         or add --listen-anyway if the network is trusted",
    );
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "listening where others can connect, without encryption, because of --listen-anyway");
    }
    Ok(Address::Tcp(address))
}

/// What the operator wants to read, such as `debug` or `coordinator=debug`.
#[must_use]
pub fn log_filter() -> String {
    variable("CW_LOG").unwrap_or_else(|| "info".into())
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that sees the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
