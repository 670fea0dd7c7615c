//! What can be typed: the program's name, its global options and its commands. Each command's own options stand in its
//! own file.

use std::path::PathBuf;

use crate::command;

/// Hand work to workers in sandboxes, follow it, and fetch what came of it.
#[derive(Debug, clap::Parser)]
#[command(name = "cw", version, after_help = crate::exit::HELP, max_term_width = 110)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes. Each has a variable and a key in the config file.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Where the coordinator listens: http://HOST:PORT or unix:/PATH [default: http://127.0.0.1:7222]
    #[arg(long, global = true, value_name = "URL", env = "CW_COORDINATOR", hide_env_values = true)]
    pub(crate) coordinator: Option<String>,
    /// The file that holds the key [default: admin.key of a coordinator on this machine]
    #[arg(long, global = true, value_name = "FILE", env = "CW_KEY_FILE", hide_env_values = true)]
    pub(crate) key_file: Option<PathBuf>,
    /// The state directory of a coordinator on this machine
    #[arg(long, global = true, value_name = "DIR", env = "CW_STATE_DIR", hide_env_values = true)]
    pub(crate) state_dir: Option<PathBuf>,
    /// The config file [default: ~/.config/code-workers/config.toml]
    #[arg(long, global = true, value_name = "FILE", env = "CW_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// How long a wait or a follow tries to get a lost coordinator back [default: 5m]
    #[arg(long, global = true, value_name = "DURATION", env = "CW_RECONNECT_FOR", hide_env_values = true)]
    pub(crate) reconnect_for: Option<String>,
    /// JSON on stdout (one object; a line for each event when following), errors as JSON on stderr
    #[arg(long, global = true, env = "CW_JSON", hide_env_values = true, hide_possible_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[arg(value_parser = boolean)]
    pub(crate) json: Option<bool>,
    /// No talk on stderr, only errors; lists show ids alone
    #[arg(short, long, global = true, env = "CW_QUIET", hide_env_values = true, hide_possible_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[arg(value_parser = boolean)]
    pub(crate) quiet: Option<bool>,
    /// Let control sequences of task output through to the terminal
    #[arg(long, global = true, env = "CW_RAW", hide_env_values = true, hide_possible_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[arg(value_parser = boolean)]
    pub(crate) raw: Option<bool>,
    /// No colour, even on a terminal (NO_COLOR does the same)
    #[arg(long, global = true, env = "CW_NO_COLOR", hide_env_values = true, hide_possible_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[arg(value_parser = boolean)]
    pub(crate) no_color: Option<bool>,
}

/// Reads yes or no as it is typed or set; an empty variable is none.
fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" | "y" | "t" => Ok(true),
        "" | "0" | "false" | "no" | "off" | "n" | "f" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// The command line, whose usage never lists the global options that a variable happens to set.
pub(crate) fn command() -> clap::Command {
    use clap::CommandFactory as _;
    let mut command = Cli::command();
    command.build();
    with_plain_usage(command)
}

fn with_plain_usage(mut command: clap::Command) -> clap::Command {
    let usage = command.render_usage().to_string();
    for subcommand in command.get_subcommands_mut() {
        *subcommand = with_plain_usage(std::mem::take(subcommand));
    }
    command.override_usage(usage.trim_start_matches("Usage: ").to_owned())
}

/// What can be done.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Send a task: a prompt for the repo's agent, a program, or a command
    Send(Box<command::send::Args>),
    /// Show a task
    #[command(visible_alias = "poll")]
    Get(command::get::Args),
    /// List tasks, newest first
    #[command(visible_alias = "ls")]
    List(command::list::Args),
    /// Show what tasks wrote
    Logs(command::logs::Args),
    /// List the files that came of a task, or fetch them
    Artifacts(command::artifacts::Args),
    /// Look at, fetch and change the files of a session
    Files(Box<command::files::Args>),
    /// List, make, fork and keep sessions, and run commands in them
    Sessions(command::sessions::Args),
    /// Wait until tasks are done
    Wait(command::wait::Args),
    /// Cancel tasks
    Cancel(command::cancel::Args),
    /// Say why a task waits, runs or ended as it did
    Why(command::why::Args),
    /// List workers
    Workers(command::workers::Args),
    /// List repos, and set how they are served
    Repos(command::repos::Args),
    /// Make, list and revoke keys
    Keys(command::keys::Args),
    /// Check everything that `cw` needs, and say what to do about it
    Doctor(command::doctor::Args),
    /// Write a commented config file
    Init(command::init::Args),
    /// Print the completions of a shell
    Completions(command::completions::Args),
    /// Show the manual page, or write one page for each command
    Man(command::man::Args),
}
