//! `requires`: a task runs only behind walls that were proved.

use anyhow::{Context as _, Result};
use e2e::worker::Setup;
use e2e::{Worker, bounded};
use protocol::TaskState;
use protocol::admin::WorkerView;
use protocol::task::Page;
use serde_json::json;

use super::{Ended, Place};

async fn view(place: &Place, worker: &Worker) -> Result<WorkerView> {
    let id = worker.id().await?;
    let page: Page<WorkerView> = place.api.get("/v1/workers").await?.value()?;
    page.items.into_iter().find(|view| view.id == id).context("the coordinator knows it")
}

#[tokio::test]
async fn a_task_that_requires_a_cgroup_waits_until_a_worker_proved_one_and_why_says_so() -> Result<()> {
    bounded(async {
        let place = Place::with(&[("CW_CGROUP", "off")]).await?;
        let unproved = view(&place, &place.worker).await?;
        assert!(!unproved.confinement.contains(&"cgroup".into()), "{unproved:?}");
        let args = ["send", "r", "--requires", "cgroup", "--shell", "echo inside"];
        let sent = place.coordinator.cw(&args).await?.with_code(0)?;
        let id: protocol::TaskId = sent.out.trim().parse()?;
        assert!(sent.err.contains("confinement:cgroup"), "it is said at once: {sent:?}");
        // The worker that did not prove it runs what came later.
        assert_eq!(place.code("shell", "echo beside").await?.out()?, "beside\n");
        let why = place.coordinator.cw(&["why", &id.to_string()]).await?.with_code(0)?;
        assert!(why.out.contains("what is missing is confinement:cgroup"), "{why:?}");
        assert_eq!(place.api.task(id).await?.row.state, TaskState::Queued);

        let second = place.another_worker().await?;
        if view(&place, &second).await?.confinement.contains(&"cgroup".into()) {
            let ended = Ended::of(place.api.done(id).await?)?.well()?;
            assert_eq!((second.starts(id), place.worker.starts(id)), (1, 0));
            assert_eq!(ended.result.usage.context("it was measured")?.source, "cgroup");
        } else {
            // A machine on which no cgroup can be made: two workers that did not prove it are no better than one.
            assert_eq!(place.code("shell", "echo beside").await?.out()?, "beside\n");
            assert_eq!(place.api.task(id).await?.row.state, TaskState::Queued);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_task_that_requires_what_was_proved_runs_and_an_unknown_wall_keeps_it_waiting() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let run = json!({"kind": "shell", "code": "echo inside"});
        let ended = place.run(json!({"run": run, "requires": ["bwrap", "seccomp", "network", "files"]})).await?;
        assert_eq!(ended.out()?, "inside\n");
        let id = place.send(json!({"run": run, "requires": ["seccomp", "moat"]})).await?;
        assert_eq!(place.code("shell", "echo beside").await?.out()?, "beside\n");
        let why = place.coordinator.cw(&["why", &id.to_string()]).await?.with_code(0)?;
        assert!(why.out.contains("what is missing is confinement:moat"), "{why:?}");
        place.coordinator.cw(&["cancel", &id.to_string()]).await?.with_code(0)?;
        assert_eq!((place.api.done(id).await?.row.state, place.worker.starts(id)), (TaskState::Cancelled, 0));
        Ok(())
    })
    .await
}

/// A worker of an earlier build offers no walls at all; it must never be given what asks for one.
#[tokio::test]
async fn a_worker_that_names_no_walls_gets_only_tasks_that_ask_for_none() -> Result<()> {
    bounded(async {
        let coordinator = e2e::Coordinator::start().await?;
        let api = coordinator.api()?;
        let pretender = e2e::Pretender::new(&coordinator, "r", 1).await?;
        let run = json!({"kind": "shell", "code": "true"});
        let walled = api.submit(json!({"repo": "r", "run": run, "requires": ["bwrap"]})).await?.row.id;
        let closed = api.submit(json!({"repo": "r", "run": run, "network": "none"})).await?.row.id;
        let plain = api.submit(json!({"repo": "r", "run": run})).await?.row.id;
        assert_eq!(pretender.lease().await?.task, plain);
        assert_eq!(pretender.ask(0).await?.status, 204);
        let _worker = Worker::start_as(&coordinator, Setup { name: "first", repo: "r", variables: &[] }).await?;
        for id in [walled, closed] {
            assert_eq!(api.done(id).await?.row.state, TaskState::Completed);
        }
        Ok(())
    })
    .await
}
