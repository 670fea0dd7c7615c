//! Where everything that a person or a script reads goes out: data on stdout, talk on stderr. The only place that
//! writes to either.

use std::io::{self, IsTerminal as _, Write as _};

use protocol::Stream;
use serde::Serialize;

use crate::config::Manners;
use crate::failure::{Failure, Result};
use crate::terminal::{Harmless, harmless_json, harmless_line, harmless_text};

/// How a word is marked on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Good,
    Bad,
    Busy,
    Faint,
}

/// Stdout and stderr, and what is known about them.
#[derive(Debug)]
pub(crate) struct Output {
    manners: Manners,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    /// A line on stderr that is overwritten by whatever comes next.
    live: bool,
    /// The cursor stands at the beginning of a line.
    at_line_start: bool,
}

impl Output {
    /// Looks at what stdout and stderr are.
    pub(crate) fn new(manners: Manners) -> Self {
        let stdout_is_terminal = io::stdout().is_terminal();
        let stderr_is_terminal = io::stderr().is_terminal();
        Self { manners, stdout_is_terminal, stderr_is_terminal, live: false, at_line_start: true }
    }

    /// Whether data goes out as JSON.
    pub(crate) const fn json(&self) -> bool {
        self.manners.json
    }

    /// Whether there is no talk.
    pub(crate) const fn quiet(&self) -> bool {
        self.manners.quiet
    }

    /// Whether a person reads stdout.
    pub(crate) const fn stdout_is_terminal(&self) -> bool {
        self.stdout_is_terminal
    }

    /// Whether stdout and stderr of a task end up in one place, where their order matters.
    pub(crate) const fn mixes_streams(&self) -> bool {
        self.stdout_is_terminal && self.stderr_is_terminal
    }

    /// Columns of the terminal on stdout; none when it is a file or a pipe.
    pub(crate) fn width(&self) -> Option<usize> {
        if self.stdout_is_terminal { columns(io::stdout()) } else { None }
    }

    /// Lines of data.
    pub(crate) fn data(&mut self, text: &str) -> Result<()> {
        self.clear_live();
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            stdout.write_all(b"\n")?;
        }
        Ok(stdout.flush()?)
    }

    /// One JSON value on one line.
    pub(crate) fn value(&mut self, value: &impl Serialize) -> Result<()> {
        let json = serde_json::to_string(value)
            .map_err(|error| Failure::from(io::Error::other(format!("not JSON: {error}"))))?;
        if self.stdout_is_terminal { self.data(&harmless_json(&json)) } else { self.data(&json) }
    }

    /// Bytes of data as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.clear_live();
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }

    /// What a task wrote, to where it wrote it. A terminal gets it harmless unless `--raw`.
    pub(crate) fn task_output(&mut self, stream: Stream, bytes: &[u8], harmless: &mut Harmless) -> Result<()> {
        let is_terminal = match stream {
            Stream::Stdout => self.stdout_is_terminal,
            Stream::Stderr => self.stderr_is_terminal,
        };
        if !is_terminal {
            return self.write_task_output(stream, bytes);
        }
        let text = if self.manners.raw { None } else { Some(harmless.bytes(bytes)) };
        let shown = text.as_ref().map_or(bytes, String::as_bytes);
        if let Some(last) = shown.last() {
            self.at_line_start = *last == b'\n';
        }
        self.write_task_output(stream, shown)
    }

    fn write_task_output(&mut self, stream: Stream, bytes: &[u8]) -> Result<()> {
        self.clear_live();
        match stream {
            Stream::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()?;
            }
            Stream::Stderr => io::stderr().lock().write_all(bytes)?,
        }
        Ok(())
    }

    /// A line for a person; not with `--quiet`.
    pub(crate) fn talk(&mut self, text: &str) {
        if !self.manners.quiet && !self.manners.json {
            self.say(&harmless_text(text));
        }
    }

    /// A line for a person that only makes sense on a terminal.
    pub(crate) fn chat(&mut self, text: &str) {
        if self.stderr_is_terminal {
            self.talk(text);
        }
    }

    /// A line about the data itself, such as that it is not whole: `--quiet` does not keep it back.
    pub(crate) fn notice(&mut self, text: &str) {
        if !self.manners.json {
            self.say(&harmless_text(text));
        }
    }

    /// Something that is wrong, but not so that the command ends.
    pub(crate) fn warn(&mut self, text: &str) {
        if !self.manners.quiet {
            let line = format!("warning: {}", harmless_text(text));
            self.say(&line);
        }
    }

    /// The failure that ends the program. With `--json` it is one JSON object.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        if failure.message.is_empty() {
            return;
        }
        if self.manners.json {
            let json = failure.to_json().to_string();
            let json = if self.stderr_is_terminal { harmless_json(&json) } else { json };
            return self.say(&json);
        }
        let message = harmless_text(&failure.message);
        if failure.exit.is_leaving() {
            self.say(&message);
        } else {
            let title = self.mark_on(self.stderr_is_terminal, Mark::Bad, "error");
            self.say(&format!("{title}: {message}"));
        }
        if let Some(next) = &failure.next {
            self.say(&format!("  next: {}", harmless_text(next)));
        }
        if let Some(id) = &failure.request_id {
            self.say(&format!("  request: {}", harmless_line(id)));
        }
    }

    /// Writes to stderr. That stderr is gone is no reason to fail.
    fn say(&mut self, line: &str) {
        self.clear_live();
        let break_line = if self.at_line_start || !self.stderr_is_terminal { "" } else { "\n" };
        let _ = writeln!(io::stderr().lock(), "{break_line}{line}");
        self.at_line_start = true;
    }

    /// Shows a line that the next output overwrites; only on a terminal, and never into the middle of a line.
    pub(crate) fn live(&mut self, text: &str) {
        if !self.stderr_is_terminal || self.manners.quiet || self.manners.json || !self.at_line_start {
            return;
        }
        let width = columns(io::stderr()).unwrap_or(80).saturating_sub(1);
        let text: String = harmless_line(text).chars().take(width).collect();
        let text = self.mark_on(true, Mark::Faint, &text);
        let mut stderr = io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
        self.live = true;
    }

    /// Takes the live line away.
    pub(crate) fn clear_live(&mut self) {
        if std::mem::take(&mut self.live) {
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[K").and_then(|()| stderr.flush());
        }
    }

    /// A word of data, coloured where stdout is a terminal.
    pub(crate) fn mark(&self, mark: Mark, text: &str) -> String {
        self.mark_on(self.stdout_is_terminal, mark, text)
    }

    fn mark_on(&self, is_terminal: bool, mark: Mark, text: &str) -> String {
        if !is_terminal || self.manners.no_color {
            return text.to_owned();
        }
        let colour = match mark {
            Mark::Good => "32",
            Mark::Bad => "31",
            Mark::Busy => "33",
            Mark::Faint => "2",
        };
        format!("\x1b[{colour}m{text}\x1b[0m")
    }
}

fn columns(of: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(of).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
