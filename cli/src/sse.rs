//! Server-sent events, from bytes to events, however the bytes are cut. Pure.
//!
//! An event is a block of `field: value` lines that an empty line ends; `data` may stand on several lines, a line that
//! begins with a colon is a comment. What has no empty line after it yet is no event, so a stream that breaks in the
//! middle of one loses nothing: it comes again when the reader resumes after the last whole one.

/// The longest event that is read, in bytes; more than the coordinator ever sends.
const MAX_EVENT_BYTES: usize = 32 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RawEvent {
    /// Its number, when it has one.
    pub(crate) id: Option<u64>,
    /// Its type; `message` when it says none.
    pub(crate) name: String,
    /// Its data, lines joined.
    pub(crate) data: String,
}

/// The stream holds an event that is too long to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Bytes in, events out.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    after_return: bool,
    id: Option<u64>,
    name: String,
    data: Option<String>,
}

impl Parser {
    /// Takes the next bytes and gives the events that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<RawEvent>, TooLong> {
        let mut events = Vec::new();
        for byte in bytes {
            let line_feed_of_return = *byte == b'\n' && std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if line_feed_of_return => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.take_line(&String::from_utf8_lossy(&line)));
                }
                byte => {
                    self.after_return = false;
                    self.line.push(*byte);
                }
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > MAX_EVENT_BYTES {
                return Err(TooLong);
            }
        }
        Ok(events)
    }

    fn take_line(&mut self, line: &str) -> Option<RawEvent> {
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = value.parse().ok(),
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // An empty field is a comment; `retry` and unknown ones change nothing here.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<RawEvent> {
        let id = self.id.take();
        let name = std::mem::take(&mut self.name);
        let data = self.data.take()?;
        let name = if name.is_empty() { "message".to_owned() } else { name };
        Some(RawEvent { id, name, data })
    }
}

#[cfg(test)]
mod tests;
