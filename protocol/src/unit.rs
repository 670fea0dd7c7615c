//! Durations and sizes as people type them: `30s`, `5m`, `2h`, `512M`. On the wire they are seconds and bytes.

/// What is wrong with a duration or a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadUnit {
    /// Not a duration.
    #[error("not a duration: expected a number with ms, s, m, h or d, such as `30s` or `1h30m`")]
    Duration,
    /// Not a size.
    #[error("not a size: expected a number with K, M, G or T, such as `512M`")]
    Size,
}

/// Reads a duration, in milliseconds: `30s`, `5m`, `1h30m`, `250ms`; a bare number is seconds.
///
/// # Errors
/// When it is not one, or too long to count.
pub fn duration_ms(text: &str) -> Result<u64, BadUnit> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return scaled(text, 1000).ok_or(BadUnit::Duration);
    }
    let mut rest = text;
    let mut total = 0u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let ms = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(BadUnit::Duration),
        };
        total = scaled(number, ms).and_then(|part| total.checked_add(part)).ok_or(BadUnit::Duration)?;
        rest = tail;
    }
    Ok(total)
}

/// Reads a size, in bytes: `512M`, `5G`, `64K`, `100`; units are powers of 1,024.
///
/// # Errors
/// When it is not one, or too large to count.
pub fn size_bytes(text: &str) -> Result<u64, BadUnit> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let bytes = match unit.trim_end_matches("iB").trim_end_matches(['i', 'B']) {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return Err(BadUnit::Size),
    };
    scaled(number, bytes).ok_or(BadUnit::Size)
}

fn scaled(number: &str, by: u64) -> Option<u64> {
    number.parse::<u64>().ok()?.checked_mul(by)
}
