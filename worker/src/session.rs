//! The worker's life: resend the spool, ask for a lease whenever a slot is free, run attempts side by side, drain, leave.

use std::sync::Arc;
use std::time::Duration;

use protocol::{LeaseGrant, LeaseRequest, WorkerInfo, WorkerState};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::attempt::{self, Ended};
use crate::link::Contact;
use crate::random::Backoff;
use crate::spool::resend;
use crate::{Exit, Stage, Worker};

const WAIT_S: u32 = 30;
/// How long attempts may take to die once the worker gives up on them.
const DYING: Duration = Duration::from_secs(25);
/// How long to try to tell the coordinator something that it can do without.
const TELL: Duration = Duration::from_secs(2);

/// Between two looks for room on the disk.
const ROOM: Duration = Duration::from_millis(500);

/// Why no more leases are asked for.
enum Stop {
    Signal,
    OnceDone,
    Idle(Duration),
    KeyRefused,
    Unreachable,
}

/// Runs the worker until a signal, `--once` or `--idle-exit` ends it.
pub(crate) async fn run(worker: Arc<Worker>, mut stages: watch::Receiver<Stage>) -> Exit {
    // What was left over goes first: its lease may still be alive.
    let is_done = resend::one_pass(&worker.spool, &worker.client).await.is_ok();
    let resending = tokio::spawn(resend::run(Arc::clone(&worker.spool), Arc::clone(&worker.client), is_done));
    let preparing = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move { worker.prepare().await }
    });
    let (give_up, giving_up) = watch::channel(false);
    let mut session = Session { worker, attempts: JoinSet::new(), giving_up, idle_since: Instant::now() };
    let stop = session.take_leases(&mut stages).await;
    session.drain(&stop, &mut stages, &give_up).await;
    resending.abort();
    session.worker.shelf.close().await;
    let _ = preparing.await;
    session.leave().await;
    if *stages.borrow() == Stage::Leave { Exit::Left } else { stop.exit() }
}

struct Session {
    worker: Arc<Worker>,
    attempts: JoinSet<(Ended, OwnedSemaphorePermit)>,
    giving_up: watch::Receiver<bool>,
    idle_since: Instant,
}

impl Session {
    async fn take_leases(&mut self, stages: &mut watch::Receiver<Stage>) -> Stop {
        let slots = Arc::new(Semaphore::new(self.worker.config.slots as usize));
        loop {
            let asking = ask(Arc::clone(&self.worker), Arc::clone(&slots));
            tokio::pin!(asking);
            let (grant, slot) = loop {
                let (idle_at, is_idle) = (self.idle_at(), self.attempts.is_empty());
                tokio::select! {
                    biased;
                    changed = stages.wait_for(|stage| *stage != Stage::Run) => {
                        drop(changed);
                        return Stop::Signal;
                    }
                    Some(ended) = self.attempts.join_next(), if !is_idle => {
                        if self.ended(ended.ok()) {
                            return Stop::OnceDone;
                        }
                    }
                    granted = &mut asking => break match granted {
                        Ok(granted) => granted,
                        Err(stop) => return stop,
                    },
                    () = sleep_until(idle_at), if is_idle => return self.idle(),
                }
            };
            self.begin(grant, slot);
        }
    }

    fn begin(&mut self, grant: LeaseGrant, slot: OwnedSemaphorePermit) {
        let attempt = attempt::run(Arc::clone(&self.worker), grant, self.giving_up.clone());
        // The slot comes back through the session: with `--once` it must not be taken again before that.
        self.attempts.spawn(async { (attempt.await, slot) });
        self.worker.stats.busy(self.attempts.len());
    }

    /// Takes note of an attempt's end; says whether it was the one of `--once`.
    fn ended(&mut self, ended: Option<(Ended, OwnedSemaphorePermit)>) -> bool {
        self.worker.stats.busy(self.attempts.len());
        self.idle_since = Instant::now();
        self.worker.config.once && ended.is_some_and(|(ended, _)| ended == Ended::Done)
    }

    fn idle_at(&self) -> Instant {
        self.idle_since + self.worker.config.idle_exit.unwrap_or(Duration::from_secs(u32::MAX.into()))
    }

    fn idle(&self) -> Stop {
        let is_away = matches!(self.worker.client.link.contact(), Contact::Away | Contact::Unknown);
        if is_away && self.worker.config.once {
            return Stop::Unreachable;
        }
        Stop::Idle(self.worker.config.idle_exit.unwrap_or_default())
    }

    /// Lets attempts finish within the grace, then gives them up; a second signal gives them up now.
    async fn drain(&mut self, stop: &Stop, stages: &mut watch::Receiver<Stage>, give_up: &watch::Sender<bool>) {
        if *stages.borrow() == Stage::Leave {
            return;
        }
        self.worker.stats.draining();
        if !self.attempts.is_empty() {
            tracing::info!("draining: {} running, at most {:?}", self.attempts.len(), self.worker.config.grace);
            tell(&self.worker, WorkerState::Draining, stop.why()).await;
        }
        let hurried = stages.wait_for(|stage| *stage > Stage::Drain);
        tokio::select! {
            () = all(&mut self.attempts) => {}
            () = sleep(self.worker.config.grace) => {}
            hurried = hurried => drop(hurried),
        }
        give_up.send_replace(true);
        let left = stages.wait_for(|stage| *stage == Stage::Leave);
        tokio::select! {
            _ = timeout(DYING, all(&mut self.attempts)) => {}
            left = left => return drop(left),
        }
        tell(&self.worker, WorkerState::Gone, stop.why()).await;
        tracing::info!("left: {}", stop.why());
    }

    /// Ends whatever still runs. The attempts go first, so that none of them reports what is done to it here.
    async fn leave(&mut self) {
        self.attempts.shutdown().await;
        let family = Arc::clone(&self.worker.family);
        if !tokio::task::spawn_blocking(move || family.end_all()).await.unwrap_or(false) {
            tracing::error!("some processes of tasks could not be ended: look for them with ps");
        }
    }
}

async fn all<T: 'static>(attempts: &mut JoinSet<T>) {
    while attempts.join_next().await.is_some() {}
}

/// Waits for a slot, then for room on the disk, then for a lease.
async fn ask(worker: Arc<Worker>, slots: Arc<Semaphore>) -> Result<(LeaseGrant, OwnedSemaphorePermit), Stop> {
    let mut backoff = Backoff::default();
    // cannot fail: the semaphore is never closed
    let slot = slots.acquire_owned().await.map_err(|_| Stop::Signal)?;
    let mut request = LeaseRequest { worker: worker.info.clone(), repos: worker.config.repos.clone(), wait_s: WAIT_S };
    loop {
        wait_for_room(&worker).await;
        let asked_at = Instant::now();
        // Until it is known to be well, it is asked for a quick answer.
        request.wait_s = if worker.client.link.contact() == Contact::Well { WAIT_S } else { 0 };
        match worker.client.lease(&request).await {
            Ok(Some(grant)) if worker.state.lacks_bytes().is_some() => {
                // It filled while the coordinator was asked.
                let _ = worker.client.release(grant.lease, "the worker's disk is full".into()).await;
            }
            Ok(Some(grant)) => return Ok((grant, slot)),
            // Answered before its time, as by a coordinator that stops: not again at once.
            Ok(None) if request.wait_s > 0 && asked_at.elapsed() < Duration::from_secs(1) => {
                sleep(backoff.next()).await
            }
            Ok(None) => backoff.reset(),
            Err(error) if worker.config.once && matches!(error.status(), Some(401 | 403)) => {
                return Err(Stop::KeyRefused);
            }
            Err(error) => {
                tracing::debug!("no lease: {error}");
                sleep(backoff.next()).await;
            }
        }
    }
}

/// Waits until the disk has the room that stays free; says so once.
async fn wait_for_room(worker: &Worker) {
    let Some(lacking) = worker.state.lacks_bytes() else { return };
    let path = worker.config.walls.state_dir.display();
    tracing::warn!(
        "no task is taken: {} MiB more must be free on the disk of {path}; free some space, or give another --state-dir",
        lacking.div_ceil(1 << 20)
    );
    while worker.state.lacks_bytes().is_some() {
        sleep(ROOM).await;
    }
    tracing::info!("the disk has room again");
}

/// Tells the coordinator how the worker is, once; it also finds out by itself.
async fn tell(worker: &Worker, state: WorkerState, why: String) {
    let info = WorkerInfo { state, why: Some(why), ..worker.info.clone() };
    let request = LeaseRequest { worker: info, repos: worker.config.repos.clone(), wait_s: 0 };
    if worker.client.link.contact() != Contact::Away {
        let _ = timeout(TELL, worker.client.lease(&request)).await;
    }
}

impl Stop {
    fn why(&self) -> String {
        match self {
            Self::Signal => "stopped by a signal".into(),
            Self::OnceDone => "its one task is done (--once)".into(),
            Self::Idle(time) => format!("no task for {time:?} (--idle-exit)"),
            Self::KeyRefused => "the coordinator refused the key".into(),
            Self::Unreachable => "the coordinator was not reached (--idle-exit)".into(),
        }
    }

    const fn exit(&self) -> Exit {
        match self {
            Self::Signal | Self::OnceDone | Self::Idle(_) => Exit::Done,
            Self::KeyRefused => Exit::KeyRefused,
            Self::Unreachable => Exit::Unreachable,
        }
    }
}
