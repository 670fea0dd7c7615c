//! What the operator allows tasks to reach, as it is typed: `name:port`.

use anyhow::{Context as _, ensure};

use crate::confinement::init::MAX_LISTENERS;

/// The most endpoints: the inner stage hands all listeners out at once.
pub(crate) const MOST: usize = MAX_LISTENERS;

/// An endpoint that tasks may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// A host's name, in lower case.
    pub name: String,
    /// Never 0.
    pub port: u16,
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.name, self.port)
    }
}

/// Checks what was typed.
pub(crate) fn parse(typed: &[String]) -> anyhow::Result<Vec<Allowed>> {
    let mut all = Vec::new();
    for text in typed.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        let allowed = endpoint(text).with_context(|| format!("--allow `{text}`"))?;
        ensure!(!all.contains(&allowed), "--allow `{text}`: it is given twice");
        all.push(allowed);
    }
    ensure!(all.len() <= MOST, "--allow: {} endpoints are given, {MOST} at most are served", all.len());
    Ok(all)
}

fn endpoint(text: &str) -> anyhow::Result<Allowed> {
    ensure!(!text.contains("://"), "expected host:port alone, such as authproxy:4000, and no URL");
    let (host, port) =
        text.rsplit_once(':').context("the port is missing: expected host:port, such as authproxy:4000")?;
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|number| is_number && *number != 0);
    let port = port.with_context(|| format!("port `{}`: expected a number from 1 to 65535", after_colon(text)))?;
    let name = host.to_ascii_lowercase();
    ensure!(!is_address(&name), "host `{host}`: tasks call it by a name; give a name that this machine can look up");
    ensure!(is_name(&name), "host `{host}`: expected a name of letters, digits, `-`, `_` and dots");
    ensure!(!is_loopback(&name), "host `{host}`: in a task that name is its own loopback; give another name for it");
    Ok(Allowed { name, port })
}

fn after_colon(text: &str) -> &str {
    text.rsplit(':').next().unwrap_or_default()
}

/// Also what only a resolver takes for an address, such as `10.1` and `0x7f000001`.
fn is_address(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_hex = last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    host.contains([':', '[', ']']) || is_hex || is_number
}

fn is_name(host: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(is_plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.len() <= 253 && host.split('.').all(is_label)
}

fn is_loopback(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    last == "localhost" || ["localhost.localdomain", "ip6-localhost", "ip6-loopback"].contains(&name)
}

#[cfg(test)]
mod tests;
