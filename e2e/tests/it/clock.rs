//! A wall clock that is stepped by an hour, either way, under the running coordinator.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::wait::pass;
use e2e::{Api, Coordinator, Pretender, Worker, bounded};
use protocol::{TaskId, TaskState, Timestamp};
use serde_json::json;

const HOUR_MS: i64 = 3_600_000;
/// Several passes of the reaper.
const PASSES: Duration = Duration::from_millis(1500);

/// The wall clock of a coordinator.
struct WallClock(PathBuf);

impl WallClock {
    /// A coordinator whose wall clock can be stepped.
    async fn of_coordinator() -> Result<(Coordinator, Self)> {
        let mut coordinator = Coordinator::prepare(&[])?.on_lasting_ports()?;
        let clock = Self(coordinator.home().join("wall-clock"));
        clock.step(0)?;
        coordinator.set("LD_PRELOAD", &e2e::preload::faketime()?.display().to_string());
        coordinator.set("FAKETIME_TIMESTAMP_FILE", &clock.0.display().to_string());
        coordinator.set("FAKETIME_NO_CACHE", "1");
        coordinator.set("DONT_FAKE_MONOTONIC", "1");
        Ok((coordinator.up().await?, clock))
    }

    /// Sets it that many seconds off.
    fn step(&self, seconds: i32) -> Result<()> {
        let partial = self.0.with_extension("partial");
        std::fs::write(&partial, format!("{seconds:+}\n"))?;
        Ok(std::fs::rename(&partial, &self.0)?)
    }
}

/// What the coordinator's wall clock says: the time at which it makes a key.
async fn wall(api: &Api) -> Result<Timestamp> {
    Ok(api.worker_key(&["clock"]).await?.view.created_at)
}

/// Steps the clock and makes sure that the coordinator sees it.
async fn step(api: &Api, clock: &WallClock, seconds: i32) -> Result<()> {
    let before = wall(api).await?;
    clock.step(seconds)?;
    let moved = wall(api).await?.ms_since(before).abs();
    ensure!(moved > HOUR_MS * 9 / 10, "the clock was not stepped: {moved} ms");
    Ok(())
}

async fn starts(api: &Api, id: TaskId) -> Result<usize> {
    Ok(api.events(id).await?.iter().filter(|event| event.data["state"] == "running").count())
}

#[tokio::test]
async fn a_clock_stepped_by_an_hour_either_way_lapses_nothing() -> Result<()> {
    bounded(async {
        let (coordinator, clock) = WallClock::of_coordinator().await?;
        let api = coordinator.api()?;
        let _worker = Worker::start(&coordinator, "real").await?;
        let gate = coordinator.gate();
        let code = format!("echo begun; {}; echo finished", gate.wait());
        let running = api.submit_shell("real", &code).await?.row.id;
        api.wrote(running, "begun").await?;
        let leased = api.submit_shell("by-hand", "true").await?.row.id;
        let pretender = Pretender::new(&coordinator, "by-hand", 1).await?;
        let lease = pretender.lease().await?.lease;

        for seconds in [3600, 0, -3600, 0] {
            step(&api, &clock, seconds).await?;
            pass(PASSES).await;
            assert_eq!(pretender.renew(lease, 0).await?.status, 200, "the lease lives at {seconds:+}");
            for id in [running, leased] {
                let row = api.task(id).await?.row;
                assert_eq!((row.state, row.attempt), (TaskState::Running, 1), "at {seconds:+}");
            }
        }
        gate.open()?;
        assert_eq!(pretender.report(lease).await?.status, 200);
        for id in [running, leased] {
            assert_eq!(api.done(id).await?.row.state, TaskState::Completed);
            assert_eq!(starts(&api, id).await?, 1);
            let row = api.task(id).await?.row;
            let took = row.finished_at.zip(row.started_at).map(|(end, start)| end.ms_since(start));
            ensure!(took.is_some_and(|ms| (0..120_000).contains(&ms)), "it took {took:?} ms by its own times");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn not_before_follows_the_wall_clock() -> Result<()> {
    bounded(async {
        let (coordinator, clock) = WallClock::of_coordinator().await?;
        let api = coordinator.api()?;
        let at = wall(&api).await?.plus_ms(HOUR_MS / 2);
        let spec = json!({"repo": "r", "not_before": at, "run": {"kind": "shell", "code": "true"}});
        let id = api.submit(spec).await?.row.id;
        let worker = Pretender::new(&coordinator, "r", 1).await?;
        assert_eq!(worker.ask(1).await?.status, 204);
        step(&api, &clock, -3600).await?;
        assert_eq!(worker.ask(1).await?.status, 204);
        step(&api, &clock, 3600).await?;
        assert_eq!(worker.lease().await?.task, id);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_restart_with_the_clock_an_hour_behind_keeps_order_and_leases() -> Result<()> {
    bounded(async {
        let (mut coordinator, clock) = WallClock::of_coordinator().await?;
        let api = coordinator.api()?;
        let submit = async || anyhow::Ok(api.submit_shell("r", "true").await?.row);
        let held = submit().await?;
        let worker = Pretender::new(&coordinator, "r", 1).await?;
        let lease = worker.lease().await?.lease;
        assert_eq!(worker.renew(lease, 0).await?.status, 200);
        let (first, second) = (submit().await?, submit().await?);
        coordinator.kill().await?;
        clock.step(-3600)?;
        coordinator.restart().await?;
        let third = submit().await?;
        ensure!(third.created_at >= second.created_at, "{} after {}", third.created_at, second.created_at);
        let newest_first = [third.id, second.id, first.id, held.id];
        assert_eq!(api.all_tasks("r").await?, newest_first);
        for expected in [first.id, second.id, third.id] {
            assert_eq!(worker.lease().await?.task, expected);
        }
        pass(PASSES).await;
        assert_eq!(worker.report(lease).await?.status, 200, "a live lease outlives the restart");
        assert_eq!(api.task(held.id).await?.row.attempt, 1);
        Ok(())
    })
    .await
}

/// The clock was an hour ahead and is set right by a restart: what was stored lies in the future.
#[tokio::test]
async fn a_restart_with_the_clock_set_back_lets_leases_lapse_in_their_time() -> Result<()> {
    bounded(async {
        let (mut coordinator, clock) = WallClock::of_coordinator().await?;
        coordinator.kill().await?;
        coordinator.set("CW_FIRST_LEASE_TTL", "2s");
        clock.step(3600)?;
        coordinator.restart().await?;
        let api = coordinator.api()?;
        let id = api.submit_shell("r", "true").await?.row.id;
        let worker = Pretender::new(&coordinator, "r", 1).await?;
        worker.lease().await?;
        coordinator.kill().await?;
        clock.step(0)?;
        coordinator.restart().await?;
        api.in_state(id, TaskState::Queued).await?;
        assert_eq!(worker.lease().await?.attempt, 2);
        Ok(())
    })
    .await
}
