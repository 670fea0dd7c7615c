//! Where the parts of a task come from: an argument, a file, or stdin, which can be read only once.

use std::io::{self, Read as _};

use crate::failure::{Failure, Result};

/// Stdin, until something has read it.
#[derive(Debug, Default)]
pub(super) struct Stdin {
    reader: Option<&'static str>,
}

impl Stdin {
    /// All of it, for that option.
    fn take(&mut self, option: &'static str) -> Result<Vec<u8>> {
        if let Some(first) = self.reader {
            return Err(Failure::usage(format!("both {first} and {option} want to read stdin"))
                .next("give one of them by a file"));
        }
        self.reader = Some(option);
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(|error| Failure::file("read", "stdin", &error))?;
        Ok(bytes)
    }

    /// `-` is stdin, everything else a file; `@` may stand in front of it.
    pub(super) fn file(&mut self, option: &'static str, from: &str) -> Result<Vec<u8>> {
        if from == "-" {
            return self.take(option);
        }
        read(from.strip_prefix('@').filter(|_| !std::path::Path::new(from).exists()).unwrap_or(from))
    }

    /// The text of a program's file; when there is no such file, says how code itself is given.
    pub(super) fn program(&mut self, option: &'static str, from: &str) -> Result<String> {
        let bytes = self.file(option, from).map_err(|failure| {
            failure.next(format!("{option} takes a file; give code by stdin: `{option} - <<< 'CODE'`, or `@FILE`"))
        })?;
        text(option, bytes)
    }

    /// `-` is stdin, `@FILE` a file, everything else the text itself.
    pub(super) fn text(&mut self, option: &'static str, from: &str) -> Result<String> {
        match from.strip_prefix('@') {
            _ if from == "-" => self.take(option).and_then(|bytes| text(option, bytes)),
            Some(path) => read(path).and_then(|bytes| text(option, bytes)),
            None => Ok(from.to_owned()),
        }
    }
}

pub(super) fn read(path: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Failure::file("read", path, &error))
}

fn text(option: &str, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{option}: that is not text in UTF-8")))
}
