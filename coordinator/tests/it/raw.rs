//! A connection on which a test sends what no HTTP client would.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::running::{DEADLINE, Running};

/// An open connection.
pub(crate) struct Raw(TcpStream);

impl Raw {
    pub(crate) async fn connect(on: &Running) -> Self {
        Self::connect_to(on.address()).await
    }

    pub(crate) async fn connect_to(address: &str) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Sends as much as the other side takes.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        // A coordinator that has refused may have closed its side already.
        let _ = self.0.write_all(bytes.as_ref()).await;
        self
    }

    /// Everything until the other side closes; it must, within the test's patience.
    pub(crate) async fn rest(&mut self) -> String {
        let mut all = Vec::new();
        let read = async {
            let mut piece = [0u8; 8192];
            while let Ok(length @ 1..) = self.0.read(&mut piece).await {
                all.extend_from_slice(&piece[..length]);
            }
        };
        tokio::time::timeout(DEADLINE, read).await.expect("the coordinator closes the connection");
        String::from_utf8_lossy(&all).into_owned()
    }

    /// What has come once it holds `text`.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        let mut all = Vec::new();
        let read = async {
            let mut piece = [0u8; 8192];
            while !String::from_utf8_lossy(&all).contains(text) {
                let length = self.0.read(&mut piece).await.unwrap();
                assert!(length > 0, "closed before `{text}`: {}", String::from_utf8_lossy(&all));
                all.extend_from_slice(&piece[..length]);
            }
        };
        tokio::time::timeout(DEADLINE, read).await.expect("the coordinator answers");
        String::from_utf8_lossy(&all).into_owned()
    }

    /// Whether nothing comes for a moment: a look, not a wait for something to happen.
    pub(crate) async fn is_quiet_for(&mut self, moment: Duration) -> bool {
        tokio::time::timeout(moment, self.0.readable()).await.is_err()
    }
}

/// A request as bytes, for localhost, with this key and these header lines.
pub(crate) fn request(line: &str, key: &str, headers: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n{headers}\r\n")
}
