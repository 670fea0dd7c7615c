//! What went wrong, where, and what to do next: one type for every way in which a command can end badly.

use std::fmt::Display;
use std::io;

use protocol::{Code, Problem};

use crate::exit::Exit;
use crate::table::bytes;

/// What every command answers with.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A command that did not do what it should.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// What the program ends with.
    pub(crate) exit: Exit,
    /// A stable word for programs.
    pub(crate) code: &'static str,
    /// What went wrong and where; empty when there is nothing to say.
    pub(crate) message: String,
    /// What a person can do about it.
    pub(crate) next: Option<String>,
    /// What to look for in the coordinator's log.
    pub(crate) request_id: Option<String>,
}

impl Failure {
    /// A failure of this kind.
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self { exit, code, message: message.into(), next: None, request_id: None }
    }

    /// What was typed makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::USAGE, "usage", message)
    }

    /// A file of this machine could not be read or written.
    pub(crate) fn file(doing: &str, path: impl Display, error: &io::Error) -> Self {
        Self::new(Exit::USAGE, "file", format!("cannot {doing} {path}: {}", plain(error)))
    }

    /// Adds what to do next.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// What the coordinator said when it refused.
    pub(crate) fn refused(problem: Problem) -> Self {
        let mut message = problem.detail;
        for wrong in &problem.errors {
            if !message.contains(&wrong.message) {
                message.push_str(if message.is_empty() { "" } else { "; " });
                message.push_str(&wrong.to_string());
            }
        }
        if message.is_empty() {
            message = problem.title;
        }
        let request_id = Some(problem.request_id).filter(|id| !id.is_empty());
        if let (Some(used), Some(allowed)) = (problem.used_bytes, problem.allowed_bytes)
            && !message.contains(&used.to_string())
        {
            message = format!("{message} ({} of {})", bytes(used), bytes(allowed));
        }
        let exit = Exit::of_problem(problem.code, problem.status);
        let next = match problem.holder {
            Some(task) if problem.code == Code::SessionBusy => Some(format!("cw wait {task}, or cw cancel {task}")),
            Some(task) => Some(format!("cw why {task}")),
            None => next_of(problem.code).map(str::to_owned),
        };
        Self { request_id, next, ..Self::new(exit, problem.code.as_str(), message) }
    }

    /// The error as `--json` prints it.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({"error": {
            "code": self.code,
            "message": self.message,
            "next": self.next,
            "request_id": self.request_id,
        }})
    }
}

/// What can be done about what was refused, where its code alone says so.
fn next_of(code: Code) -> Option<&'static str> {
    let known = [
        (Code::QuotaExceeded, "delete what is not needed (cw files rm); cw files usage SESSION says what is there"),
        (Code::NoMatch, "cw files cat shows what is there"),
        (Code::AmbiguousMatch, "give more of the text around it, or --all"),
        (Code::NotText, "cw files get fetches it as it is"),
    ];
    known.iter().find(|(of, _)| *of == code).map(|(_, next)| *next)
}

/// Writing failed: the reader went away (said quietly), or the disk is full.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::BROKEN_PIPE, "broken_pipe", "");
        }
        Self::new(Exit::FAILED, "output", format!("cannot write the output: {}", plain(&error)))
    }
}

/// An error of the system in lower case and without its number, which helps nobody.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
