//! A connected socket of either kind.
//!
//! A TCP socket is set so that closing it resets the connection, until `finish` says that it ended well: whatever ends a
//! relay midway, the peer never takes a part for the whole.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A silent TCP peer is asked whether it lives after this long,
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
/// again each time after this long,
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);
/// and is gone after this many questions without an answer.
const KEEPALIVE_PROBES: u32 = 4;

/// A connected socket of either kind.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP, without delay and with keepalive.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_zero_linger()?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_AFTER)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_EVERY)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
        Ok(Self::Tcp(stream))
    }

    /// Closes it so that the kernel still delivers what was written.
    pub(crate) fn finish(self) {
        if let Self::Tcp(stream) = &self {
            // Fails only for a socket that is gone, which has nothing left to deliver.
            let _ = sockopt::set_socket_linger(stream, None);
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
