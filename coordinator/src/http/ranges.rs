//! What a request says about the bytes or the state of a file: ranges (RFC 9110 §14) and conditions (§13).

use std::ops::Range;

use axum::http::{HeaderMap, HeaderName, header};
use protocol::Code;

use super::error::Refusal;
use crate::store::{Condition, Tag};

/// The part of a file that is asked for; none: all of it. Several parts at once are answered with the whole, as they may be.
pub(super) fn range(headers: &HeaderMap, size: u64, tag: &str) -> Result<Option<Range<u64>>, Refusal> {
    let is_of_this = headers.get(header::IF_RANGE).is_none_or(|known| known.as_bytes() == tag.as_bytes());
    let asked = headers.get(header::RANGE).and_then(|range| range.to_str().ok()).filter(|_| is_of_this);
    let Some((from, to)) = asked.and_then(|asked| asked.strip_prefix("bytes=")).and_then(single) else {
        return Ok(None);
    };
    let found = match (from, to) {
        (Some(from), to) => from..to.map_or(size, |to| to.saturating_add(1).min(size)),
        (None, Some(last)) => size.saturating_sub(last)..size,
        (None, None) => return Ok(None),
    };
    if found.is_empty() {
        return Err(Refusal::new(Code::InvalidRange, format!("the file has {size} bytes and none of those asked for")));
    }
    Ok(Some(found))
}

/// `from-to`, of which one may be missing.
fn single(asked: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (from, to) = asked.split_once('-')?;
    let number = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
    let (from, to) = (number(from.trim())?, number(to.trim())?);
    let is_order = from.zip(to).is_none_or(|(from, to)| from <= to);
    is_order.then_some((from, to))
}

/// What must be true of a file before it is changed.
pub(super) fn condition(headers: &HeaderMap) -> Result<Condition, Refusal> {
    Ok(Condition { is_one_of: tags(headers, &header::IF_MATCH)?, is_none_of: tags(headers, &header::IF_NONE_MATCH)? })
}

/// The tags of a header, quoted or not, strong or weak.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Vec<Tag>, Refusal> {
    let mut tags = Vec::new();
    for value in headers.get_all(name) {
        let bad = |_| Refusal::new(Code::InvalidHeader, format!("{name} is not a list of tags"));
        for tag in value.to_str().map_err(bad)?.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
            let tag = tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"');
            tags.push(if tag == "*" { Tag::Any } else { Tag::Content(tag.to_owned()) });
        }
    }
    Ok(tags)
}

/// Whether the caller has this content already.
pub(super) fn is_known(headers: &HeaderMap, tag: &str) -> Result<bool, Refusal> {
    let known = tags(headers, &header::IF_NONE_MATCH)?;
    Ok(known.iter().any(|known| *known == Tag::Any || *known == Tag::Content(tag.trim_matches('"').to_owned())))
}

#[cfg(test)]
mod tests;
