//! The commands, one file each. A command asks the coordinator, prints, and says what the program ends with.

pub(crate) mod artifacts;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod files;
pub(crate) mod get;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod repos;
pub(crate) mod send;
pub(crate) mod sessions;
pub(crate) mod wait;
pub(crate) mod why;
pub(crate) mod workers;

use std::path::PathBuf;
use std::time::Duration;

use crate::arguments::Command;
use crate::client::Client;
use crate::config::Settings;
use crate::exit::Exit;
use crate::failure::Result;
use crate::key_file;
use crate::output::Output;

/// What every command is given.
pub(crate) struct Context {
    /// What is in force; a config file that is wrong stops only what needs it.
    pub(crate) settings: Result<Settings>,
    /// Where the config file is, or would be.
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) out: Output,
}

impl Context {
    /// The way to the coordinator. Warns when others can read the key.
    pub(crate) fn connect(&mut self) -> Result<Client> {
        let settings = self.settings.clone()?;
        let client = Client::new(&settings)?;
        if let Some(exposure) = key_file::exposure(&settings.key_file) {
            self.out.warn(&exposure);
        }
        Ok(client)
    }
}

/// Runs one command.
pub(crate) async fn run(command: Command, context: &mut Context) -> Result<Exit> {
    match command {
        Command::Send(args) => send::run(*args, context).await,
        Command::Get(args) => get::run(args, context).await,
        Command::List(args) => list::run(args, context).await,
        Command::Logs(args) => logs::run(args, context).await,
        Command::Artifacts(args) => artifacts::run(args, context).await,
        Command::Files(args) => files::run(*args, context).await,
        Command::Sessions(args) => sessions::run(args, context).await,
        Command::Wait(args) => wait::run(args, context).await,
        Command::Cancel(args) => cancel::run(args, context).await,
        Command::Why(args) => why::run(args, context).await,
        Command::Workers(args) => workers::run(args, context).await,
        Command::Repos(args) => repos::run(args, context).await,
        Command::Keys(args) => keys::run(args, context).await,
        Command::Doctor(args) => doctor::run(args, context).await,
        Command::Init(args) => init::run(args, context),
        Command::Completions(args) => completions::run(args, context),
        Command::Man(args) => man::run(args, context),
    }
}

/// Reads a duration as it is typed.
fn duration(text: &str) -> std::result::Result<Duration, protocol::unit::BadUnit> {
    protocol::unit::duration_ms(text).map(Duration::from_millis)
}

/// Reads a duration as it is typed, which must be one of whole seconds.
fn seconds(text: &str) -> std::result::Result<u32, String> {
    let ms = protocol::unit::duration_ms(text).map_err(|error| error.to_string())?;
    if ms % 1000 != 0 {
        return Err("whole seconds only, such as `1s` or `90s`".to_owned());
    }
    u32::try_from(ms / 1000).map_err(|_| "too long".to_owned())
}

/// Reads `name=value`.
fn pair(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
