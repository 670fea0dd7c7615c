//! `cw-worker`: parse, trace, run, exit code. It decides nothing else.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use worker::config::{Config, LogFormat, RunArgs};
use worker::doctor::DoctorArgs;
use worker::trial::TrialArgs;
use worker::{Exit, Stage, Stages};

/// Takes tasks from a coordinator and runs them.
#[derive(Parser)]
#[command(name = "cw-worker", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Take tasks and run them until told to stop.
    Run(Box<RunArgs>),
    /// Try every wall that tasks would get on this machine, and say what is missing and how to get it.
    ///
    /// Ends with 0 when the minimum holds, with 1 when a worker would refuse to start.
    Doctor(Box<DoctorArgs>),
    /// Run a program behind the walls and say how long that took, for measurements.
    #[command(hide = true)]
    Trial(Box<TrialArgs>),
    /// Try the walls of a confinement from inside.
    #[command(hide = true)]
    Check {
        /// What to try, as JSON.
        sight: String,
    },
    /// Try to pass the limits of a cgroup.
    #[command(hide = true)]
    Exceed {
        /// Its directories.
        cgroups: Vec<std::path::PathBuf>,
    },
}

fn main() -> ExitCode {
    // The stages of a confinement, which every task waits for, come before anything else is looked at.
    match std::env::args_os().nth(1) {
        Some(word) if word == "enter" => return worker::stage(Stages::Enter),
        Some(word) if word == "init" => return worker::stage(Stages::Init),
        Some(_) | None => {}
    }
    match Args::parse().command {
        Command::Run(args) => run(&args),
        Command::Doctor(args) => block_on(worker::doctor::run(&args)),
        Command::Trial(args) => block_on(worker::trial::run(&args)),
        Command::Check { sight } => worker::stage(Stages::Check { sight }),
        Command::Exceed { cgroups } => worker::stage(Stages::Exceed { cgroups }),
    }
}

fn run(args: &RunArgs) -> ExitCode {
    let done = Config::new(args).and_then(|config| {
        trace(&args.log, config.log_format)?;
        Ok(config)
    });
    let config = match done {
        Ok(config) => config,
        Err(error) => return fail(&error),
    };
    match serve(config) {
        Ok(exit) => exit.code(),
        Err(error) => fail(&error),
    }
}

fn block_on(command: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let done = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(command));
    done.unwrap_or_else(|error| fail(&error))
}

fn serve(config: Config) -> anyhow::Result<Exit> {
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // A slot reads its task's files; that of a session fetches and lays out several batches side by side.
        .max_blocking_threads(config.slots as usize * 4 + 2 + worker::LOOKUPS)
        .enable_all()
        .build()?;
    let exit = runtime.block_on(async {
        let stages = Stage::from_signals()?;
        worker::run(config, stages).await
    });
    // Nothing that is still on its way is worth waiting for: what matters is in the spool.
    runtime.shutdown_background();
    exit
}

/// Each connection of a task takes two files: a thousand, the usual limit, would be few. Tasks have a limit of their own.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "could not raise the limit of open files");
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("cw-worker: {error:#}");
    ExitCode::from(2)
}

fn trace(filter: &str, format: LogFormat) -> anyhow::Result<()> {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_new(filter).map_err(|error| anyhow::anyhow!("CW_LOG: {error}"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}
