//! A task's life as a client sees it: done for ever, cancelled for good, tried again only when it may be.

use protocol::Code;
use serde_json::{Value, json};

use crate::running::{Running, short_leases, spec, spec_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_from_queued_over_running_to_completed() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let queued = on.post("/v1/tasks", &spec("a")).await.json(201);
    assert_eq!(
        (&queued["state"], &queued["attempt"], &queued["priority"]),
        (&json!("queued"), &json!(0), &json!("normal"))
    );
    let lease = worker.lease().await;
    let running = on.task(&lease.task).await;
    assert_eq!(
        (&running["state"], &running["attempt"], &running["worker"]),
        (&json!("running"), &json!(1), &json!(worker.id()))
    );
    lease.exit(0).await.ok();
    let done = on.done(&lease.task).await;
    assert_eq!((&done["state"], &done["reason"]), (&json!("completed"), &json!("ok")));
    assert_eq!((&done["result"]["exit_code"], &done["result"]["signal"]), (&json!(0), &Value::Null));
    assert!(done["finished_at"].is_string() && done["started_at"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_outcome_has_its_state_and_reason() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let detail = |name: &str| json!({name: {"detail": "because"}});
    for (outcome, state, reason) in [
        (json!({"exited": {"code": 0}}), "completed", "ok"),
        (json!({"exited": {"code": 3}}), "failed", "exit_nonzero"),
        (json!({"signalled": {"signal": 9}}), "failed", "signalled"),
        (json!("timeout"), "timed_out", "timeout"),
        (json!("idle_timeout"), "timed_out", "idle_timeout"),
        (json!("cancelled"), "cancelled", "cancelled"),
        (json!("oom"), "failed", "oom"),
        (json!("cpu_limit"), "failed", "cpu_limit"),
        (json!("disk_limit"), "failed", "disk_limit"),
        (json!("output_limit"), "failed", "output_limit"),
        (json!("budget"), "failed", "budget"),
        (detail("setup_failed"), "failed", "setup_failed"),
        (detail("confinement_unavailable"), "failed", "confinement_unavailable"),
        (detail("policy_denied"), "failed", "policy_denied"),
        (detail("agent_error"), "failed", "agent_error"),
        (detail("push_failed"), "failed", "push_failed"),
    ] {
        let task = on.submit(&spec_with("a", json!({"max_attempts": 1}))).await;
        worker.lease().await.report(&json!({"outcome": outcome})).await.ok();
        let done = on.done(&task).await;
        assert_eq!((&done["state"], &done["reason"]), (&json!(state), &json!(reason)), "{outcome}");
        let because =
            if outcome.is_object() && outcome.to_string().contains("detail") { json!("because") } else { Value::Null };
        assert_eq!(done["result"]["detail"], because, "{outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_an_accepted_report_is_answered_200_with_the_same_body_and_changes_nothing() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    let first = lease.exit(0).await;
    let done = on.done(&lease.task).await;
    for code in [0, 0, 1] {
        let again = lease.exit(code).await;
        assert_eq!((again.status, &again.bytes), (200, &first.bytes));
    }
    assert_eq!(on.task(&lease.task).await, done);
}

#[tokio::test(flavor = "multi_thread")]
async fn done_is_for_ever() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    lease.exit(0).await.ok();
    let done = on.done(&lease.task).await;
    on.cancel(&lease.task).await.refused(Code::AlreadyDone);
    lease.renew(0).await.refused(Code::LeaseLost);
    lease.release().await.refused(Code::LeaseLost);
    lease
        .events(json!([{"number": 1, "type": "output", "stream": "stdout", "text": "late"}]))
        .await
        .refused(Code::LeaseLost);
    assert!(worker.look().await.is_none());
    assert_eq!(on.task(&lease.task).await, done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_task_is_cancelled_at_once_and_never_leased() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let task = on.submit(&spec("a")).await;
    let cancelled = on.cancel(&task).await.ok();
    assert_eq!((&cancelled["state"], &cancelled["reason"]), (&json!("cancelled"), &json!("cancelled")));
    assert!(cancelled["cancel_requested_at"].is_string());
    assert!(worker.look().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cancel_is_answered_200_and_a_cancel_of_another_end_409() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let task = on.submit(&spec("a")).await;
    let first = on.cancel(&task).await.ok();
    assert_eq!(on.cancel(&task).await.ok(), first);
    for code in [0, 1] {
        on.submit(&spec("a")).await;
        let lease = worker.lease().await;
        lease.exit(code).await.ok();
        on.cancel(&lease.task).await.refused(Code::AlreadyDone);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_running_task_stays_running_until_its_report_ends_it_cancelled_with_its_output() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    lease.events(json!([{"number": 1, "type": "output", "stream": "stdout", "text": "so far"}])).await.ok();
    let asked = on.cancel(&lease.task).await.ok();
    assert_eq!(asked["state"], "running");
    let since = asked["cancel_requested_at"].clone();
    assert!(since.is_string());
    assert_eq!(on.cancel(&lease.task).await.ok()["cancel_requested_at"], since, "the first request counts");
    lease.exit(0).await.ok();
    let done = on.done(&lease.task).await;
    assert_eq!((&done["state"], &done["result"]["stdout"]), (&json!("cancelled"), &json!("so far")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_running_task_never_queues_again() {
    let on = Running::start_with(short_leases).await;
    let worker = on.worker(&["a"]).await;
    let retry = json!({"retry": {"on": ["exit_nonzero"]}});
    for end in ["retry", "setup_failed", "release", "lapse", "lapse after renewal"] {
        on.submit(&spec_with("a", retry.clone())).await;
        let lease = worker.lease().await;
        if end == "lapse after renewal" {
            lease.renew(0).await.ok();
        }
        on.cancel(&lease.task).await.ok();
        match end {
            "retry" => drop(lease.exit(1).await.ok()),
            "setup_failed" => drop(lease.report(&json!({"outcome": {"setup_failed": {"detail": ""}}})).await.ok()),
            "release" => drop(lease.release().await.ok()),
            _ => {}
        }
        assert_eq!(on.done(&lease.task).await["state"], "cancelled", "{end}");
        assert!(worker.look().await.is_none(), "{end}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ran_and_failed_is_not_retried_unless_its_spec_says_so() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    lease.exit(1).await.ok();
    assert_eq!(on.done(&lease.task).await["reason"], "exit_nonzero");

    let task = on.submit(&spec_with("a", json!({"max_attempts": 2, "retry": {"on": ["exit_nonzero"]}}))).await;
    for attempt in 1..=2 {
        let lease = worker.lease().await;
        assert_eq!((&lease.task, &lease.grant["attempt"]), (&task, &json!(attempt)));
        lease.exit(1).await.ok();
    }
    let done = on.done(&task).await;
    assert_eq!((&done["reason"], &done["attempt"]), (&json!("exit_nonzero"), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_a_report_that_was_retried_is_answered_the_same() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec_with("a", json!({"retry": {"on": ["exit_nonzero"]}}))).await;
    let lease = worker.lease().await;
    let first = lease.exit(1).await;
    assert_eq!(first.status, 200);
    let queued = on.task(&lease.task).await;
    assert_eq!(queued["state"], "queued");
    assert_eq!(lease.exit(1).await.bytes, first.bytes);
    assert_eq!(on.task(&lease.task).await, queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_could_not_be_set_up_is_tried_as_often_as_it_may_be() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    for outcome in ["setup_failed", "confinement_unavailable"] {
        let task = on.submit(&spec("a")).await;
        for _ in 0..3 {
            worker.lease().await.report(&json!({"outcome": {outcome: {"detail": "no"}}})).await.ok();
        }
        let done = on.done(&task).await;
        assert_eq!((&done["reason"], &done["attempt"], &done["max_attempts"]), (&json!(outcome), &json!(3), &json!(3)));
    }
}
