//! Keeps one lease alive from a task of its own, and says when the attempt must end.
//!
//! The lease's time is counted from when the last good renewal was *sent*, on a clock that goes on while the worker is
//! frozen. When it is over, or was lost, nothing about the attempt may be published any more.

use std::sync::Arc;
use std::time::Duration;

use protocol::{LeaseId, Renew, Renewed, Stop};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::{CallError, Client};
use crate::random::Backoff;

/// The shortest time between two renewals, also when they are answered at once.
const PACE: Duration = Duration::from_secs(1);

/// Why the attempt must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A client cancelled the task: say so.
    Cancel,
    /// The lease is over: say nothing.
    Lost,
}

/// What is known about the lease.
#[derive(Debug, Clone, Copy)]
struct Pulse {
    valid_until: Instant,
    ttl: Duration,
    stop: Option<Stop>,
    is_lost: bool,
}

impl Pulse {
    fn is_valid(&self) -> bool {
        !self.is_lost && Instant::now() < self.valid_until
    }
}

/// A lease that is being renewed until this is dropped.
pub(crate) struct Heartbeat {
    pulse: watch::Receiver<Pulse>,
    beating: JoinHandle<()>,
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

impl Heartbeat {
    /// Renews for the first time, before anything is started, and goes on from there. None when the lease was lost.
    pub(crate) async fn start(client: Arc<Client>, lease: LeaseId, ttl_s: u32) -> Option<Self> {
        let give_up_at = Instant::now() + Duration::from_secs(ttl_s.into());
        let mut backoff = Backoff::default();
        let first = loop {
            let sent_at = Instant::now();
            match client.renew(lease, Renew { wait_s: 0 }, give_up_at.checked_duration_since(sent_at)?).await {
                Ok(renewed) => break pulse(sent_at, renewed),
                Err(error) if error.is_lease_lost() => return None,
                Err(_) => sleep(backoff.next()).await,
            }
        };
        let (told, pulse) = watch::channel(first);
        let beating = tokio::spawn(beat(client, lease, told));
        Some(Self { pulse, beating })
    }

    /// Whether anything about the attempt may still be published.
    pub(crate) fn is_valid(&self) -> bool {
        self.pulse.borrow().is_valid()
    }

    /// Something that can ask the same elsewhere.
    pub(crate) fn validity(&self) -> Validity {
        Validity(self.pulse.clone())
    }

    /// Waits until the attempt must end. Safe to cancel.
    pub(crate) async fn verdict(&mut self) -> Verdict {
        loop {
            let pulse = *self.pulse.borrow_and_update();
            if !pulse.is_valid() {
                return Verdict::Lost;
            }
            if pulse.stop == Some(Stop::Cancel) {
                return Verdict::Cancel;
            }
            tokio::select! {
                () = sleep_until(pulse.valid_until) => {}
                changed = self.pulse.changed() => {
                    if changed.is_err() {
                        sleep_until(pulse.valid_until).await;
                    }
                }
            }
        }
    }
}

/// Whether a lease is valid, without the right to end it.
#[derive(Clone)]
pub(crate) struct Validity(watch::Receiver<Pulse>);

impl Validity {
    pub(crate) fn is_valid(&self) -> bool {
        self.0.borrow().is_valid()
    }
}

fn pulse(sent_at: Instant, renewed: Renewed) -> Pulse {
    let ttl = Duration::from_secs(renewed.ttl_s.into());
    Pulse { valid_until: sent_at + ttl, ttl, stop: renewed.stop, is_lost: false }
}

async fn beat(client: Arc<Client>, lease: LeaseId, told: watch::Sender<Pulse>) {
    let mut backoff = Backoff::default();
    let mut wait_s = hold_s(&told);
    loop {
        let sent_at = Instant::now();
        let Some(left) = told.borrow().valid_until.checked_duration_since(sent_at) else {
            return lose(&told, lease, "its time is over without a renewal");
        };
        match client.renew(lease, Renew { wait_s }, patience(left, wait_s)).await {
            Ok(renewed) => {
                told.send_replace(pulse(sent_at, renewed));
                backoff.reset();
                wait_s = hold_s(&told);
                sleep_until(sent_at + rest(&told)).await;
            }
            Err(error) if error.is_lease_lost() => return lose(&told, lease, "the coordinator took it back"),
            Err(error) => {
                tracing::debug!(%lease, "renewal failed: {error}");
                // Held only once it works again: now a quick answer counts.
                wait_s = 0;
                sleep(pause(&error, &mut backoff)).await;
            }
        }
    }
}

/// How long the coordinator may hold the answer. A stop that was heard would be repeated at once, so it is not asked.
fn hold_s(told: &watch::Sender<Pulse>) -> u32 {
    let pulse = told.borrow();
    let third = u32::try_from(pulse.ttl.as_secs() / 3).unwrap_or(u32::MAX);
    if pulse.stop.is_some() { 0 } else { third }
}

/// How long to wait for an answer: half of what the lease has left beyond the hold, so that another try is possible.
fn patience(left: Duration, wait_s: u32) -> Duration {
    let hold = Duration::from_secs(wait_s.into());
    hold + left.saturating_sub(hold) / 2
}

/// The time from one renewal to the next, at least.
fn rest(told: &watch::Sender<Pulse>) -> Duration {
    let pulse = told.borrow();
    if pulse.stop.is_some() { (pulse.ttl / 3).max(PACE) } else { PACE.min(pulse.ttl / 3) }
}

fn pause(error: &CallError, backoff: &mut Backoff) -> Duration {
    let pause = backoff.next();
    // A refused key does not come back within a blink; the rest of the lease is for a coordinator that restarts.
    if error.status().is_some() { pause.max(PACE) } else { pause.min(2 * PACE) }
}

fn lose(told: &watch::Sender<Pulse>, lease: LeaseId, why: &str) {
    tracing::debug!(%lease, "lease lost: {why}");
    told.send_modify(|pulse| pulse.is_lost = true);
}

#[cfg(test)]
mod tests;
