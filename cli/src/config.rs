//! What was typed, set and written down → what it means. A flag beats its variable, that beats the key in the config
//! file, that beats the default. Nothing else sees the environment.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::arguments::Global;
use crate::failure::{Failure, Result, plain};

/// Where the coordinator listens when nobody says otherwise.
pub(crate) const DEFAULT_COORDINATOR: &str = "http://127.0.0.1:7222";

const DEFAULT_RECONNECT_FOR: &str = "5m";

/// The config file that `cw init` writes: every key, with its default.
pub(crate) const TEMPLATE: &str = include_str!("config/template.toml");

/// The parts of the environment that are no flag's variable.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) home: Option<PathBuf>,
    pub(crate) config_home: Option<PathBuf>,
    pub(crate) state_home: Option<PathBuf>,
    /// `NO_COLOR` is set, to anything.
    pub(crate) no_color: bool,
}

impl Environment {
    /// Reads it, once.
    pub(crate) fn read() -> Self {
        let directory = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Self {
            home: directory("HOME"),
            config_home: directory("XDG_CONFIG_HOME"),
            state_home: directory("XDG_STATE_HOME"),
            no_color: variable("NO_COLOR").is_some(),
        }
    }

    /// Where the config file is when nobody says otherwise.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        let config_home = self.config_home.clone().or_else(|| Some(self.home.as_ref()?.join(".config")))?;
        Some(config_home.join("code-workers/config.toml"))
    }

    fn state_dir(&self) -> Option<PathBuf> {
        let state_home = self.state_home.clone().or_else(|| Some(self.home.as_ref()?.join(".local/state")))?;
        Some(state_home.join("code-workers"))
    }

    /// A path as people write it: `~/` is the home directory.
    fn expand(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_owned(),
        }
    }
}

/// A variable of the environment; an empty one counts as unset.
#[allow(clippy::disallowed_methods, reason = "this is the place that the lint points to")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The config file as it is written; a key that is not here is refused by name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    coordinator: Option<String>,
    key_file: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    reconnect_for: Option<String>,
    json: Option<bool>,
    quiet: Option<bool>,
    raw: Option<bool>,
    no_color: Option<bool>,
    timeout: Option<String>,
    priority: Option<String>,
}

/// How the program talks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Manners {
    /// JSON on stdout, errors as JSON on stderr.
    pub(crate) json: bool,
    /// No talk.
    pub(crate) quiet: bool,
    /// Task output reaches a terminal as it is.
    pub(crate) raw: bool,
    /// No colour, even on a terminal.
    pub(crate) no_color: bool,
}

/// What is in force.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// As it was given.
    pub(crate) coordinator: String,
    /// Where the key is.
    pub(crate) key_file: PathBuf,
    /// Somebody named that file, so it must be there.
    pub(crate) key_file_is_named: bool,
    /// How long a follow tries to get the coordinator back.
    pub(crate) reconnect_for_ms: u64,
    pub(crate) manners: Manners,
    /// The config file that was read.
    pub(crate) config_file: Option<PathBuf>,
    /// The task's deadline when `send` does not say.
    pub(crate) timeout: Option<String>,
    /// The task's priority when `send` does not say.
    pub(crate) priority: Option<String>,
}

/// Reads the config file and settles everything.
pub(crate) fn load(typed: &Global, environment: &Environment) -> Result<Settings> {
    let (path, file) = read_file(typed, environment)?;
    resolve(typed, file, environment).map(|settings| Settings { config_file: path, ..settings })
}

/// What the flags alone say, for a config file that cannot be read.
pub(crate) fn typed_manners(typed: &Global, environment: &Environment) -> Manners {
    manners(typed, &File::default(), environment)
}

/// Where the config file is, or would be: where somebody says, else where it always is.
pub(crate) fn file_place(typed: &Global, environment: &Environment) -> Option<PathBuf> {
    path(&typed.config).map(|named| environment.expand(&named)).or_else(|| environment.config_file())
}

fn read_file(typed: &Global, environment: &Environment) -> Result<(Option<PathBuf>, File)> {
    let is_named = path(&typed.config).is_some();
    let Some(path) = file_place(typed, environment) else { return Ok((None, File::default())) };
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(&text, &path).map(|file| (Some(path), file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => Ok((None, File::default())),
        Err(error) => Err(bad_config(&path, &plain(&error))),
    }
}

/// Reads the text of a config file.
pub(crate) fn parse(text: &str, path: &Path) -> Result<File> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| 1 + text[..span.start].matches('\n').count());
        bad_config(path, &format!("line {line}: {}", error.message().replace('\n', " ")))
    })
}

fn bad_config(path: &Path, what: &str) -> Failure {
    let message = format!("config file {}: {what}", path.display());
    Failure { code: "config", ..Failure::usage(message) }
        .next("correct it, or see a commented one by `cw init --print`")
}

/// Settles everything; pure.
pub(crate) fn resolve(typed: &Global, file: File, environment: &Environment) -> Result<Settings> {
    let manners = manners(typed, &file, environment);
    let coordinator = given(typed.coordinator.clone()).or(given(file.coordinator));
    let named_key = path(&typed.key_file).or(path(&file.key_file));
    let key_file_is_named = named_key.is_some();
    let state_dir = path(&typed.state_dir).or(path(&file.state_dir)).map(|path| environment.expand(&path));
    let reconnect_for = given(typed.reconnect_for.clone()).or(given(file.reconnect_for));
    let reconnect_for = reconnect_for.as_deref().unwrap_or(DEFAULT_RECONNECT_FOR);
    Ok(Settings {
        coordinator: coordinator.unwrap_or_else(|| DEFAULT_COORDINATOR.to_owned()),
        key_file: match named_key {
            Some(named) => environment.expand(&named),
            None => state_dir.or_else(|| environment.state_dir()).unwrap_or_default().join("admin.key"),
        },
        key_file_is_named,
        reconnect_for_ms: protocol::unit::duration_ms(reconnect_for)
            .map_err(|error| Failure::usage(format!("reconnect_for `{reconnect_for}`: {error}")))?,
        manners,
        config_file: None,
        timeout: given(file.timeout),
        priority: given(file.priority),
    })
}

fn manners(typed: &Global, file: &File, environment: &Environment) -> Manners {
    let settle = |typed: Option<bool>, file: Option<bool>| typed.or(file).unwrap_or(false);
    Manners {
        json: settle(typed.json, file.json),
        quiet: settle(typed.quiet, file.quiet),
        raw: settle(typed.raw, file.raw),
        no_color: settle(typed.no_color, file.no_color) || environment.no_color,
    }
}

fn given(value: Option<String>) -> Option<String> {
    value.filter(|text| !text.is_empty())
}

fn path(value: &Option<PathBuf>) -> Option<PathBuf> {
    value.clone().filter(|path| !path.as_os_str().is_empty())
}

#[cfg(test)]
mod tests;
