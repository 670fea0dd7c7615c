//! The main path: a worker is up, `cw` hands it work and shows what came of it.

use anyhow::{Result, ensure};
use e2e::{Coordinator, Worker, bounded, eventually};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

#[tokio::test]
async fn send_and_wait_prints_what_the_task_wrote_and_nothing_else() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let ran = coordinator.cw(&["send", "--wait", "r", "--shell", "echo hi; echo oops >&2"]).await?.with_code(0)?;
        assert_eq!(ran.out, "hi\n");
        assert!(ran.err.contains("oops\n"), "{ran:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn python_from_standard_input_and_a_bare_argv_are_run() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let python = "import sys\nprint(6 * 7, sys.argv[1:])\n";
        let ran = coordinator.cw_reading(python, &["send", "-w", "r", "--arg", "a b", "--python", "-"]).await?;
        assert_eq!(ran.with_code(0)?.out, "42 ['a b']\n");
        let ran = coordinator.cw(&["send", "-w", "r", "--", "printf", "%s|", "$HOME", "a b"]).await?;
        assert_eq!(ran.with_code(0)?.out, "$HOME|a b|");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn exit_codes_say_how_a_task_ended() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let cw = async |code: i32, args: &[&str]| coordinator.cw(args).await?.with_code(code);
        cw(0, &["send", "-w", "r", "--shell", "true"]).await?;
        cw(1, &["send", "-w", "r", "--shell", "exit 5"]).await?;
        cw(5, &["send", "-w", "--exit-code", "r", "--shell", "exit 5"]).await?;
        cw(2, &["send", "-w", "r"]).await?;
        cw(3, &["get", "task_00000000000000000000000000"]).await?;
        let sent = cw(0, &["send", "r", "--shell", "echo begun; sleep 600", "--timeout", "1h"]).await?;
        let id = sent.out.trim();
        cw(124, &["wait", id, "--timeout", "100ms"]).await?;
        cw(0, &["cancel", id]).await?;
        cw(7, &["wait", id]).await?;
        cw(1, &["send", "-w", "r", "--timeout", "1s", "--shell", "sleep 600"]).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn json_holds_the_whole_task() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let args = ["--json", "send", "-w", "r", "--label", "k=v", "--shell", "echo out; echo err >&2; exit 3"];
        let task = coordinator.cw(&args).await?.with_code(1)?.json()?;
        assert_eq!((&task["state"], &task["reason"]), (&"failed".into(), &"exit_nonzero".into()), "{task}");
        assert_eq!((&task["result"]["stdout"], &task["result"]["stderr"]), (&"out\n".into(), &"err\n".into()));
        assert_eq!((&task["result"]["exit_code"], &task["labels"]["k"]), (&3.into(), &"v".into()));
        assert_eq!((&task["attempt"], &task["spec"]["run"]["kind"]), (&1.into(), &"shell".into()));
        Ok(())
    })
    .await
}

/// The task goes on only after its first line was seen: output that came late would leave the test waiting.
#[tokio::test]
async fn follow_shows_output_while_the_task_runs() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let gate = coordinator.gate();
        let code = format!("echo first; {}; echo second", gate.wait());
        let mut cw = coordinator.cw_command()?.args(["send", "--follow", "r", "--shell", &code]).spawn()?;
        let mut lines = BufReader::new(cw.stdout.take().expect("piped")).lines();
        assert_eq!(lines.next_line().await?.as_deref(), Some("first"));
        gate.open()?;
        assert_eq!(lines.next_line().await?.as_deref(), Some("second"));
        assert_eq!(lines.next_line().await?, None);
        assert!(cw.wait().await?.success());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn following_in_json_gives_a_line_for_each_event_and_then_the_task() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let ran = coordinator.cw(&["--json", "send", "--follow", "r", "--shell", "echo hi"]).await?.with_code(0)?;
        let lines = ran.out.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        let (task, events) = lines.split_last().expect("at least the task");
        assert_eq!(task["state"], "completed", "{ran:?}");
        ensure!(events.iter().any(|event| event.to_string().contains("hi\\n")), "no output among {events:?}");
        ensure!(events.len() >= 4, "queued, running, output, completed: {events:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_scripts_send_and_poll_a_task() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let script = async |name: &str, args: &[&str]| {
            let mut command = coordinator.as_user(&e2e::binaries::script(name)?);
            command.env("CW_BIN", e2e::binaries::binary("cw")?).args(args);
            e2e::cw::finish(command, "").await?.with_code(0)
        };
        let waited = script("send-task", &["--wait", "r", "--shell", "echo by script"]).await?;
        assert_eq!(waited.out, "by script\n");
        let sent = script("send-task", &["r", "--shell", "echo polled"]).await?;
        eventually("poll-task shows the result", async || {
            let shown = script("poll-task", &[sent.out.trim()]).await?.out;
            Ok((shown.contains("completed") && shown.contains("polled")).then_some(()))
        })
        .await
    })
    .await
}

#[tokio::test]
async fn everything_works_over_a_unix_socket() -> Result<()> {
    bounded(async {
        let room = tempfile::tempdir()?;
        let socket = format!("unix:{}/cw.sock", room.path().display());
        let coordinator = Coordinator::prepare(&[("CW_LISTEN", &socket), ("CW_WORKER_LISTEN", "none")])?;
        let mut program = coordinator.command()?.spawn()?;
        let state = coordinator.state_dir();
        eventually("the socket is there", async || Ok(room.path().join("cw.sock").exists().then_some(()))).await?;
        eventually("the key is there", async || Ok(state.join("admin.key").exists().then_some(()))).await?;
        let make = ["--coordinator", &socket, "--json", "keys", "create", "--role", "worker", "--repo", "r"];
        let made = coordinator.cw(&make).await?.with_code(0)?.json()?;
        let key_file = room.path().join("worker.key");
        std::fs::write(&key_file, made["key"].as_str().unwrap_or_default())?;
        let mut worker = coordinator.as_user(&e2e::binaries::binary("cw-worker")?);
        worker.arg("run").env("CW_COORDINATOR", &socket).env("CW_REPO", "r");
        worker.env("CW_KEY_FILE", &key_file).env("CW_STATE_DIR", room.path().join("worker"));
        let mut worker = worker.stderr(std::process::Stdio::null()).spawn()?;
        let ran = coordinator.cw(&["--coordinator", &socket, "send", "-w", "r", "--shell", "echo by socket"]).await?;
        assert_eq!(ran.with_code(0)?.out, "by socket\n");
        worker.kill().await?;
        program.kill().await?;
        Ok(())
    })
    .await
}
