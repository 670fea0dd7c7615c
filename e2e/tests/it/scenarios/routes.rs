//! Who may ask what, and what is answered: the whole life of a task by `cw` and by HTTP.

use anyhow::{Context as _, Result};
use e2e::{Api, Coordinator, Pretender, bounded};
use protocol::{Code, TaskState};
use reqwest::Method;
use serde_json::{Value, json};

use super::Place;

#[tokio::test]
async fn without_a_key_or_with_a_wrong_one_nothing_is_told_but_health() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let id = place.code("shell", "echo secret").await?.well()?.task.row.id;
        let bare = reqwest::Client::builder().no_proxy().build()?;
        for path in
            ["/v1/tasks", &format!("/v1/tasks/{id}"), &format!("/v1/tasks/{id}/output"), "/v1/workers", "/v1/keys"]
        {
            let answer = bare.get(format!("{}{path}", place.coordinator.url())).send().await?;
            let (status, text) = (answer.status().as_u16(), answer.text().await?);
            assert!(status == 401 && text.contains("key_missing") && !text.contains("secret"), "{path}: {text}");
            let answer = place.api.with_key("cwk_wrong").get(path).await?;
            assert_eq!((answer.status, answer.code()), (401, Some(Code::KeyUnknown)), "{path}");
        }
        for path in ["/livez", "/readyz"] {
            let answer = bare.get(format!("{}{path}", place.coordinator.url())).send().await?;
            assert_eq!(answer.status(), 200, "{path}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn where_workers_ask_only_they_are_answered() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let admin = coordinator.api()?;
        let at_workers = admin.through(&coordinator.worker_url());
        for path in ["/v1/tasks", "/v1/keys", "/v1/workers", "/v1/events"] {
            assert_eq!(at_workers.get(path).await?.code(), Some(Code::NotFound), "{path}");
        }
        let key = admin.worker_key(&["r"]).await?;
        let worker = Api::new(&coordinator.url(), &key.key)?;
        for (method, path) in [(Method::GET, "/v1/tasks"), (Method::GET, "/v1/keys"), (Method::POST, "/v1/tasks")] {
            let spec = json!({"repo": "r", "run": {"kind": "shell", "code": "true"}});
            let answer = worker.send(method, path, Some(&spec)).await?;
            assert_eq!(answer.code(), Some(Code::WrongRole), "{path}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_submission_that_is_malformed_unknown_or_too_large_is_refused_by_name() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let run = json!({"kind": "shell", "code": "true"});
        for (spec, part) in [
            (json!({"repo": "r", "run": run, "privileged": true}), "privileged"),
            (json!({"repo": "r", "run": {"kind": "shell", "code": "true", "image": "x"}}), "image"),
            (json!({"repo": "r", "run": {"kind": "cobol", "code": "x"}}), "cobol"),
            (json!({"repo": "", "run": run}), "repo"),
            (json!({"repo": "../r", "run": run}), "repo"),
            (json!({"repo": "r"}), "run"),
            (json!({"repo": "r", "run": run, "timeout_s": 0}), "timeout_s"),
            (json!({"repo": "r", "run": run, "timeout_s": 3601}), "timeout_s"),
            (json!({"repo": "r", "run": run, "files": {"../escape": "x"}}), "files"),
            (json!({"repo": "r", "run": run, "files": {"/etc/passwd": "x"}}), "files"),
            (json!({"repo": "r", "run": {"kind": "command", "argv": []}}), "run.argv"),
        ] {
            let answer = api.post("/v1/tasks", spec).await?;
            assert_eq!((answer.status, answer.code()), (422, Some(Code::InvalidField)), "{}", answer.text());
            assert!(answer.text().contains(part), "{part}: {}", answer.text());
        }
        let answer = api.send(Method::POST, "/v1/tasks", Some(&json!("not a spec"))).await?;
        assert!((400..500).contains(&answer.status), "{answer:?}");
        let files = json!({"big": "x".repeat(9 << 20)});
        let large = api.post("/v1/tasks", json!({"repo": "r", "run": run, "files": files})).await?;
        assert_eq!((large.status, large.code()), (413, Some(Code::TooLarge)));
        assert_eq!(api.all_tasks("r").await?, []);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_result_has_every_field_that_is_promised_also_when_it_is_empty() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let id = place.code("shell", "true").await?.well()?.task.row.id;
        let task: Value = place.api.get(&format!("/v1/tasks/{id}")).await?.value()?;
        for field in "id repo state reason priority attempt max_attempts created_at started_at finished_at worker labels spec result".split(' ') {
            assert!(task.get(field).is_some(), "{field}: {task}");
        }
        let result = &task["result"];
        for field in "exit_code signal stdout stderr dropped_bytes return_value artifacts usage confinement published".split(' ') {
            assert!(result.get(field).is_some(), "{field}: {task}");
        }
        assert_eq!((&result["exit_code"], &result["stdout"], &result["artifacts"]), (&json!(0), &json!(""), &json!([])));
        let times = ["created_at", "started_at", "finished_at"].map(|name| task[name].as_str().unwrap_or_default());
        assert!(times.is_sorted() && times.iter().all(|time| time.ends_with('Z')), "{times:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_task_is_sent_listed_read_followed_and_cancelled_by_cw() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let cw = async |args: &[&str]| place.coordinator.cw(args).await;
        let code = format!("seq 1 300; {}", place.coordinator.gate().wait());
        let sent = cw(&["send", "r", "--label", "who=me", "--shell", &code]).await?.with_code(0)?;
        let id = sent.out.trim();
        assert!(id.starts_with("task_") && sent.out.lines().count() == 1, "the id comes at once and alone: {sent:?}");
        place.api.wrote(id.parse()?, "300\n").await?;
        let listed = cw(&["--json", "list", "--label", "who=me", "--state", "running"]).await?.with_code(0)?.json()?;
        assert_eq!(listed["items"][0]["id"], id, "{listed}");
        let logs = cw(&["logs", "--lines", "100", id]).await?.with_code(0)?;
        assert_eq!((logs.out.lines().next(), logs.out.lines().count()), (Some("201"), 100));
        cw(&["cancel", id]).await?.with_code(0)?;
        cw(&["wait", id]).await?.with_code(7)?;
        cw(&["cancel", id]).await?.with_code(0).context("a second cancel changes nothing")?;
        let task = place.api.task(id.parse()?).await?;
        assert_eq!(task.row.state, TaskState::Cancelled);
        assert!(task.result.context("it has a result")?.stdout.starts_with("1\n2\n"), "what it wrote is kept");
        for command in ["get", "logs", "cancel", "wait", "why"] {
            cw(&[command, "task_00000000000000000000000000"]).await?.with_code(3)?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_lease_is_one_workers_until_it_gives_it_back() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let (one, two) = (Pretender::new(&coordinator, "r", 1).await?, Pretender::new(&coordinator, "r", 2).await?);
        let id = api.submit_shell("r", "true").await?.row.id;
        let lease = one.lease().await?.lease;
        assert_eq!(two.ask(0).await?.status, 204, "nobody else gets it");
        assert_eq!(one.renew(lease, 0).await?.status, 200);
        assert_eq!(one.renew(lease, 0).await?.status, 200, "its holder goes on");
        for stolen in [two.renew(lease, 0).await?, two.report(lease).await?] {
            assert_eq!((stolen.status, stolen.code()), (409, Some(Code::LeaseLost)));
        }
        assert_eq!(one.api.post(&format!("/v1/leases/{lease}/release"), json!({})).await?.status, 200);
        assert_eq!(one.renew(lease, 0).await?.code(), Some(Code::LeaseLost), "what was given back is gone");
        let next = two.lease().await?;
        assert_eq!(next.task, id);
        assert_eq!(two.report(next.lease).await?.status, 200);
        assert_eq!(api.done(id).await?.row.state, TaskState::Completed);
        Ok(())
    })
    .await
}
