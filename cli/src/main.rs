//! `cw`, the host's command: sends tasks, follows them, fetches their results, and sets how repos are served.

mod arguments;
mod client;
mod clock;
mod command;
mod config;
mod ending;
mod exit;
mod failure;
mod follow;
mod id_part;
mod key_file;
mod output;
mod place;
mod recipe;
mod sse;
mod table;
mod task_id;
mod terminal;
mod waiting;
mod watch;

use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::arguments::Cli;
use crate::command::Context;
use crate::config::{Environment, Manners};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;

fn main() -> ExitCode {
    let parsed = arguments::command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed {
        Ok(cli) => run(cli).into(),
        Err(error) => refuse(&error).into(),
    }
}

/// Runs the command, and says what went wrong when something did.
fn run(cli: Cli) -> Exit {
    let environment = Environment::read();
    let settings = config::load(&cli.global, &environment);
    let manners = match &settings {
        Ok(settings) => settings.manners,
        Err(_) => config::typed_manners(&cli.global, &environment),
    };
    let config_file = config::file_place(&cli.global, &environment);
    let mut context = Context { settings, config_file, out: Output::new(manners) };
    let ended = runtime().and_then(|runtime| runtime.block_on(command::run(cli.command, &mut context)));
    context.out.clear_live();
    ended.unwrap_or_else(|failure| {
        context.out.fail(&failure);
        failure.exit
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Help and version are data; everything else that cannot be parsed is wrong usage.
fn refuse(error: &clap::Error) -> Exit {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && wants_json {
        let message = error.to_string();
        let message = message.trim_start_matches("error: ").split("\n\nUsage:").next().unwrap_or_default().trim();
        let failure = Failure::usage(message).next("see `cw --help`");
        Output::new(Manners { json: true, ..Manners::default() }).fail(&failure);
        return failure.exit;
    }
    match error.print() {
        Err(broken) => Failure::from(broken).exit,
        Ok(()) if error.use_stderr() => Exit::USAGE,
        Ok(()) => Exit::DONE,
    }
}
