//! Floods, broken machines, and many at once.

use anyhow::Result;
use e2e::worker::Setup;
use e2e::{Coordinator, Worker, bounded, eventually};
use protocol::{Reason, TaskState};
use serde_json::json;

use super::{Ended, Place};

#[tokio::test]
async fn output_beyond_ten_mebibytes_keeps_its_head_and_tail_and_counts_the_rest() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let code = "echo the first line; yes 0123456789abcde | head -c 32000000; echo the last line";
        let ended = place.code("shell", code).await?.well()?;
        let written = 32_000_000 + "the first line\nthe last line\n".len() as u64;
        assert_eq!(ended.result.written_bytes.stdout, written);
        let shown = &ended.result.stdout;
        assert!(shown.starts_with("the first line\n") && shown.ends_with("the last line\n"), "both ends are shown");
        assert!(shown.len() <= (1 << 20) + 200, "a result shows a mebibyte: {}", shown.len());
        let kept = place.api.get(&format!("/v1/tasks/{}/output?stream=stdout", ended.task.row.id)).await?.body;
        assert!(kept.starts_with(b"the first line\n") && kept.ends_with(b"the last line\n"), "both ends are kept");
        assert!((9 << 20..=(10 << 20) + 200).contains(&kept.len()), "{}", kept.len());
        assert!(ended.result.dropped_bytes.stdout >= written - (1 << 20) - 200, "{:?}", ended.result.dropped_bytes);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn gigabytes_of_output_end_the_task_and_the_next_one_runs() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let run = json!({"kind": "shell", "code": "cat /dev/zero"});
        let ended = place.run(json!({"run": run, "timeout_s": 200})).await?;
        assert_eq!(ended.ending(), (TaskState::Failed, Some(Reason::OutputLimit)));
        assert_eq!(place.code("shell", "echo next").await?.out()?, "next\n");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn ten_tasks_on_one_slot_run_in_order_and_never_two_at_once() -> Result<()> {
    bounded(async {
        let place = Place::with(&[("CW_SLOTS", "1")]).await?;
        let mut ids = Vec::new();
        for number in 0..10 {
            let code = format!("def handler(event): return {number}");
            ids.push(place.send(json!({"run": {"kind": "python", "code": code}, "event": {}})).await?);
        }
        let mut ended_at = None;
        for (number, id) in ids.into_iter().enumerate() {
            let ended = Ended::of(place.api.done(id).await?)?.well()?;
            assert_eq!(ended.result.return_value, Some(json!(number)));
            assert!(ended.task.row.started_at >= ended_at, "{number} began before the one ahead of it was done");
            ended_at = ended.task.row.finished_at;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_short_task_is_done_while_others_burn_every_core() -> Result<()> {
    bounded(async {
        let place = Place::with(&[("CW_SLOTS", "3")]).await?;
        let burn = json!({"kind": "shell", "code": "while :; do :; done & while :; do :; done"});
        let mut burning = Vec::new();
        for _ in 0..2 {
            let id = place.send(json!({"run": burn, "timeout_s": 600})).await?;
            eventually("it burns", async || Ok((place.worker.starts(id) == 1).then_some(()))).await?;
            burning.push(id);
        }
        for _ in 0..5 {
            assert_eq!(place.code("shell", "echo hello").await?.out()?, "hello\n");
        }
        for id in burning {
            assert_eq!(place.api.task(id).await?.row.state, TaskState::Running, "hello did not wait for it");
            place.coordinator.cw(&["cancel", &id.to_string()]).await?.with_code(0)?;
            assert_eq!(place.api.done(id).await?.row.state, TaskState::Cancelled);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_worker_that_cannot_keep_its_state_ends_at_once_and_names_the_directory() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let file = coordinator.home().join("file");
        std::fs::write(&file, "")?;
        let state = file.join("state").display().to_string();
        let setup = Setup { name: "first", repo: "r", variables: &[("CW_STATE_DIR", &state)] };
        let mut worker = Worker::launch(&coordinator, setup).await?;
        assert_eq!(worker.program().ended().await?.code(), Some(2));
        assert!(worker.log().contains(&state) && worker.log().contains("--state-dir"), "{}", worker.log());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_worker_without_bubblewrap_takes_no_task_and_names_the_package() -> Result<()> {
    bounded(async {
        let hide = "for at in /usr/bin/bwrap /bin/bwrap; do mount --bind /dev/null $at || true; done";
        let mounts = e2e::Mounts::make(hide).await?;
        let coordinator = Coordinator::start().await?;
        let key = coordinator.home().join("key");
        std::fs::write(&key, coordinator.api()?.worker_key(&["r"]).await?.key)?;
        let launcher = mounts.launcher();
        let mut command = coordinator.as_user(std::path::Path::new(&launcher[0]));
        command.args(&launcher[1..]).arg(e2e::binaries::binary("cw-worker")?).arg("run");
        command.env("CW_COORDINATOR", coordinator.worker_url()).env("CW_REPO", "r").env("CW_KEY_FILE", &key);
        command.env("CW_STATE_DIR", coordinator.home().join("worker"));
        let id = coordinator.api()?.submit_shell("r", "true").await?.row.id;
        let ran = e2e::cw::finish(command, "").await?.with_code(2)?;
        assert!(
            ran.err.contains("bubblewrap is not installed") && ran.err.contains("apt-get install bubblewrap"),
            "{ran:?}"
        );
        let why = coordinator.cw(&["why", &id.to_string()]).await?.with_code(0)?;
        assert!(why.out.contains("no worker serves the repo r"), "{why:?}");
        Ok(())
    })
    .await
}
