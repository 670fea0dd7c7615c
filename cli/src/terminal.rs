//! What a terminal may be shown. Text that comes from a task, a worker or another user can hold sequences that move the
//! cursor, set the title, answer for the user or reverse the reading order; here each such character becomes visible.
//!
//! Pure: it never asks whether there is a terminal. Every replaced character is one that a sequence cannot do without
//! (ESC or a C1 control), so no sequence needs to be parsed and none can be split over chunks to slip through.

/// Makes a stream of text harmless, chunk by chunk; lines stay lines.
#[derive(Debug, Default)]
pub(crate) struct Harmless {
    /// The last chunk ended in a carriage return, whose line feed may be the first of the next.
    after_return: bool,
    /// The beginning of a character whose end has not come yet.
    partial: Vec<u8>,
}

impl Harmless {
    /// The chunk as it may be shown. Bytes that are no text are replaced.
    pub(crate) fn bytes(&mut self, chunk: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.partial);
        bytes.extend_from_slice(chunk);
        let whole = bytes.len() - incomplete_tail(&bytes);
        self.partial = bytes.split_off(whole);
        self.text(&String::from_utf8_lossy(&bytes))
    }

    /// The chunk as it may be shown.
    pub(crate) fn text(&mut self, chunk: &str) -> String {
        let mut shown = String::with_capacity(chunk.len());
        for letter in chunk.chars() {
            let line_feed_of_return = letter == '\n' && self.after_return;
            self.after_return = letter == '\r';
            match letter {
                '\n' if line_feed_of_return => {}
                // What was written after a return would cover what stood there: it gets a line of its own.
                '\n' | '\r' => shown.push('\n'),
                '\t' => shown.push('\t'),
                letter => push_visible(&mut shown, letter),
            }
        }
        shown
    }
}

/// How many bytes at the end are the beginning of a character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    let length = |byte: u8| match byte {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    };
    (1..=bytes.len().min(3)).find(|back| length(bytes[bytes.len() - back]) > *back).unwrap_or(0)
}

/// One line that may be shown: names, labels and messages that others chose.
pub(crate) fn harmless_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(' '),
            letter => push_visible(&mut shown, letter),
        }
    }
    shown
}

/// Several lines that may be shown.
pub(crate) fn harmless_text(text: &str) -> String {
    Harmless::default().text(text)
}

/// JSON that may be shown: the same value, with what a terminal would act on spelled as escapes.
pub(crate) fn harmless_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            // Between values these are layout; inside a string JSON spells them out already.
            '\n' | '\t' | ' ' => shown.push(letter),
            letter if is_harmful(letter) => shown.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => shown.push(letter),
        }
    }
    shown
}

fn push_visible(shown: &mut String, letter: char) {
    match u32::from(letter) {
        // The control pictures: ␀ … ␟, and ␡ for delete.
        code @ 0..=0x1F => shown.extend(char::from_u32(0x2400 + code)),
        0x7F => shown.push('\u{2421}'),
        code if is_harmful(letter) => shown.push_str(&format!("<U+{code:04X}>")),
        _ => shown.push(letter),
    }
}

/// Controls (C0, delete, C1), line separators, and what changes the reading order.
fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests;
