//! Disks that are full, fail or are read-only; state directories that somebody else holds.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{Api, Coordinator, Mounts, Pretender, Worker, bounded};
use protocol::{Code, TaskId, TaskState, TaskView};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

fn spec(code: &str) -> Value {
    json!({"repo": "r", "run": {"kind": "shell", "code": code}})
}

/// SQLite's own look at every page and index, of what a coordinator that was killed left on the disk.
fn is_sound(state_dir: &Path) -> Result<()> {
    let copy = tempfile::tempdir()?;
    for name in ["queue.db", "queue.db-wal"] {
        std::fs::copy(state_dir.join(name), copy.path().join(name)).with_context(|| format!("copying {name}"))?;
    }
    let db = Connection::open_with_flags(copy.path().join("queue.db"), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    ensure!(verdict == "ok", "the database is damaged: {verdict}");
    Ok(())
}

/// Leases and reports every task in the queue; gives how many there were.
async fn work_off(coordinator: &Coordinator) -> Result<usize> {
    let worker = Pretender::new(coordinator, "r", 1).await?;
    let mut count = 0;
    loop {
        let answer = worker.ask(0).await?;
        if answer.status == 204 {
            return Ok(count);
        }
        let lease = answer.value::<protocol::LeaseGrant>()?.lease;
        ensure!(worker.report(lease).await?.status == 200, "the report is refused");
        count += 1;
    }
}

/// Submits until the disk is full; gives what was acknowledged.
async fn submit_until_full(api: &Api) -> Result<Vec<TaskId>> {
    submit_until_refused(api, &spec(&format!("# {}", "x".repeat(60_000)))).await
}

async fn submit_until_refused(api: &Api, spec: &Value) -> Result<Vec<TaskId>> {
    let mut acknowledged = Vec::new();
    for _ in 0..5000 {
        let answer = api.post("/v1/tasks", spec.clone()).await?;
        match answer.status {
            201 => acknowledged.push(answer.value::<TaskView>()?.row.id),
            507 => {
                assert_eq!(answer.code(), Some(Code::DiskFull), "{}", answer.text());
                ensure!(answer.text().contains("free some space"), "no advice: {}", answer.text());
                return Ok(acknowledged);
            }
            status => bail!("{status}: {}", answer.text()),
        }
    }
    bail!("the disk is never full")
}

#[tokio::test]
async fn a_full_disk_is_said_so_corrupts_nothing_and_is_survived() -> Result<()> {
    bounded(async {
        let mounts = Mounts::small_disk(8).await?;
        let mut coordinator = Coordinator::prepare(&[])?.among(&mounts).on_lasting_ports()?.up().await?;
        let api = coordinator.api()?;
        let acknowledged = submit_until_full(&api).await?;
        ensure!(acknowledged.len() > 5, "only {} fitted", acknowledged.len());
        // Readers do not need room.
        assert_eq!(api.all_tasks("r").await?.len(), acknowledged.len());
        assert_eq!(api.task(acknowledged[0]).await?.row.state, TaskState::Queued);
        assert_eq!(api.get("/livez").await?.status, 200);
        // It is full for everyone, again and again, and stays well.
        for _ in 0..3 {
            assert_eq!(api.post("/v1/tasks", spec(&"y".repeat(60_000))).await?.code(), Some(Code::DiskFull));
        }
        mounts.free().await?;
        let after = api.submit(spec("echo after")).await?.row.id;
        coordinator.kill().await?;
        is_sound(coordinator.state_dir())?;
        coordinator.restart().await?;
        assert_eq!(work_off(&coordinator).await?, acknowledged.len() + 1, "what was refused is not there");
        for id in acknowledged.into_iter().chain([after]) {
            assert_eq!(api.task(id).await?.row.state, TaskState::Completed);
        }
        Ok(())
    })
    .await
}

/// The worker keeps what it has to say until there is room for it.
#[tokio::test]
async fn a_result_that_finds_the_disk_full_arrives_once_there_is_room() -> Result<()> {
    bounded(async {
        let mounts = Mounts::small_disk(8).await?;
        let coordinator = Coordinator::prepare(&[])?.among(&mounts).up().await?;
        let api = coordinator.api()?;
        let worker = Worker::start(&coordinator, "real").await?;
        let gate = coordinator.gate();
        let code = format!("echo begun; {}; echo finished $CW_ATTEMPT", gate.wait());
        let id = api.submit_shell("real", &code).await?.row.id;
        api.wrote(id, "begun").await?;
        submit_until_full(&api).await?;
        // Not even a page is left.
        mounts.fill().await?;
        submit_until_refused(&api, &spec("true")).await?;
        gate.open()?;
        worker.says("fails (507)").await?;
        mounts.free().await?;
        let task = api.done(id).await?;
        assert_eq!((task.row.state, task.row.attempt), (TaskState::Completed, 1));
        assert_eq!(task.result.map(|result| result.stdout).as_deref(), Some("begun\nfinished 1\n"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_coordinator_killed_on_a_full_disk_starts_again_once_there_is_room() -> Result<()> {
    bounded(async {
        let mounts = Mounts::small_disk(8).await?;
        let mut coordinator = Coordinator::prepare(&[])?.among(&mounts).on_lasting_ports()?.up().await?;
        let acknowledged = submit_until_full(&coordinator.api()?).await?;
        coordinator.kill().await?;
        is_sound(coordinator.state_dir())?;
        mounts.free().await?;
        coordinator.restart().await?;
        assert_eq!(work_off(&coordinator).await?, acknowledged.len());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_failed_fsync_ends_the_coordinator_and_a_restart_has_all_that_was_acknowledged() -> Result<()> {
    bounded(async {
        let mut coordinator = Coordinator::prepare(&[])?.on_lasting_ports()?;
        let library = e2e::preload::failing_sync(coordinator.home()).await?;
        let broken = coordinator.home().join("broken");
        coordinator.set("LD_PRELOAD", &library.display().to_string());
        coordinator.set("FAIL_SYNC_WHILE", &broken.display().to_string());
        let mut coordinator = coordinator.up().await?;
        let api = coordinator.api()?;
        let mut acknowledged = Vec::new();
        for number in 0..5 {
            acknowledged.push(api.submit(spec(&format!("echo {number}"))).await?.row.id);
        }
        std::fs::write(&broken, "")?;
        let refused = api.submit(spec("echo not acknowledged")).await;
        ensure!(refused.is_err(), "it was acknowledged on a disk that keeps nothing: {refused:?}");
        let status = coordinator.program()?.ended().await?;
        ensure!(!status.success(), "it left as if all were well");
        let log = coordinator.log();
        ensure!(log.contains("fsync failed") && log.contains("check the disk"), "no clear message: {log}");

        std::fs::remove_file(&broken)?;
        is_sound(coordinator.state_dir())?;
        coordinator.restart().await?;
        let done = work_off(&coordinator).await?;
        ensure!((5..=6).contains(&done), "{done} tasks of 5 that were acknowledged and 1 that was not");
        for id in acknowledged {
            assert_eq!(api.task(id).await?.row.state, TaskState::Completed);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_read_only_state_directory_is_refused_by_name_and_works_once_it_is_writable() -> Result<()> {
    bounded(async {
        let mounts = Mounts::small_disk(32).await?;
        let mut coordinator = Coordinator::prepare(&[])?.among(&mounts);
        let name = mounts.directory().display().to_string();
        mounts.run("mount -o remount,bind,ro \"$1\"").await?;
        let said = coordinator.refuses_to_start().await?;
        ensure!(said.contains(&name) && said.contains("cannot be written"), "fresh directory: {said}");

        mounts.run("mount -o remount,bind,rw \"$1\"").await?;
        coordinator.restart().await?;
        let id = coordinator.api()?.submit(spec("true")).await?.row.id;
        coordinator.kill().await?;
        mounts.run("mount -o remount,bind,ro \"$1\"").await?;
        let said = coordinator.refuses_to_start().await?;
        ensure!(said.contains(&name) && said.contains("CW_STATE_DIR"), "directory with a queue: {said}");

        is_sound(coordinator.state_dir())?;
        mounts.run("mount -o remount,bind,rw \"$1\"").await?;
        coordinator.restart().await?;
        assert_eq!(coordinator.api()?.task(id).await?.row.state, TaskState::Queued);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_second_coordinator_on_the_same_directory_is_refused_and_told_who_holds_it() -> Result<()> {
    bounded(async {
        let mut coordinator = Coordinator::start().await?;
        let id = coordinator.api()?.submit(spec("true")).await?.row.id;
        let mut second = coordinator.command()?;
        second.env("CW_LISTEN", "127.0.0.1:0").env("CW_WORKER_LISTEN", "none");
        let second = second.output().await?;
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert_eq!(second.status.code(), Some(1), "{said}");
        let pid = coordinator.program()?.pid().as_raw_nonzero().to_string();
        let address = coordinator.url().trim_start_matches("http://").to_owned();
        ensure!(said.contains(&pid) && said.contains(&address), "it does not say who: {said}");
        assert_eq!(coordinator.api()?.task(id).await?.row.state, TaskState::Queued, "the first one is unharmed");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_refused() -> Result<()> {
    bounded(async {
        for name in ["CW_LISTEN", "CW_WORKER_LISTEN"] {
            let coordinator = Coordinator::prepare(&[(name, "0.0.0.0:0")])?;
            let said = coordinator.refuses_to_start().await?;
            ensure!(said.contains("not on loopback") && said.contains(name), "{name}: {said}");
            ensure!(!coordinator.state_dir().exists(), "nothing was made before the refusal");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_backup_of_a_running_queue_is_a_queue() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let id = api.submit(spec("echo kept")).await?.row.id;
        let restored = Coordinator::prepare(&[])?;
        std::fs::create_dir(restored.state_dir())?;
        let status = coordinator.command()?.arg("backup").arg(restored.state_dir().join("queue.db")).status().await?;
        ensure!(status.success(), "the backup failed: {status}");
        // The admin's key is in the database by its hash; its secret stays where it was.
        std::fs::copy(coordinator.state_dir().join("admin.key"), restored.state_dir().join("admin.key"))
            .context("copying the key")?;
        let restored = restored.up().await?;
        assert_eq!(restored.api()?.task(id).await?, api.task(id).await?);
        Ok(())
    })
    .await
}
