//! Where a connection leads: `tcp:host:port` or `unix:/path`, and how to get there in time.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::Stream;

/// Where a connection leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A host, by name or address, and a port. A name is looked up anew for each connection.
    Tcp {
        /// A name, an IPv4 address, or an IPv6 address without brackets.
        host: String,
        /// Never 0.
        port: u16,
    },
    /// A Unix socket; the path is absolute.
    Unix(PathBuf),
}

/// Why a text is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// It begins with neither of the two words.
    #[error("`{0}`: expected tcp:host:port or unix:/path")]
    Kind(String),
    /// There is no host, or it has characters that no host has.
    #[error("`{0}`: expected a host name or an address before the port")]
    Host(String),
    /// An IPv6 address without brackets, or brackets around something else.
    #[error("`{0}`: an IPv6 address stands in brackets, such as tcp:[::1]:80")]
    Brackets(String),
    /// There is no port from 1 to 65535.
    #[error("`{0}`: expected a port from 1 to 65535 at the end")]
    Port(String),
    /// The path of the Unix socket is not absolute.
    #[error("`{0}`: the socket's path must be absolute, such as unix:/run/far.sock")]
    Path(String),
}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        if let Some(path) = text.strip_prefix("unix:") {
            let is_path = path.starts_with('/') && !path.ends_with('/') && !path.contains('\0');
            return if is_path { Ok(Self::Unix(path.into())) } else { Err(BadEndpoint::Path(text.into())) };
        }
        let address = text.strip_prefix("tcp:").ok_or_else(|| BadEndpoint::Kind(text.into()))?;
        let (host, port) = address.rsplit_once(':').ok_or_else(|| BadEndpoint::Port(text.into()))?;
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port != 0);
        let port = port.ok_or_else(|| BadEndpoint::Port(text.into()))?;
        Ok(Self::Tcp { host: bare_host(host, text)?, port })
    }
}

fn bare_host(host: &str, text: &str) -> Result<String, BadEndpoint> {
    if host.contains([':', '[', ']']) {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let inner = inner.filter(|inner| inner.parse::<Ipv6Addr>().is_ok());
        return inner.map(Into::into).ok_or_else(|| BadEndpoint::Brackets(text.into()));
    }
    let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if is_host { Ok(host.into()) } else { Err(BadEndpoint::Host(text.into())) }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Endpoint {
    /// Connects, trying all addresses of a name in turn; look-up and all tries together have this long.
    ///
    /// # Errors
    /// The last one that was met, or `TimedOut`.
    pub async fn connect(&self, within: Duration, lookups: &Lookups) -> io::Result<Stream> {
        let connected = async {
            match self {
                Self::Tcp { host, port } => connect_tcp(lookups.addresses(host, *port).await?).await,
                Self::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
            }
        };
        timeout(within, connected).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

async fn connect_tcp(addresses: Vec<SocketAddr>) -> io::Result<Stream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Stream::tcp(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// How many names are looked up at once. The system's look-up blocks a thread of the runtime until it has an answer,
/// also when nobody waits for it any more: this keeps many connections from taking them all.
#[derive(Debug, Clone)]
pub struct Lookups(Arc<Semaphore>);

impl Lookups {
    /// That many threads at most.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_once)))
    }

    async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let place = Arc::clone(&self.0).acquire_owned().await.map_err(io::Error::other)?;
        let host = host.to_owned();
        let look_up = move || {
            let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            drop(place);
            found
        };
        tokio::task::spawn_blocking(look_up).await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests;
