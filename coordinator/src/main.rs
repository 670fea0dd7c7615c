//! `cw-coordinator`: parse, trace, run, exit code.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Parser as _;
use coordinator::config::{Arguments, Command, LogFormat};
use coordinator::store::Store;
use coordinator::{config, shutdown, state_dir};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // What is written here is for its owner alone: tasks, results, hashes of keys.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    trace(arguments.log_format);
    let done = match &arguments.command {
        Some(Command::Backup { to }) => backup(&arguments, to),
        None => serve(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cw-coordinator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn trace(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::new(config::log_filter());
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => lines.json().init(),
    }
}

fn serve(arguments: &Arguments) -> anyhow::Result<()> {
    let config = arguments.config()?;
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4))
        .max_blocking_threads(8)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        let (trigger, shutdown) = shutdown::channel();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::spawn(async move {
            tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
            tracing::info!("told to stop");
            trigger.stop();
        });
        coordinator::run(config, shutdown).await
    })
}

/// Each parked worker holds a connection: a thousand files, the usual limit, would be too few.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "could not raise the limit of open files");
    }
}

fn backup(arguments: &Arguments, to: &std::path::Path) -> anyhow::Result<()> {
    let database = state_dir::database(&arguments.state_dir()?);
    ensure!(!to.exists(), "{} exists already; name a new file", to.display());
    ensure!(database.exists(), "there is no queue at {}; set CW_STATE_DIR to the coordinator's", database.display());
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    ensure!(directory.is_none_or(std::path::Path::is_dir), "the directory of {} does not exist", to.display());
    Store::backup(&database, to)?;
    eprintln!("copied {} to {}", database.display(), to.display());
    Ok(())
}
