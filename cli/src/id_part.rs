//! Ids as people type them: only as much of the beginning or the end as makes one of those that there are
//! unmistakable. Pure.

use std::fmt::Display;

use crate::exit::Exit;
use crate::failure::{Failure, Result};

const SHORTEST: usize = 4;

/// What the ids are of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) prefix: &'static str,
    pub(crate) noun: &'static str,
    /// The command that shows them.
    pub(crate) list: &'static str,
}

impl Kind {
    /// What was typed without the prefix, if it can be a part of an id.
    pub(crate) fn part<'text>(&self, typed: &'text str) -> Result<&'text str> {
        let part = typed.strip_prefix(self.prefix).unwrap_or(typed);
        if part.len() >= SHORTEST && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
            return Ok(part);
        }
        let Self { noun, list, .. } = self;
        Err(Failure::usage(format!("`{typed}` is no {noun}'s id")).next(format!(
            "give an id as `{list}` shows it, or {SHORTEST} and more characters of its beginning or end"
        )))
    }

    /// The one that was meant.
    pub(crate) fn choose<T: Display + Copy>(&self, typed: &str, ids: impl Iterator<Item = T>) -> Result<T> {
        let part = self.part(typed)?;
        let is_meant = |id: &T| {
            let text = id.to_string();
            let body = text.strip_prefix(self.prefix).unwrap_or_default();
            body.starts_with(part) || (!typed.starts_with(self.prefix) && body.ends_with(part))
        };
        let found: Vec<T> = ids.filter(is_meant).collect();
        match found.as_slice() {
            [id] => Ok(*id),
            [] => Err(self.missing(typed)),
            several => Err(self.ambiguous(typed, several)),
        }
    }

    /// The failure for an id that nothing has.
    pub(crate) fn missing(&self, typed: &str) -> Failure {
        let Self { noun, list, .. } = self;
        Failure::new(Exit::NOT_FOUND, "not_found", format!("there is no {noun} `{typed}`"))
            .next(format!("see the newest by `{list}`"))
    }

    fn ambiguous<T: Display>(&self, typed: &str, several: &[T]) -> Failure {
        let (count, noun) = (several.len(), self.noun);
        let message = format!("`{typed}` could be {count} {noun}s, such as {} and {}", several[0], several[1]);
        Failure::new(Exit::USAGE, "ambiguous_id", message).next("give more of the id")
    }
}
