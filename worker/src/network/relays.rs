//! The worker's side of the listeners inside: accepts there, and leads every connection to the one endpoint that its
//! listener stands for. What listens came out of the namespace as a descriptor; nothing of ours is in there.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use shim::{Gate, Limits, Listener, Lookups};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{LOOKUPS, Network, connections};

/// How long the far side may take to answer, its name's look-up included.
const CONNECT: Duration = Duration::from_secs(10);
/// An attempt ends its connections, and keepalive those of a dead far side; a silent one may be an agent that thinks.
const IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// What relays may use of the worker.
#[derive(Debug)]
pub(crate) struct Means {
    connections: usize,
    lookups: Lookups,
}

impl Means {
    /// As the limits of this process allow.
    pub(crate) fn found(slots: u32) -> Self {
        let open_files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self { connections: connections(open_files, slots), lookups: Lookups::new(LOOKUPS) }
    }

    /// For all endpoints of one attempt together.
    fn gate(&self) -> Arc<Gate> {
        let (max_connections, max_waiting) = (self.connections, self.connections);
        let limits = Limits { max_connections, max_waiting, connect: CONNECT, idle: IDLE, ..Limits::default() };
        Gate::sharing(limits, self.lookups.clone())
    }
}

/// The relays of one attempt. Dropping them ends all connections, too, without the wait.
pub(crate) struct Relays {
    stop: watch::Sender<bool>,
    serving: JoinSet<()>,
}

impl Relays {
    /// Begins to serve the listeners, which come in the order of the endpoints.
    ///
    /// # Errors
    /// When they are not as many, or are no listeners.
    pub(crate) fn start(network: &Network, listeners: Vec<OwnedFd>, means: &Means) -> io::Result<Self> {
        if listeners.len() != network.doors.len() {
            let (came, wanted) = (listeners.len(), network.doors.len());
            return Err(io::Error::other(format!("{came} listeners came out of the confinement instead of {wanted}")));
        }
        let gate = means.gate();
        let (stop, stopped) = watch::channel(false);
        let mut serving = JoinSet::new();
        for (listener, target) in listeners.into_iter().zip(network.targets()) {
            let mut stopped = stopped.clone();
            let until = async move { drop(stopped.wait_for(|stop| *stop).await) };
            serving.spawn(shim::serve(listener_of(listener)?, target, gate.clone(), until));
        }
        Ok(Self { stop, serving })
    }

    /// Cuts all connections, and waits until nothing of them is left.
    pub(crate) async fn end(mut self) {
        self.stop.send_replace(true);
        while self.serving.join_next().await.is_some() {}
    }
}

fn listener_of(descriptor: OwnedFd) -> io::Result<Listener> {
    let listener = TcpListener::from(descriptor);
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener).map(Listener::Tcp)
}
