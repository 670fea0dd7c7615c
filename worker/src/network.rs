//! What tasks may reach, decided before anything is done: pure functions of what the operator allowed and of the spec.
//!
//! Each allowed name has an address of its own inside, 127.0.0.2 and up, so that two names on one port are two places. The
//! task's /etc/hosts has the names; a program there calls the far side by its real name and port, and `Host` and TLS
//! names are what they are anywhere. Only outside, in `relays`, is a name looked up.

use std::net::{Ipv4Addr, SocketAddr};

use protocol::spec::Network as Wish;
use protocol::{Run, Spec};
use shim::Endpoint;

use crate::confinement::mounts::HOSTS;
pub use allow::Allowed;
pub(crate) use relays::{Means, Relays};

pub(crate) mod allow;
mod relays;

/// How many names are looked up at once, for all attempts together. Each takes a blocking thread.
pub const LOOKUPS: usize = 4;
/// The most connections that one attempt has at once, and the most that wait.
const MOST_CONNECTIONS: u64 = 256;

/// The endpoints that tasks may reach, and where each is found inside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Network {
    doors: Vec<Door>,
    hosts: String,
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Door {
    inside: SocketAddr,
    target: Endpoint,
}

impl Network {
    /// Gives every name its address.
    pub(crate) fn new(allowed: &[Allowed]) -> Self {
        let mut names: Vec<&str> = Vec::new();
        let mut network = Self { doors: Vec::new(), hosts: HOSTS.into() };
        for Allowed { name, port } in allowed {
            let place = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name);
                network.hosts += &format!("{} {name}\n", address(names.len() - 1));
                names.len() - 1
            });
            let target = Endpoint::Tcp { host: name.clone(), port: *port };
            network.doors.push(Door { inside: (address(place), *port).into(), target });
        }
        network
    }

    /// The addresses on which the worker listens inside, for a task with this spec.
    pub(crate) fn binds(&self, spec: &Spec) -> Vec<SocketAddr> {
        if is_restricted(spec) { self.doors.iter().map(|door| door.inside).collect() } else { Vec::new() }
    }

    /// The names that a task with this spec can look up, as /etc/hosts has them.
    pub(crate) fn hosts(&self, spec: &Spec) -> &str {
        if is_restricted(spec) { &self.hosts } else { HOSTS }
    }

    fn targets(&self) -> impl Iterator<Item = Endpoint> {
        self.doors.iter().map(|door| door.target.clone())
    }
}

/// Code that asks for nothing reaches nothing; an agent needs its model.
fn is_restricted(spec: &Spec) -> bool {
    match spec.network {
        Some(Wish::Restricted) => true,
        Some(Wish::None) => false,
        None => matches!(spec.run, Run::Agent { .. }),
    }
}

/// Of the name at this place in the list, which `allow` keeps short. The task's own loopback is 127.0.0.1.
fn address(place: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, u8::try_from(place + 2).unwrap_or(u8::MAX))
}

/// How many connections each attempt may have, and as many may wait: together they leave half of the worker's
/// descriptors to itself. A connection takes two, one that waits takes one, and there are the listeners.
fn connections(open_files: u64, slots: u32) -> usize {
    let share = open_files / 2 / u64::from(slots.max(1));
    let places = share.saturating_sub(allow::MOST as u64) / 3;
    usize::try_from(places.clamp(1, MOST_CONNECTIONS)).unwrap_or(1)
}

#[cfg(test)]
mod tests;
