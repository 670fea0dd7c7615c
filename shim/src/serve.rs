//! Accepts connections and leads each to the far side, until it is told to stop.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::limits::Ticket;
use crate::{Carried, Counters, End, Endpoint, Gate, Stream, relay};

/// How long it rests when nothing can be accepted, as when descriptors have run out.
const REST: Duration = Duration::from_millis(100);

/// A listening socket of either kind.
#[derive(Debug)]
pub enum Listener {
    /// On TCP.
    Tcp(TcpListener),
    /// On a Unix socket.
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => Stream::tcp(listener.accept().await?.0),
            Self::Unix(listener) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

/// Leads every connection to `target` until `shutdown` is ready; then ends all of them at once and returns when nothing
/// of them is left. Dropping it ends them too, without the wait.
pub async fn serve(listener: Listener, target: Endpoint, gate: Arc<Gate>, shutdown: impl Future<Output = ()>) {
    let way = Arc::new(Way { target, gate, is_reachable: AtomicBool::new(true) });
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok(near) => admit(near, &way, &mut connections),
                Err(error) => {
                    tracing::debug!("cannot accept a connection to {}: {error}", way.target);
                    // A connection that was gone before it was accepted is no reason to rest.
                    if error.kind() != io::ErrorKind::ConnectionAborted {
                        tokio::select! { () = &mut shutdown => break, () = sleep(REST) => {} }
                    }
                }
            }
        }
    }
    connections.shutdown().await;
}

/// From the listener to the far side.
struct Way {
    target: Endpoint,
    gate: Arc<Gate>,
    is_reachable: AtomicBool,
}

/// Refusing is dropping: TCP peers see a reset, others the end.
fn admit(near: Stream, way: &Arc<Way>, connections: &mut JoinSet<()>) {
    let counters = &way.gate.counters;
    Counters::one_more(&counters.accepted);
    match way.gate.enter() {
        Some(ticket) => drop(connections.spawn(Arc::clone(way).carry(near, ticket))),
        None => Counters::one_more(&counters.refused),
    }
}

impl Way {
    async fn carry(self: Arc<Self>, mut near: Stream, _ticket: Ticket) {
        let counters = &self.gate.counters;
        let Some(_place) = self.gate.place().await else { return Counters::one_more(&counters.refused) };
        let connected = self.target.connect(self.gate.limits.connect, &self.gate.lookups).await;
        self.say_when_changed(connected.as_ref().err());
        let Ok(mut far) = connected else { return Counters::one_more(&counters.unreachable) };
        let _open = counters.open();
        let carried = Carried { out: &counters.bytes_out, back: &counters.bytes_back };
        match relay(&mut near, &mut far, self.gate.limits.idle, carried).await {
            End::Whole => {
                near.finish();
                far.finish();
            }
            End::Broken => {}
            End::Idle => Counters::one_more(&counters.idle),
        }
    }

    /// Once per change, so that whoever connects in a loop does not fill the log.
    fn say_when_changed(&self, error: Option<&io::Error>) {
        let was_reachable = self.is_reachable.swap(error.is_none(), Ordering::Relaxed);
        match error {
            Some(error) if was_reachable => tracing::warn!("cannot connect to {}: {error}", self.target),
            None if !was_reachable => tracing::info!("{} can be reached again", self.target),
            _ => {}
        }
    }
}
