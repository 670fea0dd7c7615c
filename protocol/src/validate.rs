//! What makes a message valid beyond its form. Each rule names the field that breaks it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::admin::{NewKey, RepoChange, Role};
use crate::lease::{LeaseRequest, MAX_LEASE_WAIT_S};
use crate::name::SessionName;
use crate::spec::{Run, Spec};
use crate::workspace::{Edit, EditRequest, Exec, Fork, NewSession, NewSnapshot};

const MAX_CODE_BYTES: usize = 1 << 20;
const MAX_FILES_BYTES: usize = 4 << 20;
const MAX_FILES: usize = 1000;
const MAX_ARGS: usize = 1024;
/// Linux takes 128 KiB for one argument or variable, terminating NUL included.
const MAX_ARG_BYTES: usize = (128 << 10) - 1;
const MAX_ARGS_BYTES: usize = 1 << 20;
const MAX_VARIABLES: usize = 256;
const MAX_LABELS: usize = 32;
const MAX_WORDS: usize = 64;
const MAX_WORD_BYTES: usize = 64;
const MAX_REPOS: usize = 100;
const MAX_ATTEMPTS: u32 = 100;
const MAX_BACKOFF_S: u32 = 86_400;
const MAX_EDITS: usize = 100;
const MAX_EXEC_S: u32 = 300;

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}{message}", prefix(field))]
pub struct Invalid {
    /// Its path, such as `env.PATH`; empty for the whole message.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

fn prefix(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}: ") }
}

impl Invalid {
    /// This field is wrong in this way.
    #[must_use]
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

type Checked = Result<(), Invalid>;

fn ensure(holds: bool, field: &str, message: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Invalid::new(field, message())) }
}

fn at_most(length: usize, most: usize, field: &str) -> Checked {
    ensure(length <= most, field, || format!("{length} entries, at most {most} are allowed"))
}

fn bytes_at_most(length: usize, most: usize, field: &str) -> Checked {
    ensure(length <= most, field, || format!("{length} bytes, at most {most} are allowed"))
}

fn in_range(value: u32, low: u32, high: u32, field: &str) -> Checked {
    ensure((low..=high).contains(&value), field, || format!("{value} is not between {low} and {high}"))
}

fn no_nul(text: &str, field: &str) -> Checked {
    ensure(!text.contains('\0'), field, || "has a NUL byte".into())
}

impl Spec {
    /// Checks everything that the types do not.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Checked {
        self.check_run()?;
        check_strings(&self.args, "args")?;
        self.check_env()?;
        self.check_files()?;
        self.check_times()?;
        self.check_limits()?;
        check_labels(&self.labels)?;
        check_words(self.requires.iter(), "requires")?;
        ensure(self.session.is_some() || self.session_mode == Default::default(), "session_mode", || {
            "needs a session".into()
        })?;
        ensure(self.session.is_some() || self.commit == Default::default(), "commit", || "needs a session".into())
    }

    fn check_run(&self) -> Checked {
        match &self.run {
            Run::Python { code } | Run::Javascript { code } | Run::Shell { code } => {
                ensure(!code.is_empty(), "run.code", || "is missing or empty".into())?;
                bytes_at_most(code.len(), MAX_CODE_BYTES, "run.code")
            }
            Run::Command { argv } => {
                ensure(argv.first().is_some_and(|program| !program.is_empty()), "run.argv", || {
                    "needs at least the program's name".into()
                })?;
                check_strings(argv, "run.argv")
            }
            Run::Agent { agent, prompt, model, .. } => {
                check_words(agent.iter(), "run.agent")?;
                ensure(!prompt.trim().is_empty(), "run.prompt", || "is empty".into())?;
                bytes_at_most(prompt.len(), MAX_CODE_BYTES, "run.prompt")?;
                no_nul(prompt, "run.prompt")?;
                let model = model.as_deref().unwrap_or("-");
                ensure(!model.is_empty() && !model.starts_with('-') || model == "-", "run.model", || {
                    "is empty or begins with a dash".into()
                })?;
                no_nul(model, "run.model")?;
                bytes_at_most(model.len(), 256, "run.model")
            }
        }?;
        ensure(self.event.is_none() || matches!(self.run, Run::Python { .. } | Run::Javascript { .. }), "event", || {
            "only python and javascript have a handler(event)".into()
        })
    }

    fn check_env(&self) -> Checked {
        at_most(self.env.len(), MAX_VARIABLES, "env")?;
        for (name, value) in &self.env {
            let field = format!("env.{name}");
            ensure(is_variable(name), &field, || "not a variable's name".into())?;
            ensure(!is_reserved(name), &field, || "is reserved: PATH, HOME and CW_* are set by the worker".into())?;
            no_nul(value, &field)?;
            bytes_at_most(name.len() + value.len(), MAX_ARG_BYTES - 1, &field)?;
        }
        bytes_at_most(self.env.iter().map(|(name, value)| name.len() + value.len()).sum(), MAX_ARGS_BYTES, "env")
    }

    fn check_files(&self) -> Checked {
        at_most(self.files.len(), MAX_FILES, "files")?;
        let mut total = 0;
        for (path, content) in &self.files {
            let bytes = content.bytes().map_err(|_| Invalid::new(format!("files.{path}"), "not valid base64"))?;
            total += bytes.len();
        }
        bytes_at_most(total, MAX_FILES_BYTES, "files")?;
        self.check_file_nesting()?;
        match self.stdin.as_ref().map(crate::spec::Content::bytes) {
            None => Ok(()),
            Some(Ok(bytes)) => bytes_at_most(bytes.len(), MAX_FILES_BYTES, "stdin"),
            Some(Err(_)) => Err(Invalid::new("stdin", "not valid base64")),
        }
    }

    /// `a` and `a/b` cannot both be files.
    fn check_file_nesting(&self) -> Checked {
        for path in self.files.keys() {
            let parents = path.as_str().match_indices('/').map(|(end, _)| &path.as_str()[..end]);
            for parent in parents {
                let is_file = parent.parse().is_ok_and(|parent| self.files.contains_key(&parent));
                ensure(!is_file, &format!("files.{path}"), || format!("`{parent}` is a file too"))?;
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Checked {
        let longest = if self.run.is_agent() { 86_400 } else { 3600 };
        in_range(self.timeout_s.unwrap_or(1), 1, longest, "timeout_s")?;
        in_range(self.idle_timeout_s.unwrap_or(1), 1, longest, "idle_timeout_s")?;
        in_range(self.max_attempts.unwrap_or(1), 1, MAX_ATTEMPTS, "max_attempts")?;
        let Some(retry) = &self.retry else { return Ok(()) };
        in_range(retry.backoff_s, 0, MAX_BACKOFF_S, "retry.backoff_s")?;
        let pointless =
            [crate::Reason::Ok, crate::Reason::Cancelled].into_iter().find(|reason| retry.on.contains(reason));
        ensure(pointless.is_none(), "retry.on", || "a task that is ok or cancelled is never tried again".into())
    }

    fn check_limits(&self) -> Checked {
        let limits = &self.limits;
        let positive = |value: Option<u64>, field: &str| {
            ensure(value != Some(0), field, || "is 0: leave it out for the default".into())
        };
        positive(limits.memory_bytes, "limits.memory_bytes")?;
        positive(limits.cpu_s.map(u64::from), "limits.cpu_s")?;
        positive(limits.pids.map(u64::from), "limits.pids")?;
        positive(limits.open_files.map(u64::from), "limits.open_files")?;
        positive(limits.turns.map(u64::from), "limits.turns")?;
        let output = limits.output_bytes.unwrap_or(0);
        ensure(output <= crate::limits::MAX_WRITTEN_BYTES, "limits.output_bytes", || "is over 1 GiB".into())?;
        ensure(limits.cost_usd.is_none_or(|cost| cost > 0.0 && cost.is_finite()), "limits.cost_usd", || {
            "is not a positive amount".into()
        })
    }
}

fn check_labels(labels: &BTreeMap<String, String>) -> Checked {
    at_most(labels.len(), MAX_LABELS, "labels")?;
    for (name, value) in labels {
        let field = format!("labels.{name}");
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/');
        ensure((1..=64).contains(&name.len()) && name.bytes().all(plain), &field, || {
            "a label's name is 1 to 64 of A-Z a-z 0-9 . _ - /".into()
        })?;
        no_nul(value, &field)?;
        bytes_at_most(value.len(), 256, &field)?;
    }
    Ok(())
}

/// The variables that the worker alone sets.
fn is_reserved(name: &str) -> bool {
    name.starts_with("CW_") || name == "PATH" || name == "HOME"
}

fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn check_strings(strings: &[String], field: &str) -> Checked {
    at_most(strings.len(), MAX_ARGS, field)?;
    for (place, text) in strings.iter().enumerate() {
        let field = format!("{field}[{place}]");
        no_nul(text, &field)?;
        bytes_at_most(text.len(), MAX_ARG_BYTES, &field)?;
    }
    bytes_at_most(strings.iter().map(String::len).sum(), MAX_ARGS_BYTES, field)
}

/// Words are matched, listed and shown; a plain alphabet keeps all three simple.
fn check_words<'a>(words: impl ExactSizeIterator<Item = &'a String>, field: &str) -> Checked {
    at_most(words.len(), MAX_WORDS, field)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':' | b'/' | b'@');
    for word in words {
        ensure((1..=MAX_WORD_BYTES).contains(&word.len()) && word.bytes().all(plain), field, || {
            "a word is 1 to 64 of A-Z a-z 0-9 . _ - : / @".into()
        })?;
    }
    Ok(())
}

impl LeaseRequest {
    /// Checks everything that the types do not.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Checked {
        ensure(!self.repos.is_empty(), "repos", || "name at least one".into())?;
        at_most(self.repos.len(), MAX_REPOS, "repos")?;
        check_words(self.worker.runs.iter(), "worker.runs")?;
        check_words(self.worker.confinement.iter(), "worker.confinement")?;
        bytes_at_most(self.worker.version.len(), MAX_WORD_BYTES, "worker.version")?;
        bytes_at_most(self.worker.why.as_ref().map_or(0, String::len), 1024, "worker.why")?;
        in_range(self.worker.slots, 1, 1024, "worker.slots")?;
        in_range(self.wait_s, 0, MAX_LEASE_WAIT_S, "wait_s")
    }
}

impl NewKey {
    /// Checks everything that the types do not.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Checked {
        at_most(self.repos.len(), MAX_REPOS, "repos")?;
        ensure(self.role != Role::Worker || !self.repos.is_empty(), "repos", || {
            "a worker's key names the repos that it serves".into()
        })?;
        ensure(self.role != Role::Admin || self.repos.is_empty(), "repos", || {
            "an admin's key is for all repos".into()
        })?;
        ensure(self.ttl_s != Some(0), "ttl_s", || "is 0: leave it out for a key that does not expire".into())?;
        let name = self.name.as_deref().unwrap_or_default();
        ensure(!name.chars().any(char::is_control), "name", || "has control characters".into())?;
        bytes_at_most(name.len(), 128, "name")
    }
}

impl RepoChange {
    /// Checks everything that the types do not.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Checked {
        ensure(self.max_running != Some(Some(0)), "max_running", || "is 0: pause the repo instead".into())?;
        check_words(self.agent.iter().flatten().collect::<Vec<_>>().into_iter(), "agent")
    }
}

impl NewSession {
    /// Checks everything that the types do not.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Checked {
        check_labels(&self.labels)
    }
}

impl Fork {
    /// Checks everything that the types do not.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Checked {
        check_labels(&self.labels)
    }
}

impl NewSnapshot {
    /// Checks everything that the types do not.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Checked {
        let named = self.name.parse::<SessionName>();
        named.map(drop).map_err(|error| Invalid::new("name", error.to_string()))?;
        ensure(!self.name.starts_with(crate::TaskId::PREFIX), "name", || "is a task's: choose another".into())
    }
}

impl EditRequest {
    /// The edits, whichever way they were written.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn edits(&self) -> Result<Vec<Edit>, Invalid> {
        let edits = match (&self.old, &self.new) {
            (Some(old), Some(new)) if self.edits.is_empty() => {
                vec![Edit { old: old.clone(), new: new.clone(), all: self.all }]
            }
            (None, None) if !self.edits.is_empty() && !self.all => self.edits.clone(),
            _ => return Err(Invalid::new("edits", "send either `old` and `new`, or `edits`")),
        };
        at_most(edits.len(), MAX_EDITS, "edits")?;
        ensure(edits.iter().all(|edit| !edit.old.is_empty()), "old", || "is empty: say what to replace".into())?;
        Ok(edits)
    }
}

impl Exec {
    /// Checks everything that the types do not.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Checked {
        ensure(self.command.is_some() == self.argv.is_empty(), "command", || "send either `command` or `argv`".into())?;
        ensure(self.command.as_ref().is_none_or(|command| !command.trim().is_empty()), "command", || {
            "is empty".into()
        })?;
        in_range(self.timeout_s.unwrap_or(1), 1, MAX_EXEC_S, "timeout_s")
    }
}
