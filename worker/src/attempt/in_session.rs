//! The parts of an attempt that it has when its task works in a session: the tree before it, and what it changed after it.
//!
//! Its walls are built for it, around the tree: the overlays and a tree that is only read are mounts, and no mount comes into
//! walls that stand.

use std::sync::Arc;

use protocol::spec::{Commit, SessionMode};
use protocol::{Outcome, Spec};

use super::watch_over::Finished;
use super::{Attempt, Brought, must_leave, not_prepared};
use crate::Worker;
use crate::artifacts::Collected;
use crate::confinement::{Enforced, Shown};
use crate::heartbeat::Verdict;
use crate::ready::{Ready, Site};
use crate::workspace::{Checkout, Errand};

/// The slot whose user the kept tree of the session belongs to: there nothing has to change its owner.
pub(super) fn wanted_slot(worker: &Worker, spec: &Spec) -> Option<u32> {
    let owner = worker.workspaces.kept.owner(spec.session.as_ref()?)?;
    let slot = owner.checked_sub(worker.confinement.policy.first_uid?)?;
    (slot < worker.config.slots).then_some(slot)
}

impl Attempt {
    fn errand(&self) -> Errand {
        Errand::new(Arc::clone(&self.worker.client), self.grant.lease, self.heartbeat.validity())
    }

    /// Lays the tree out, and builds the walls around it.
    pub(super) async fn in_session(&mut self) -> Result<anyhow::Result<(Ready, Option<Checkout>)>, Finished> {
        let Some(session) = self.spec.session.clone() else { return Ok(self.alone().await) };
        let (worker, slot) = (Arc::clone(&self.worker), self.slot.number);
        let known = Arc::clone(&worker.confinement);
        let made = tokio::task::spawn_blocking(move || Site::make(&known, slot)).await;
        let mut site = match made.map_err(anyhow::Error::from).flatten() {
            Ok(site) => site,
            Err(error) => return Ok(Err(error)),
        };
        let (errand, mode) = (self.errand(), self.spec.session_mode);
        let laying = worker.workspaces.check_out(&errand, (session, mode), &site.directory);
        let checkout = match self.unless_it_ends(&errand, laying).await {
            Ok(Ok(checkout)) => checkout,
            Ok(Err(error)) => {
                site.remove(false).await;
                return Err(Finished::without(not_prepared(&error)));
            }
            Err(finished) => {
                site.remove(false).await;
                return Err(finished);
            }
        };
        site.laid_bytes = checkout.disk_bytes();
        let shown = Shown { is_read_only: checkout.is_read_only(), overlays: checkout.overlays() };
        let memory_bytes = Enforced::new(&self.spec).memory_bytes;
        let raised =
            Ready::raise((&worker.confinement, &worker.family), site, (slot, memory_bytes), Some(&shown)).await;
        Ok(raised.map(|ready| (ready, Some(checkout))))
    }

    /// Brings what the task changed, if this end of it is one that keeps it.
    pub(super) async fn bring(&mut self, finished: Finished, checkout: Checkout, site: &Site) -> Brought {
        let nothing = |finished, left| Brought { finished, collected: Collected::default(), stage: None, left };
        let Finished::Ran { outcome, .. } = &finished else { return nothing(finished, None) };
        if !outcome.has_run() || !self.heartbeat.is_valid() {
            return nothing(finished, None);
        }
        if self.spec.session_mode == SessionMode::Read {
            // Its own files were laid into a tree that it then could not change.
            let left = self.spec.files.is_empty().then(|| checkout.left_alone());
            return nothing(finished, left);
        }
        if self.spec.commit == Commit::OnSuccess && *outcome != (Outcome::Exited { code: 0 }) {
            return nothing(finished, None);
        }
        let errand = self.errand();
        match self.unless_it_ends(&errand, checkout.bring(&errand, &site.directory)).await {
            Ok(Ok(brought)) => {
                let (collected, stage) = (brought.collected, brought.stage);
                Brought { finished, collected, stage, left: Some(brought.left) }
            }
            Ok(Err(error)) => {
                let detail = format!("the files of the task could not be kept: {error:#}");
                nothing(finished.but(Outcome::PushFailed { detail }), None)
            }
            Err(Finished::Ran { outcome, .. }) => nothing(finished.but(outcome), None),
            Err(Finished::GivenUp) => nothing(Finished::GivenUp, None),
        }
    }

    /// Does something for the attempt. When that ends meanwhile, it is halted, and it is over when this returns.
    async fn unless_it_ends<T>(
        &mut self,
        errand: &Errand,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> Result<anyhow::Result<T>, Finished> {
        tokio::pin!(work);
        let end = tokio::select! {
            biased;
            done = &mut work => return Ok(done),
            verdict = self.heartbeat.verdict() => match verdict {
                Verdict::Cancel => Finished::without(Outcome::Cancelled),
                Verdict::Lost => Finished::GivenUp,
            },
            () = must_leave(&mut self.give_up) => Finished::GivenUp,
        };
        errand.halt();
        drop(work.await);
        Err(end)
    }
}
