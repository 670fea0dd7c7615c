//! A relay under test: where it listens, and how to wait for what it counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shim::{Endpoint, Gate, Limits, Listener, serve};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// No test waits longer than this for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Route {
    pub(crate) port: u16,
    pub(crate) gate: Arc<Gate>,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) served: JoinHandle<()>,
}

impl Route {
    pub(crate) async fn to(target: Endpoint, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let gate = Gate::new(limits);
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { drop(stopped.await) };
        let served = tokio::spawn(serve(Listener::Tcp(listener), target, Arc::clone(&gate), shutdown));
        Self { port, gate, stop, served }
    }

    /// To a listener that the test holds.
    pub(crate) async fn to_listener(limits: Limits) -> (Self, TcpListener) {
        let far = TcpListener::bind("127.0.0.1:0").await.unwrap();
        (Self::to(tcp(far.local_addr().unwrap().port()), limits).await, far)
    }

    /// Both ends of one connection through the relay.
    pub(crate) async fn pair(&self, far: &TcpListener) -> (TcpStream, TcpStream) {
        let near = self.connect().await;
        (near, soon(far.accept()).await.unwrap().0)
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }
}

pub(crate) fn tcp(port: u16) -> Endpoint {
    format!("tcp:127.0.0.1:{port}").parse().unwrap()
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap()
}

pub(crate) async fn reaches(counter: &AtomicU64, expected: u64) {
    let end = Instant::now() + PATIENCE;
    while counter.load(Ordering::Relaxed) != expected {
        assert!(Instant::now() < end, "counted {counter:?}, not {expected}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// Bytes in which every position can be told from its neighbours.
pub(crate) fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| ((index * 31) ^ (index >> 8)).to_le_bytes()[0] ^ seed).collect()
}
