//! The load under which things are killed: submitters that retry until they are sure, and pretended workers that do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use e2e::{Answer, Api, Pretender, eventually_within};
use protocol::{LeaseGrant, TaskId, TaskView};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::WAIT;

/// What a task says that finds another attempt of it running.
pub(crate) const OVERLAP: &str = "another attempt runs";

/// A task that was acknowledged and seen done.
pub(crate) struct DoneTask {
    pub(crate) id: TaskId,
    pub(crate) repo: &'static str,
    /// What its result must hold.
    pub(crate) wrote: String,
}

/// Clients and pretended workers, until told to finish.
pub(crate) struct Load {
    /// A directory that tasks can read.
    locks: PathBuf,
    /// Told to the clients first, to the pretended workers once nobody needs them.
    is_enough: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    submitters: JoinSet<Result<Vec<DoneTask>>>,
    pretenders: JoinSet<Result<()>>,
}

impl Load {
    pub(crate) fn new(shared: PathBuf) -> Self {
        let (submitters, pretenders) = (JoinSet::new(), JoinSet::new());
        Self { locks: shared, is_enough: Arc::default(), is_over: Arc::default(), submitters, pretenders }
    }

    /// A client that submits one task after the other and waits for each to be done.
    pub(crate) fn submit(&mut self, api: Api, repo: &'static str, number: u32) {
        let (is_enough, locks) = (Arc::clone(&self.is_enough), self.locks.clone());
        self.submitters.spawn_local(async move {
            let mut done = Vec::new();
            while !is_enough.load(Ordering::Relaxed) {
                let name = format!("{repo}-{number}-{}", done.len());
                let id = submit(&api, repo, &name, &locks).await?;
                see_done(&api, id).await?;
                done.push(DoneTask { id, repo, wrote: format!("{name}\n") });
            }
            Ok(done)
        });
    }

    /// A worker that serves at full speed and says each thing until it is answered.
    pub(crate) fn pretend(&mut self, worker: Pretender) {
        let is_over = Arc::clone(&self.is_over);
        self.pretenders.spawn_local(async move {
            while !is_over.load(Ordering::Relaxed) {
                // An answer that is lost here may have held a lease; it lapses, and another one is granted.
                let Ok(answer) = worker.ask(1).await else { continue };
                if answer.status == 200 {
                    serve(&worker, answer.value()?).await?;
                }
            }
            Ok(())
        });
    }

    /// Lets every client see its last task done; gives all of them.
    pub(crate) async fn finish(&mut self) -> Result<Vec<DoneTask>> {
        let mut done = Vec::new();
        self.is_enough.store(true, Ordering::Relaxed);
        while let Some(submitted) = self.submitters.join_next().await {
            done.extend(submitted.context("a submitter panicked")??);
        }
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(pretended) = self.pretenders.join_next().await {
            pretended.context("a pretended worker panicked")??;
        }
        Ok(done)
    }
}

async fn submit(api: &Api, repo: &str, name: &str, locks: &Path) -> Result<TaskId> {
    let spec = json!({"repo": repo, "max_attempts": 10, "run": {"kind": "shell", "code": code(name, locks)?}});
    let answer = api.insist(async |api| api.submit_once(&spec, name).await).await?;
    ensure!(answer.status == 201, "{name}: {}", answer.text());
    Ok(answer.value::<TaskView>()?.row.id)
}

/// Says when it is not alone. The lock ends with the process.
fn code(name: &str, locks: &Path) -> Result<String> {
    let lock = locks.join(name);
    std::fs::write(&lock, "")?;
    Ok(format!("exec 9<{}; flock -n 9 || echo {OVERLAP}; sleep 0.05; echo {name}", lock.display()))
}

async fn see_done(api: &Api, id: TaskId) -> Result<()> {
    let wait = 6 * WAIT;
    eventually_within(wait, &format!("{id} is done"), async || {
        // No answer, or one that the coordinator gave while it was told to stop, is no news.
        let Ok(answer) = api.get(&format!("/v1/tasks/{id}?wait_s={}", WAIT.as_secs())).await else { return Ok(None) };
        ensure!(answer.status == 200, "{id} was acknowledged: {}", answer.text());
        Ok(answer.value::<TaskView>()?.row.state.is_done().then_some(()))
    })
    .await
}

/// Renews, writes and reports, each until it is answered; a lease that was lost is left.
async fn serve(worker: &Pretender, grant: LeaseGrant) -> Result<()> {
    let spec: Value = serde_json::from_str(grant.spec.get())?;
    let code = spec["run"]["code"].as_str().unwrap_or_default();
    let name = code.rsplit(' ').next().unwrap_or_default();
    let lease = grant.lease;
    let renewed = worker.api.insist(async |_| worker.renew(lease, 0).await).await?;
    if is_lost(&renewed)? {
        return Ok(());
    }
    let written = worker.api.insist(async |_| worker.write(lease, 1, &format!("{name}\n")).await).await?;
    if is_lost(&written)? {
        return Ok(());
    }
    is_lost(&worker.api.insist(async |_| worker.report(lease).await).await?)?;
    Ok(())
}

fn is_lost(answer: &Answer) -> Result<bool> {
    let is_lost = answer.code() == Some(protocol::Code::LeaseLost);
    ensure!(answer.status == 200 || is_lost, "refused: {} {}", answer.status, answer.text());
    Ok(is_lost)
}
