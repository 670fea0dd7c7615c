//! One attempt, top to bottom: decode → first renewal → the tree of its session → walls, or those from the shelf → run →
//! collect, or bring a stage → spool → report → clean up.
//!
//! Nothing is started before the first renewal, and nothing is published once the lease is lost.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use protocol::event::EventBody;
use protocol::outcome::Usage;
use protocol::{LeaseGrant, Outcome, Report, Spec, StageId};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::artifacts::{self, Collected, Snapshot, Way};
use crate::confinement::{Enforced, Init, Level, Program};
use crate::heartbeat::Heartbeat;
use crate::output::{Account, Leftover};
use crate::process::NotBuilt;
use crate::random::Backoff;
use crate::ready::{Ready, Site};
use crate::slots::Slot;
use crate::spool::{Delivery, Head, Settled};
use crate::workspace::{Checkout, Left};
use crate::{Worker, clock};
use watch_over::{Finished, watch_over};

mod in_session;
mod used;
mod watch_over;

/// How long a slot rests after a task that this worker cannot run, so that it does not take it again at once.
const REST_AFTER_UNSUPPORTED: Duration = Duration::from_secs(5);

/// How an attempt came out, for the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its report was delivered, or waits in the spool.
    Done,
    /// It was given back or lost: the task is somebody else's.
    NotOurs,
}

/// Runs one lease to its end. `give_up` turns true when the worker must leave.
pub(crate) async fn run(worker: Arc<Worker>, grant: LeaseGrant, mut give_up: watch::Receiver<bool>) -> Ended {
    let spec = match decode(&worker, &grant) {
        Ok(spec) => spec,
        Err(why) => {
            release(&worker, &grant, format!("unsupported: {why}")).await;
            let _ = timeout(REST_AFTER_UNSUPPORTED, must_leave(&mut give_up)).await;
            return Ended::NotOurs;
        }
    };
    let Some(heartbeat) = Heartbeat::start(Arc::clone(&worker.client), grant.lease, grant.ttl_s).await else {
        tracing::warn!(task = %grant.task, lease = %grant.lease, "lease lost before the task was started");
        return Ended::NotOurs;
    };
    worker.stats.started();
    tracing::info!(task = %grant.task, lease = %grant.lease, attempt = grant.attempt, repo = %grant.repo, "task started");
    let slot = worker.slots.take(in_session::wanted_slot(&worker, &spec));
    let attempt = Attempt { worker, grant, spec, slot, heartbeat, give_up };
    attempt.run().await
}

/// What this worker does not know, it does not run: to ignore a wish would be a silent downgrade.
fn decode(worker: &Worker, grant: &LeaseGrant) -> Result<Spec, String> {
    let spec: Spec = protocol::decode(grant.spec.get().as_bytes()).map_err(|error| error.to_string())?;
    spec.check().map_err(|error| error.to_string())?;
    let needs = spec.needs();
    match worker.info.lacks(&needs).as_slice() {
        [] => Ok(spec),
        lacking => Err(format!("this worker does not offer {}", lacking.join(", "))),
    }
}

async fn release(worker: &Worker, grant: &LeaseGrant, reason: String) {
    tracing::info!(task = %grant.task, lease = %grant.lease, "task given back: {reason}");
    worker.stats.released();
    if let Err(error) = worker.client.release(grant.lease, reason).await {
        tracing::warn!(task = %grant.task, lease = %grant.lease, "not given back, the lease lapses instead: {error}");
    }
}

/// What became of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handed {
    /// The coordinator has it.
    Acknowledged,
    /// It waits in the spool, or cannot be delivered.
    In,
    /// There was none to hand in.
    NotOurs,
}

impl From<Handed> for Ended {
    fn from(handed: Handed) -> Self {
        match handed {
            Handed::Acknowledged | Handed::In => Self::Done,
            Handed::NotOurs => Self::NotOurs,
        }
    }
}

/// A task that is about to begin.
struct Prepared {
    ready: Ready,
    plan: Init,
    /// The tree of its session.
    checkout: Option<Checkout>,
}

/// What came of a task.
struct Brought {
    finished: Finished,
    collected: Collected,
    stage: Option<StageId>,
    /// The tree of its session, for the next task.
    left: Option<Left>,
}

struct Attempt {
    worker: Arc<Worker>,
    grant: LeaseGrant,
    spec: Spec,
    slot: Slot,
    heartbeat: Heartbeat,
    give_up: watch::Receiver<bool>,
}

impl Attempt {
    async fn run(mut self) -> Ended {
        let Prepared { ready: Ready { site, stages, .. }, plan, checkout } = match self.prepare().await {
            Ok(prepared) => prepared,
            Err(finished) => return self.finish(finished, Collected::default(), None).await.into(),
        };
        let brought = match checkout {
            None => {
                let before = Snapshot::take(site.directory.work()).await;
                let finished = watch_over(&mut self, stages, &plan, &site).await;
                let collected = self.collect(before, &finished).await;
                Brought { finished, collected, stage: None, left: None }
            }
            Some(checkout) => {
                let finished = watch_over(&mut self, stages, &plan, &site).await;
                self.bring(finished, checkout, &site).await
            }
        };
        let Brought { finished, collected, stage, left } = brought;
        let handed = self.finish(finished, collected, stage).await;
        // What was not published is nobody's: then the tree goes with the attempt.
        if let Some(left) = left.filter(|_| handed == Handed::Acknowledged && !self.worker.config.keep_attempts) {
            self.worker.workspaces.keep(left, &site.directory).await;
        }
        self.clean_up(site).await;
        handed.into()
    }

    /// Takes what is ready on the shelf, or builds it, with the tree of its session if it has one; the task moves in.
    async fn prepare(&mut self) -> Result<Prepared, Finished> {
        let prepared = if self.spec.session.is_some() { self.in_session().await? } else { self.alone().await };
        let settled = async {
            let (ready, checkout) = prepared?;
            self.move_in(ready, checkout).await
        };
        settled.await.map_err(|error: anyhow::Error| Finished::without(not_prepared(&error)))
    }

    async fn alone(&self) -> anyhow::Result<(Ready, Option<Checkout>)> {
        let (worker, slot) = (&self.worker, self.slot.number);
        let memory_bytes = Enforced::new(&self.spec).memory_bytes;
        let ready = match worker.shelf.take(slot, memory_bytes).await {
            Some(ready) => ready,
            None => Ready::build(&worker.confinement, &worker.family, slot, memory_bytes).await?,
        };
        Ok((ready, None))
    }

    async fn move_in(&self, ready: Ready, checkout: Option<Checkout>) -> anyhow::Result<Prepared> {
        let (worker, grant, spec) = (Arc::clone(&self.worker), self.grant.clone(), self.spec.clone());
        let moved = tokio::task::spawn_blocking(move || {
            let (ready, plan) = move_in(&worker, &grant, &spec, ready);
            let begun = |mut checkout: Checkout| checkout.begin(&ready.site.directory).map(|()| checkout);
            let checkout = checkout.map(begun).transpose();
            (ready, plan.and_then(|plan| Ok((plan, checkout?))))
        });
        let (ready, plan) = moved.await?;
        match plan {
            Ok((plan, checkout)) => Ok(Prepared { ready, plan, checkout }),
            Err(error) => {
                ready.discard().await;
                Err(error)
            }
        }
    }

    /// Lists and uploads the files that came of it, as long as the lease allows.
    async fn collect(&self, before: Snapshot, finished: &Finished) -> Collected {
        if matches!(finished, Finished::GivenUp) || !self.heartbeat.is_valid() {
            return Collected::default();
        }
        let way = Way {
            client: Arc::clone(&self.worker.client),
            lease: self.grant.lease,
            validity: self.heartbeat.validity(),
            give_up: self.give_up.clone(),
            limit_bytes: self.worker.config.artifacts_limit,
        };
        artifacts::collect(before, way).await
    }

    async fn finish(&mut self, finished: Finished, collected: Collected, stage: Option<StageId>) -> Handed {
        let (task, lease) = (self.grant.task, self.grant.lease);
        let Finished::Ran { outcome, leftover, account, used, return_value } = finished else {
            if self.heartbeat.is_valid() {
                release(&self.worker, &self.grant, "drain".into()).await;
            } else {
                tracing::warn!(%task, %lease, "lease lost: the task was ended, nothing is reported");
                self.worker.stats.lost();
            }
            return Handed::NotOurs;
        };
        // The last look before anything leaves: a worker that was frozen past its lease ends here.
        if !self.heartbeat.is_valid() {
            tracing::warn!(%task, %lease, "lease lost, result dropped: the lease is over");
            self.worker.stats.lost();
            return Handed::NotOurs;
        }
        let wall_ms = used.wall_ms;
        tracing::info!(%task, %lease, wall_ms, "task ended: {}", outcome.reason());
        self.worker.stats.ended(outcome.reason());
        let usage = Usage {
            wall_ms,
            cpu_ms: used.cpu_ms,
            peak_memory_bytes: used.peak_memory_bytes,
            source: used.source.into(),
        };
        let Collected { artifacts, skipped, .. } = collected;
        let report = Report {
            return_value,
            artifacts,
            skipped,
            stage,
            ..report(outcome, account, usage, self.worker.confinement.level())
        };
        self.hand_in(report, *leftover).await
    }

    /// Saves the report, then sends it until it is settled or the worker must leave.
    async fn hand_in(&mut self, report: Report, leftover: Leftover) -> Handed {
        let leftover = Arc::new(leftover);
        let (task, lease, first) = (self.grant.task, self.grant.lease, leftover.first);
        let head = Head { lease, task, saved_at_ms: clock::now_ms(), first, report: report.clone() };
        let (spool, batches) = (Arc::clone(&self.worker.spool), leftover.batches());
        let saved = tokio::task::spawn_blocking(move || spool.save(&head, batches)).await;
        if let Err(error) = saved.map_err(io::Error::from).flatten() {
            // The result is worth more than the rule: it is sent all the same, it only cannot outlive the worker.
            tracing::error!(%task, %lease, "cannot save the report to the spool: {error}; free some space");
        }
        let settled = self.deliver(Delivery::new(lease, report, first, leftover.batches())).await;
        match &settled {
            Some(settled) => self.worker.spool.settle(lease, settled),
            None => tracing::warn!(%task, %lease, "report not sent yet: it waits in the spool for the next start"),
        }
        self.worker.spool.let_go(lease);
        if settled == Some(Settled::Acknowledged) { Handed::Acknowledged } else { Handed::In }
    }

    async fn deliver<B>(&mut self, mut delivery: Delivery<B>) -> Option<Settled>
    where
        B: Iterator<Item = io::Result<Vec<EventBody>>>,
    {
        let mut backoff = Backoff::default();
        loop {
            match delivery.go(&self.worker.client).await {
                Ok(settled) => return Some(settled),
                Err(error) => tracing::debug!(lease = %delivery.lease, "report not taken: {error}"),
            }
            tokio::select! {
                () = sleep(backoff.next()) => {}
                () = must_leave(&mut self.give_up) => return None,
            }
        }
    }

    async fn clean_up(&self, site: Site) {
        let keep = self.worker.config.keep_attempts;
        if keep {
            tracing::info!(task = %self.grant.task, "attempt kept in {}", site.directory.path().display());
        }
        site.remove(keep).await;
    }
}

fn not_prepared(error: &anyhow::Error) -> Outcome {
    let detail = format!("{error:#}");
    match error.downcast_ref() {
        Some(NotBuilt::Walls(_)) => Outcome::ConfinementUnavailable { detail },
        Some(NotBuilt::Process(_)) | None => Outcome::SetupFailed { detail },
    }
}

/// Lays out the task and its code, and holds what will run to its limits.
fn move_in(worker: &Worker, grant: &LeaseGrant, spec: &Spec, mut ready: Ready) -> (Ready, anyhow::Result<Init>) {
    let plan = ready.site.move_in(spec, worker.network.hosts(spec)).and_then(|limits| {
        let directory = &ready.site.directory;
        let program = worker.tools.program(grant, spec, directory)?;
        let program = Program { binds: worker.network.binds(spec), ..program };
        Ok(Init::new(program, spec, directory.inside(), limits))
    });
    (ready, plan)
}

fn report(outcome: Outcome, account: Account, usage: Usage, level: Level) -> Report {
    let Account { written: written_bytes, dropped: dropped_bytes } = account;
    let confinement = Some(level.word().into());
    Report { written_bytes, dropped_bytes, usage: Some(usage), confinement, ..Report::new(outcome) }
}

/// Waits until the worker must leave. Safe to cancel.
pub(crate) async fn must_leave(give_up: &mut watch::Receiver<bool>) {
    if give_up.wait_for(|leave| *leave).await.is_err() {
        std::future::pending::<()>().await;
    }
}
