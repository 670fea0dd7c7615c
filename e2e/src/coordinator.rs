//! The real coordinator, in a directory of its own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::api::Api;
use crate::binaries::binary;
use crate::gate::{self, Gate};
use crate::mounts::Mounts;
use crate::program::{Program, command};
use crate::wait::eventually;

/// A coordinator that can be killed and started again.
pub struct Coordinator {
    home: TempDir,
    /// Where it keeps everything, as it sees it.
    inside_dir: PathBuf,
    /// The same directory, as the test sees it.
    state_dir: PathBuf,
    launcher: Vec<String>,
    variables: Vec<(String, String)>,
    program: Option<Program>,
    listen: String,
    worker_listen: String,
}

impl Coordinator {
    /// Starts one on free ports.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(&[]).await
    }

    /// The same with these variables.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start_with(variables: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::prepare(variables)?.up().await
    }

    /// One that is to be started again, on ports that nobody else takes meanwhile.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start_lasting(variables: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::prepare(variables)?.on_lasting_ports()?.up().await
    }

    /// One that is not started yet.
    ///
    /// # Errors
    /// When there is no room for its directory.
    pub fn prepare(variables: &[(&str, &str)]) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        gate::share(home.path())?;
        Ok(Self {
            inside_dir: home.path().join("state"),
            state_dir: home.path().join("state"),
            launcher: Vec::new(),
            home,
            variables: variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            program: None,
            listen: "127.0.0.1:0".into(),
            worker_listen: "127.0.0.1:0".into(),
        })
    }

    /// Runs it among other mounts, with its state in their directory.
    #[must_use]
    pub fn among(mut self, mounts: &Mounts) -> Self {
        self.launcher = mounts.launcher();
        self.inside_dir = mounts.directory().to_owned();
        self.state_dir = mounts.seen(mounts.directory());
        self
    }

    /// A gate that tasks can wait at.
    #[must_use]
    pub fn gate(&self) -> Gate {
        Gate::new(&self.shared())
    }

    /// What every task of its workers can read.
    #[must_use]
    pub fn shared(&self) -> PathBuf {
        gate::shared(self.home.path())
    }

    /// Listens on ports outside the range from which the system serves itself, so that no client's connection takes one
    /// while the coordinator is down.
    ///
    /// # Errors
    /// When none is free.
    pub fn on_lasting_ports(mut self) -> anyhow::Result<Self> {
        self.listen = lasting_address()?;
        self.worker_listen = lasting_address()?;
        Ok(self)
    }

    /// Sets a variable for its next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.unset(name);
        self.variables.push((name.into(), value.into()));
    }

    /// Takes a variable back for its next start.
    pub fn unset(&mut self, name: &str) {
        self.variables.retain(|(known, _)| known != name);
    }

    /// Starts what was prepared.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn up(mut self) -> anyhow::Result<Self> {
        self.restart().await?;
        Ok(self)
    }

    /// The command that starts it.
    ///
    /// # Errors
    /// When it was not built.
    pub fn command(&self) -> anyhow::Result<Command> {
        let program = binary("cw-coordinator")?;
        let mut command = match self.launcher.split_first() {
            None => command(&program, self.home.path()),
            Some((launcher, args)) => {
                let mut command = command(Path::new(launcher), self.home.path());
                command.args(args).arg(&program);
                command
            }
        };
        command.env("CW_STATE_DIR", &self.inside_dir);
        command.env("CW_LISTEN", &self.listen).env("CW_WORKER_LISTEN", &self.worker_listen);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    /// Starts it, on the addresses that it had before; returns when it is ready.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.program = None;
        let mut program = Program::start(self.command()?, &self.log_file())?;
        let announced = self.state_dir.join("coordinator.json");
        let holder = eventually("the coordinator is ready", async || {
            if let Some(status) = program.has_ended()? {
                bail!("the coordinator did not start ({status}): {}", program.log());
            }
            Ok(read_holder(&announced).filter(|holder| holder["pid"] == program.pid().as_raw_nonzero().get()))
        })
        .await?;
        let address = |name: &str| holder[name].as_str().map(str::to_owned).context("no address is announced");
        self.listen = address("listen")?;
        self.worker_listen = address("worker_listen")?;
        self.program = Some(program);
        Ok(())
    }

    /// Tries to start it where it must not start; gives what it said.
    ///
    /// # Errors
    /// When it starts all the same.
    pub async fn refuses_to_start(&self) -> anyhow::Result<String> {
        let log = self.home.path().join("refused.log");
        let mut program = Program::start(self.command()?, &log)?;
        let status = program.ended().await?;
        ensure!(status.code() == Some(1), "it ended with {status}: {}", program.log());
        Ok(program.log())
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(program) = &mut self.program {
            program.kill().await?;
        }
        Ok(())
    }

    /// Its process.
    ///
    /// # Errors
    /// When it was not started.
    pub fn program(&mut self) -> anyhow::Result<&mut Program> {
        self.program.as_mut().context("the coordinator is not started")
    }

    /// Everything that it said, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.home.path().join("coordinator.log")
    }

    /// Where clients reach it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// Where workers reach it.
    #[must_use]
    pub fn worker_url(&self) -> String {
        format!("http://{}", self.worker_listen)
    }

    /// Where it keeps everything, as the test sees it.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// A directory for what belongs to it: workers, files of tests.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Its API with the admin's key.
    ///
    /// # Errors
    /// When there is no key.
    pub fn api(&self) -> anyhow::Result<Api> {
        let key = std::fs::read_to_string(self.state_dir.join("admin.key")).context("reading the admin's key")?;
        Api::new(&self.url(), key.trim())
    }
}

fn read_holder(path: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// An address below the ports that the system hands out. Each test process begins elsewhere.
fn lasting_address() -> anyhow::Result<String> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    for _ in 0..1000 {
        let port = 10_000 + (std::process::id() * 8 + TAKEN.fetch_add(1, Ordering::Relaxed)) % 20_000;
        let address = format!("127.0.0.1:{port}");
        if std::net::TcpListener::bind(&address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no port between 10000 and 30000 is free")
}
