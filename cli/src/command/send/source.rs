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

    /// The text of a program's file; for code in its place, says how that is given.
    pub(super) fn program(&mut self, option: &'static str, from: &str) -> Result<String> {
        let bytes = self.file(option, from).map_err(|failure| {
            let is_code = from.contains(|letter: char| letter.is_whitespace() || "()'\"".contains(letter));
            let hint = format!("{option} takes a file; give code itself by stdin: echo 'CODE' | cw send … {option} -");
            if is_code { failure.next(hint) } else { failure }
        })?;
        filled(Source { option, noun: "the code" }, from, text(option, bytes)?)
    }

    /// `-` is stdin, `@FILE` a file, everything else the text itself.
    pub(super) fn text(&mut self, source: Source, from: &str) -> Result<String> {
        let option = source.option;
        let text = match from.strip_prefix('@') {
            _ if from == "-" => self.take(option).and_then(|bytes| text(option, bytes)),
            Some(path) => read(path).and_then(|bytes| text(option, bytes)),
            None => Ok(from.to_owned()),
        };
        filled(source, from, text?)
    }
}

/// What is read, and by which option.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    option: &'static str,
    noun: &'static str,
}

impl Source {
    pub(super) const CODE: Self = Self { option: "--shell", noun: "the code" };
    pub(super) const PROMPT: Self = Self { option: "the prompt", noun: "the prompt" };
    pub(super) const EVENT: Self = Self { option: "--event", noun: "the event" };
}

/// The text, unless there is none.
fn filled(source: Source, from: &str, text: String) -> Result<String> {
    match from {
        _ if !text.is_empty() => Ok(text),
        "-" => Err(Failure::usage(format!("{}: standard input was empty", source.option))),
        "" => Err(Failure::usage(format!("{} is empty", source.noun))),
        path => Err(Failure::usage(format!("{} is empty: {}", source.noun, path.trim_start_matches('@')))),
    }
}

pub(super) fn read(path: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        let failure = Failure::file("read", path, &error);
        match std::env::current_dir() {
            Ok(here) if error.kind() == io::ErrorKind::NotFound && !path.starts_with('/') => {
                failure.next(format!("check its name; it was looked for in {}", here.display()))
            }
            _ => failure,
        }
    })
}

fn text(option: &str, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{option}: that is not text in UTF-8")))
}
