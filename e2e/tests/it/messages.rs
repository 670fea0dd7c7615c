//! What people read when something is missing or wrong.

use anyhow::Result;
use e2e::worker::Setup;
use e2e::{Coordinator, Worker, bounded};

#[tokio::test]
async fn a_bare_prompt_waits_for_a_worker_with_an_agent_and_why_says_so() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let none = coordinator.cw(&["send", "r", "fix the login bug in auth.py"]).await?.with_code(0)?;
        let why = coordinator.cw(&["why", none.out.trim()]).await?.with_code(0)?;
        assert!(why.out.contains("no worker serves the repo r"), "{why:?}");

        let _worker = Worker::start(&coordinator, "r").await?;
        let why = coordinator.cw(&["why", none.out.trim()]).await?.with_code(0)?;
        assert!(
            why.out.contains("no worker that serves r can run it") && why.out.contains("agent:opencode"),
            "{why:?}"
        );
        let task = coordinator.cw(&["--json", "get", none.out.trim()]).await?.json()?;
        assert_eq!((&task["state"], &task["spec"]["run"]["agent"]), (&"queued".into(), &"opencode".into()));

        coordinator.cw(&["repos", "set", "r", "--agent", "claude"]).await?.with_code(0)?;
        let task = coordinator.cw(&["--json", "send", "r", "another"]).await?.with_code(0)?.json()?;
        assert_eq!(task["spec"]["run"]["agent"], "claude");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_worker_with_a_wrong_key_says_once_that_it_is_refused() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let home = coordinator.home().join("worker-w");
        std::fs::create_dir_all(&home)?;
        std::fs::write(home.join("key"), "cwk_wrong")?;
        let mut worker = Worker::launch(&coordinator, Setup { name: "w", repo: "r", variables: &[] }).await?;
        worker.says("coordinator refused the key (401)").await?;
        e2e::wait::pass(std::time::Duration::from_secs(2)).await;
        assert_eq!(worker.log().matches("refused the key").count(), 1, "{}", worker.log());
        assert!(worker.program().has_ended()?.is_none(), "it tries again");
        assert!(!worker.log().contains("cwk_wrong"), "a key never stands in a log");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_worker_without_a_coordinator_says_so_and_works_once_it_is_back() -> Result<()> {
    bounded(async {
        let mut coordinator = Coordinator::start_lasting(&[]).await?;
        let worker = Worker::start(&coordinator, "r").await?;
        coordinator.kill().await?;
        worker.says(&format!("cannot connect to coordinator at {}", coordinator.worker_url())).await?;
        coordinator.restart().await?;
        let ran = coordinator.cw(&["send", "-w", "r", "--shell", "echo back"]).await?.with_code(0)?;
        assert_eq!(ran.out, "back\n");
        worker.says("is well again").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn cw_says_where_it_looked_for_a_coordinator_that_is_down() -> Result<()> {
    bounded(async {
        let mut coordinator = Coordinator::start_lasting(&[]).await?;
        coordinator.kill().await?;
        let ran = coordinator.cw(&["list"]).await?.with_code(6)?;
        assert!(ran.err.contains(&coordinator.url()) && ran.err.contains("cw-coordinator"), "{ran:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn cw_with_a_refused_key_ends_with_4_and_names_the_file() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let file = coordinator.home().join("other.key");
        std::fs::write(&file, "cwk_wrong\n")?;
        let file = file.display().to_string();
        let ran = coordinator.cw(&["--key-file", &file, "list"]).await?.with_code(4)?;
        assert!(ran.err.contains("refused the key (401)") && ran.err.contains(&file), "{ran:?}");

        let key = coordinator.cw(&["--json", "keys", "create", "--role", "worker", "--repo", "r"]).await?.json()?;
        std::fs::write(&file, key["key"].as_str().unwrap_or_default())?;
        let ran = coordinator.cw(&["--key-file", &file, "list"]).await?.with_code(4)?;
        assert!(ran.err.contains("403"), "a worker's key reads no tasks: {ran:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_proxy_of_the_environment_never_sees_the_workers_key() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let proxy = std::net::TcpListener::bind("127.0.0.1:0")?;
        proxy.set_nonblocking(true)?;
        let url = format!("http://{}", proxy.local_addr()?);
        let variables = [("HTTP_PROXY", url.as_str()), ("http_proxy", url.as_str()), ("ALL_PROXY", url.as_str())];
        let setup = Setup { name: "proxied", repo: "r", variables: &variables };
        let _worker = Worker::start_as(&coordinator, setup).await?;
        assert!(proxy.accept().is_err(), "the worker spoke to the proxy");
        Ok(())
    })
    .await
}
