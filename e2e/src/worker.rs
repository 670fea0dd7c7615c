//! The real worker, with a key of its own.

use std::path::{Path, PathBuf};

use anyhow::bail;
use protocol::{TaskId, WorkerId};
use tokio::process::Command;

use crate::binaries::binary;
use crate::coordinator::Coordinator;
use crate::program::{Program, command};
use crate::wait::eventually;

/// Becomes the worker, in a mount namespace where names are looked up in files of the test's alone, and nobody is asked.
/// It keeps its user, and gets no capability that it would not have.
const KNOWING: &str = r#"
mount --bind "$1/hosts" /etc/hosts && mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf || exit 99
shift
exec setpriv --inh-caps=-all --ambient-caps=-all "$@"
"#;

/// A worker that can be killed, frozen and started again.
pub struct Worker {
    home: PathBuf,
    variables: Vec<(String, String)>,
    program: Program,
}

/// How to start a worker.
pub struct Setup<'names> {
    /// A name that is its own.
    pub name: &'names str,
    /// The repos that it serves.
    pub repo: &'names str,
    /// Variables beside the usual ones.
    pub variables: &'names [(&'names str, &'names str)],
}

impl Worker {
    /// Starts a worker for a repo and waits until the coordinator knows it.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start(coordinator: &Coordinator, repo: &str) -> anyhow::Result<Self> {
        Self::start_as(coordinator, Setup { name: repo, repo, variables: &[] }).await
    }

    /// The same with a name and variables.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start_as(coordinator: &Coordinator, setup: Setup<'_>) -> anyhow::Result<Self> {
        let worker = Self::launch(coordinator, setup).await?;
        coordinator.api()?.knows_worker(worker.id().await?).await?;
        Ok(worker)
    }

    /// The same for a worker that knows these names alone, each as `address name`. Needs root or user namespaces.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start_knowing(coordinator: &Coordinator, setup: Setup<'_>, names: &[&str]) -> anyhow::Result<Self> {
        let home = coordinator.home().join(format!("worker-{}", setup.name));
        std::fs::create_dir_all(&home)?;
        std::fs::write(home.join("hosts"), format!("127.0.0.1 localhost\n{}\n", names.join("\n")))?;
        std::fs::write(home.join("nsswitch.conf"), "hosts: files\n")?;
        Self::start_as(coordinator, setup).await
    }

    /// The same, without waiting for anything.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn launch(coordinator: &Coordinator, setup: Setup<'_>) -> anyhow::Result<Self> {
        let home = coordinator.home().join(format!("worker-{}", setup.name));
        std::fs::create_dir_all(&home)?;
        let repos: Vec<&str> = setup.repo.split(',').collect();
        let key_file = home.join("key");
        if !key_file.exists() {
            std::fs::write(&key_file, coordinator.api()?.worker_key(&repos).await?.key)?;
        }
        let usual = [
            ("CW_COORDINATOR", coordinator.worker_url()),
            ("CW_KEY_FILE", key_file.display().to_string()),
            ("CW_REPO", setup.repo.to_owned()),
            ("CW_STATE_DIR", home.join("state").display().to_string()),
            ("CW_RO_MOUNT", coordinator.shared().display().to_string()),
        ];
        let mut variables: Vec<_> = usual.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        variables.extend(setup.variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let program = run(&home, &variables)?;
        Ok(Self { home, variables, program })
    }

    /// Starts it again with the same state directory; the one before must be gone.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.program.kill().await?;
        self.program = run(&self.home, &self.variables)?;
        Ok(())
    }

    /// Its process.
    pub const fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Everything that it said, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        self.program.log()
    }

    /// How often it started a task, over all its starts.
    #[must_use]
    pub fn starts(&self, task: TaskId) -> usize {
        self.log().lines().filter(|line| line.contains(&format!("task started task={task} "))).count()
    }

    /// Where it keeps everything.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.home.join("state")
    }

    /// The id of its newest start.
    ///
    /// # Errors
    /// When it never says one.
    pub async fn id(&self) -> anyhow::Result<WorkerId> {
        self.said("serves", |line| line.split_whitespace().find_map(|word| word.parse().ok())).await
    }

    /// Waits until it says something.
    ///
    /// # Errors
    /// When it never does.
    pub async fn says(&self, text: &str) -> anyhow::Result<String> {
        self.said(text, |line| Some(line.to_owned())).await
    }

    async fn said<T>(&self, text: &str, read: impl Fn(&str) -> Option<T>) -> anyhow::Result<T> {
        eventually(&format!("the worker says `{text}`"), async || {
            Ok(self.log().lines().rev().filter(|line| line.contains(text)).find_map(&read))
        })
        .await
    }
}

fn run(home: &Path, variables: &[(String, String)]) -> anyhow::Result<Program> {
    let program = binary("cw-worker")?;
    let Some(log) = home.to_str().map(|home| format!("{home}/worker.log")) else { bail!("not a path: {home:?}") };
    let knows_names = home.join("hosts").exists();
    let mut command = if knows_names { knowing(home, &program) } else { command(&program, home) };
    command.arg("run").envs(variables.iter().map(|(name, value)| (name, value)));
    Program::start(command, Path::new(&log))
}

fn knowing(home: &Path, program: &Path) -> Command {
    let mut command = command(Path::new("unshare"), home);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    command.args(["--mount", "sh", "-c", KNOWING, "sh"]).arg(home).arg(program);
    command
}
