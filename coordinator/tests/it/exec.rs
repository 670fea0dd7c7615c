//! A command in a session: a task that the coordinator queues and waits for.

use protocol::Code;
use serde_json::json;

use crate::files::Files;
use crate::running::{Running, spec_with};
use crate::worker::output;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_a_task_of_the_session_s_repo_and_answers_what_came_of_it() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    let worker = on.worker(&["a"]).await.runs(&["shell", "command", "session"]);
    let working = tokio::spawn(async move {
        let lease = worker.lease().await;
        lease.renew(0).await.ok();
        lease.events(json!([output(1, "stdout", "out"), output(2, "stderr", "err")])).await.ok();
        lease.report(&json!({"outcome": {"exited": {"code": 3}}, "last_event": 2})).await.ok();
        lease
    });
    let exec = json!({"command": "ls 'x'", "cwd": "/workspace/it's", "timeout_s": 7, "repo": "a"});
    let answer = files.post("/exec", exec).await;
    let lease = working.await.unwrap();
    assert_eq!(answer.headers["cw-task"], lease.task.as_str());
    let done = answer.ok();
    assert_eq!(
        (done["exit_code"].as_i64(), done["stdout"].as_str(), done["stderr"].as_str()),
        (Some(3), Some("out"), Some("err"))
    );
    assert_eq!(
        (done["timed_out"].as_bool(), done["truncated"].as_bool(), done["reason"].as_str()),
        (Some(false), Some(false), Some("exit_nonzero"))
    );
    let spec = &lease.grant["spec"];
    assert_eq!(
        (spec["session"].as_str(), spec["timeout_s"].as_u64(), spec["max_attempts"].as_u64()),
        (Some("s"), Some(7), Some(1))
    );
    assert_eq!(spec["run"], json!({"kind": "shell", "code": "cd -- './it'\\''s' || exit 1\nls 'x'"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_session_answers_409_with_the_holder() {
    let on = Running::start().await;
    let task = on.submit(&spec_with("a", json!({"session": "s"}))).await;
    let problem = Files::of(&on, "s").post("/exec", json!({"argv": ["ls"]})).await.refused(Code::SessionBusy);
    assert_eq!(problem.holder.unwrap().to_string(), task);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_waiting_for_a_command_cancels_it() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    let request =
        on.http.post(files.url("/exec", &[])).bearer_auth(&on.admin).header("content-type", "application/json");
    let waiting = tokio::spawn(request.body(json!({"command": "ls", "repo": "a"}).to_string()).send());
    let queued = crate::running::eventually("the command waits", async || {
        let list = on.get("/v1/tasks?session=s").await.ok();
        list["items"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    waiting.abort();
    on.in_state(&queued, "cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_makes_no_sense_is_refused_by_its_field() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    for (bad, field) in [
        (json!({}), "command"),
        (json!({"command": "a", "argv": ["b"]}), "command"),
        (json!({"command": " "}), "command"),
        (json!({"command": "a", "timeout_s": 301}), "timeout_s"),
        (json!({"command": "a", "timeout_s": 0}), "timeout_s"),
        (json!({"command": "a"}), "repo"),
        (json!({"command": "a", "env": {}}), "env"),
    ] {
        let problem = files.post("/exec", bad.clone()).await.refused(Code::InvalidField);
        assert_eq!(problem.errors[0].field, field, "{bad}");
    }
}
