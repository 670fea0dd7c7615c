//! What a client submits: the immutable part of a task. Unknown fields are refused by name, here and in the worker,
//! because to ignore a limit would be a silent downgrade.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::name::{RepoName, SessionName};
use crate::outcome::Reason;
use crate::path::RelativePath;
use crate::time::Timestamp;

/// How often a task is tried when the spec does not say.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 3;

/// What a client wants run, once, to an outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The queue that the task waits in.
    pub repo: RepoName,
    /// What is run.
    pub run: Run,
    /// Arguments after the program's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// What the process reads; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Content>,
    /// The argument of `handler(event)`; without it the code just runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<serde_json::Value>,
    /// Variables of the process, beside the few that every task gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Files laid out before the start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<RelativePath, Content>,
    /// The workspace that the task works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
    /// Whether the task may change that workspace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session_mode: SessionMode,
    /// Which ends of the task keep its changes of that workspace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub commit: Commit,
    /// How urgent the task is.
    #[serde(default)]
    pub priority: Priority,
    /// Seconds from process start to the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u32>,
    /// Seconds without output after which the task ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<u32>,
    /// What the process may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// What the process may reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Confinement levels that the worker must have proved.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub requires: BTreeSet<String>,
    /// How many counted attempts the task has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Which failures are tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The instant before which the task waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// What the client wants to find the task by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Cuts a text to so many characters, and shows that it was.
fn cut(text: &mut String, chars: usize) {
    if let Some((end, _)) = text.char_indices().nth(chars) {
        text.truncate(end);
        text.push('…');
    }
}

/// Cuts words to so many characters in all; the last that is kept may be cut itself.
fn cut_words(words: &mut Vec<String>, mut chars: usize) {
    words.retain_mut(|word| {
        let is_kept = chars > 0;
        cut(word, chars);
        chars = chars.saturating_sub(word.chars().count().max(1));
        is_kept
    });
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Run {
    /// A Python program.
    Python {
        /// Its source; never empty, and left out of lists.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        code: String,
    },
    /// A JavaScript program.
    Javascript {
        /// Its source; never empty, and left out of lists.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        code: String,
    },
    /// A shell script.
    Shell {
        /// Its source; never empty, and left out of lists.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        code: String,
    },
    /// A program with its arguments, and no shell.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// A coding agent with a prompt.
    Agent {
        /// Its name; the repo's default when the client leaves it out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// What it is asked to do.
        prompt: String,
        /// The model, in the agent's own spelling.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The task whose conversation goes on.
        #[serde(default, rename = "continue", skip_serializing_if = "Option::is_none")]
        resume: Option<crate::TaskId>,
    },
}

impl Run {
    /// The word that a worker says when it can run this.
    #[must_use]
    pub fn word(&self) -> Cow<'static, str> {
        match self {
            Self::Python { .. } => "python".into(),
            Self::Javascript { .. } => "javascript".into(),
            Self::Shell { .. } => "shell".into(),
            Self::Command { .. } => "command".into(),
            Self::Agent { agent: Some(agent), .. } => format!("agent:{agent}").into(),
            Self::Agent { agent: None, .. } => "agent".into(),
        }
    }

    /// Whether this is an agent, whose limits are wider.
    #[must_use]
    pub const fn is_agent(&self) -> bool {
        matches!(self, Self::Agent { .. })
    }
}

/// Text, or bytes that need not be text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a text or {\"base64\": …}")]
pub enum Content {
    /// Text as it is.
    Text(String),
    /// Bytes in base64.
    Base64(Base64),
}

/// Bytes in base64, in an object of their own so that they cannot be taken for text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base64 {
    /// The bytes, standard alphabet, padded.
    pub base64: String,
}

impl Content {
    /// The bytes themselves.
    ///
    /// # Errors
    /// When the base64 is not valid.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, base64::DecodeError> {
        match self {
            Self::Text(text) => Ok(Cow::Borrowed(text.as_bytes())),
            Self::Base64(encoded) => BASE64_STANDARD.decode(&encoded.base64).map(Cow::Owned),
        }
    }
}

/// How urgent a task is. Declared from the most to the least urgent, and sorted so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Before everything else.
    Critical,
    /// Before what is normal.
    High,
    /// What a task is when nobody says otherwise.
    #[default]
    Normal,
    /// After everything else.
    Low,
}

impl Priority {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Critical, Self::High, Self::Normal, Self::Low];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

/// Whether a task may change its workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionMode {
    /// It may: one such task a session at a time.
    #[default]
    Write,
    /// It may not: such tasks run side by side.
    Read,
}

/// Which ends of a task keep its changes of the workspace. One that was cancelled or lost its lease never does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Commit {
    /// Every end at which its process ran.
    #[default]
    Always,
    /// Only exit code 0.
    OnSuccess,
}

/// What a process may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Only its own loopback.
    None,
    /// The endpoints that the worker's operator allowed.
    Restricted,
}

/// Which failures are tried again, and how long to wait before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The reasons that are worth another attempt.
    pub on: BTreeSet<Reason>,
    /// Seconds between the failure and the next attempt.
    #[serde(default)]
    pub backoff_s: u32,
}

impl Spec {
    /// A spec that says only where and what.
    #[must_use]
    pub fn new(repo: RepoName, run: Run) -> Self {
        Self {
            repo,
            run,
            args: Vec::new(),
            stdin: None,
            event: None,
            env: BTreeMap::new(),
            files: BTreeMap::new(),
            session: None,
            session_mode: SessionMode::default(),
            commit: Commit::default(),
            priority: Priority::default(),
            timeout_s: None,
            idle_timeout_s: None,
            limits: Limits::default(),
            network: None,
            requires: BTreeSet::new(),
            max_attempts: None,
            retry: None,
            not_before: None,
            labels: BTreeMap::new(),
        }
    }

    /// The words that a worker must offer to be given this task, sorted and joined by spaces.
    ///
    /// What the spec asks for beyond plain running is a word too, so that a worker that cannot do it never gets it.
    #[must_use]
    pub fn needs(&self) -> String {
        let mut words = BTreeSet::from([self.run.word().into_owned()]);
        let mut need = |asked: bool, word: &str| {
            if asked {
                words.insert(word.to_owned());
            }
        };
        need(self.event.is_some(), "handler");
        need(self.session.is_some(), "session");
        need(self.limits.needs_enforcement(), "limits");
        need(self.network == Some(Network::None), "network:none");
        need(self.network == Some(Network::Restricted), "network:restricted");
        words.extend(self.requires.iter().map(|level| format!("confinement:{level}")));
        words.into_iter().collect::<Vec<_>>().join(" ")
    }

    /// About how many bytes it takes to keep.
    #[must_use]
    pub fn weight(&self) -> usize {
        let content = |content: &Content| match content {
            Content::Text(text) => text.len(),
            Content::Base64(encoded) => encoded.base64.len(),
        };
        let code = match &self.run {
            Run::Python { code } | Run::Javascript { code } | Run::Shell { code } => code.len(),
            Run::Command { argv } => argv.iter().map(String::len).sum(),
            Run::Agent { prompt, .. } => prompt.len(),
        };
        let files: usize = self.files.values().map(content).sum();
        let words: usize = self.args.iter().chain(self.env.values()).map(String::len).sum();
        code + files + words + self.stdin.as_ref().map_or(0, content)
    }

    /// Seconds from process start to the deadline, by the spec or by default.
    #[must_use]
    pub fn timeout_s(&self) -> u32 {
        self.timeout_s.unwrap_or(if self.run.is_agent() { 3600 } else { 30 })
    }

    /// How many counted attempts the task has, by the spec or by default.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS)
    }

    /// The spec as a list shows it: without code, files, stdin and variables, prompt and arguments cut to their
    /// beginning.
    #[must_use]
    pub fn brief(&self) -> Self {
        const CHARS: usize = 500;
        let mut brief = self.clone_without_bulk();
        cut_words(&mut brief.args, CHARS);
        match &mut brief.run {
            Run::Agent { prompt, .. } => cut(prompt, CHARS),
            Run::Command { argv } => cut_words(argv, CHARS),
            Run::Python { .. } | Run::Javascript { .. } | Run::Shell { .. } => {}
        }
        brief
    }

    fn clone_without_bulk(&self) -> Self {
        let run = match &self.run {
            Run::Python { .. } => Run::Python { code: String::new() },
            Run::Javascript { .. } => Run::Javascript { code: String::new() },
            Run::Shell { .. } => Run::Shell { code: String::new() },
            run @ (Run::Command { .. } | Run::Agent { .. }) => run.clone(),
        };
        Self {
            args: self.args.clone(),
            session: self.session.clone(),
            session_mode: self.session_mode,
            commit: self.commit,
            priority: self.priority,
            timeout_s: self.timeout_s,
            idle_timeout_s: self.idle_timeout_s,
            limits: self.limits,
            network: self.network,
            requires: self.requires.clone(),
            max_attempts: self.max_attempts,
            retry: self.retry.clone(),
            not_before: self.not_before,
            labels: self.labels.clone(),
            ..Self::new(self.repo.clone(), run)
        }
    }
}
