//! Accepts connections and serves them with hyper: limits on headers and on the time to send them, and an orderly end in which
//! what was begun is answered.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::config::{Address, Patience};
use crate::shutdown::Shutdown;

const MAX_HEADER_BYTES: usize = 64 << 10;

/// A socket that is listened on.
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket, and its path.
    Unix(UnixListener, std::path::PathBuf),
}

impl Listener {
    /// Takes the address.
    ///
    /// # Errors
    /// When it is taken already, or may not be taken.
    pub async fn bind(address: &Address) -> anyhow::Result<Self> {
        match address {
            Address::Tcp(tcp) => {
                let listener = TcpListener::bind(tcp).await;
                let hint = || {
                    format!(
                        "cannot listen on {tcp}; if another coordinator has it, stop that or choose another address"
                    )
                };
                Ok(Self::Tcp(listener.with_context(hint)?))
            }
            Address::Unix(path) => {
                clear_stale(path).await?;
                let listener =
                    UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))?;
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    /// Where it listens, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(|address| address.to_string()).unwrap_or_default(),
            Self::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }
}

/// Removes a socket that nobody listens on any more.
async fn clear_stale(path: &Path) -> anyhow::Result<()> {
    match UnixStream::connect(path).await {
        Ok(_) => bail!("another program listens on {}", path.display()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).with_context(|| format!("removing the stale socket {}", path.display()))
        }
        Err(_) => Ok(()),
    }
}

/// What all listeners share.
pub struct Served {
    /// Says when to stop.
    pub shutdown: Shutdown,
    /// How long connections have to finish then.
    pub grace: Duration,
    /// What each listener puts up with.
    pub patience: Patience,
}

/// Serves one listener until told to stop, and then until its connections are done or the grace period is over.
pub async fn serve(listener: Listener, routes: Router, served: &Served) {
    let mut connections = tokio::task::JoinSet::new();
    // Each listener has its own: whoever fills the workers' leaves the clients' alone.
    let permits = Arc::new(Semaphore::new(served.patience.max_connections));
    loop {
        let next = async {
            let permit = permits.clone().acquire_owned().await.map_err(io::Error::other)?;
            accept(&listener).await.map(|socket| (socket, permit))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            () = served.shutdown.requested() => break,
        };
        let (routes, shutdown, patience) = (routes.clone(), served.shutdown.clone(), served.patience);
        match accepted {
            Ok((socket, permit)) => {
                connections.spawn(async move {
                    connection(socket, routes, shutdown, patience).await;
                    drop(permit);
                });
            }
            Err(error) => wait_after(&error).await,
        }
        while connections.try_join_next().is_some() {}
    }
    if let Listener::Unix(_, path) = &listener {
        let _ = std::fs::remove_file(path);
    }
    drop(listener);
    drop(routes);
    let finish = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(served.grace, finish).await.is_err() {
        tracing::warn!(left = connections.len(), "connections did not finish in time and are cut");
        connections.shutdown().await;
    }
}

trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Socket for T {}

async fn accept(listener: &Listener) -> io::Result<Box<dyn Socket>> {
    match listener {
        Listener::Tcp(listener) => {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            Ok(Box::new(socket))
        }
        Listener::Unix(listener, _) => Ok(Box::new(listener.accept().await?.0)),
    }
}

/// Running out of descriptors passes; spinning on it would not help.
async fn wait_after(error: &io::Error) {
    if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
        tracing::warn!(%error, "could not accept a connection");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn connection(socket: Box<dyn Socket>, routes: Router, shutdown: Shutdown, patience: Patience) {
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.header_timeout)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(routes));
    tokio::pin!(serving);
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = shutdown.requested() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}
