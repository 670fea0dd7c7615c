//! Who a request may be addressed to. A page that a browser loaded from elsewhere can make it send requests here (DNS
//! rebinding); it cannot make it lie about `Host` and `Origin`.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use protocol::Code;

use super::error::Refusal;

/// The names that are ours.
pub struct Hosts(Vec<String>);

impl Hosts {
    /// The usual names and these.
    #[must_use]
    pub fn new(more: &[String]) -> Self {
        let usual = ["localhost", "127.0.0.1", "[::1]", "skia"];
        Self(usual.into_iter().map(str::to_owned).chain(more.iter().map(|name| name.to_ascii_lowercase())).collect())
    }

    /// Whether a request is meant for us.
    ///
    /// # Errors
    /// When its `Host` or `Origin` is not ours, or is missing where it must not be.
    pub fn check(&self, target: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let said = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
        let mut hosts: Vec<_> = said.chain(target.authority().map(Authority::as_str)).collect();
        if hosts.is_empty() {
            hosts.push("");
        }
        if let Some(host) = hosts.into_iter().find(|host| !self.knows(host)) {
            return Err(Refusal::new(
                Code::HostNotAllowed,
                format!("the Host `{host}` is not one of ours; add it to CW_ALLOWED_HOSTS if it is"),
            ));
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        let name = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map_or("", |(_, name)| name);
        if self.knows(name) {
            return Ok(());
        }
        Err(Refusal::new(
            Code::OriginNotAllowed,
            "the Origin is not one of ours; add its host to CW_ALLOWED_HOSTS if it is",
        ))
    }

    /// Whether this is one of our names, with any port.
    fn knows(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() => name,
            Some(_) | None => host,
        };
        self.0.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests;
