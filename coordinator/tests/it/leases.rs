//! The rules of a lease: whose it is, how long it lives, and what it says when it is lost.

use std::time::{Duration, Instant};

use coordinator::store::Ttls;
use protocol::Code;
use serde_json::{Value, json};

use crate::running::{Running, short_leases, spec, spec_with};
use crate::worker::output;

#[tokio::test(flavor = "multi_thread")]
async fn no_two_leases_live_for_one_task() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    for _ in 0..20 {
        on.submit(&spec("a")).await;
    }
    let polls: Vec<_> = (0..40)
        .map(|_| {
            let worker = worker.clone();
            tokio::spawn(async move { worker.look().await.map(|lease| lease.task) })
        })
        .collect();
    let mut taken = Vec::new();
    for poll in polls {
        taken.extend(poll.await.unwrap());
    }
    taken.sort();
    let count = taken.len();
    taken.dedup();
    assert_eq!((count, taken.len()), (20, 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_from_a_lapsed_lease_is_refused_and_changes_nothing() {
    let on = Running::start_with(short_leases).await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let zombie = worker.lease().await;
    zombie.renew(0).await.ok();
    on.in_state(&zombie.task, "queued").await;
    for is_leased_again in [false, true] {
        let current = if is_leased_again { Some(worker.lease().await) } else { None };
        let before = on.task(&zombie.task).await;
        zombie.renew(0).await.refused(Code::LeaseLost);
        zombie.events(json!([output(1, "stdout", "late")])).await.refused(Code::LeaseLost);
        zombie.exit(0).await.refused(Code::LeaseLost);
        zombie.report(&json!({"outcome": "timeout", "last_event": 7})).await.refused(Code::LeaseLost);
        zombie.release().await.refused(Code::LeaseLost);
        assert_eq!(on.task(&zombie.task).await, before);
        assert_eq!(on.get(&format!("/v1/tasks/{}/output", zombie.task)).await.text(), "");
        if let Some(current) = current {
            current.exit(0).await.ok();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_belongs_to_the_key_that_took_it() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let other = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    lease.events(json!([output(1, "stdout", "mine")])).await.ok();
    let before = on.task(&lease.task).await;
    for (key, code) in [(&other.key, Code::LeaseLost), (&on.admin, Code::WrongRole)] {
        let thief = lease.stolen_by(key);
        thief.renew(0).await.refused(code);
        thief.events(json!([output(2, "stdout", "theirs")])).await.refused(code);
        thief.exit(0).await.refused(code);
        thief.release().await.refused(code);
        let gap = thief.report(&json!({"outcome": "oom", "last_event": 9})).await.refused(code);
        assert_eq!(gap.expected, None, "says nothing about another key's events");
    }
    assert_eq!(on.task(&lease.task).await, before);
    lease.exit(0).await.ok();
    lease.stolen_by(&other.key).exit(0).await.refused(Code::LeaseLost);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_never_was_is_lost() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let mut lease = worker.lease().await;
    lease.id = protocol::LeaseId::new(0, 1).to_string();
    lease.renew(0).await.refused(Code::LeaseLost);
    lease.exit(0).await.refused(Code::LeaseLost);
    lease.release().await.refused(Code::LeaseLost);
    lease.events(json!([])).await.refused(Code::LeaseLost);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lapsed_lease_puts_the_task_back_within_a_second_of_its_end() {
    let on = Running::start_with(short_leases).await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let first = worker.lease().await;
    let sent = Instant::now();
    first.renew(0).await.ok();
    // Parked since before the lapse: it is woken by it.
    let second = worker.lease().await;
    let waited = sent.elapsed();
    assert_eq!((&second.task, &second.grant["attempt"]), (&first.task, &json!(2)));
    assert!((Duration::from_secs(1)..Duration::from_secs(2)).contains(&waited), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lapse_before_the_first_renewal_is_not_counted() {
    let on = Running::start_with(short_leases).await;
    let worker = on.worker(&["a"]).await;
    let task = on.submit(&spec_with("a", json!({"max_attempts": 1}))).await;
    for attempt in 1..=2 {
        let lease = worker.lease().await;
        assert_eq!((&lease.task, &lease.grant["attempt"]), (&task, &json!(attempt)));
    }
    worker.lease().await.exit(0).await.ok();
    assert_eq!(on.done(&task).await["state"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lapse_after_the_first_renewal_is_counted_until_none_is_left() {
    let on = Running::start_with(short_leases).await;
    let worker = on.worker(&["a"]).await;
    let task = on.submit(&spec_with("a", json!({"max_attempts": 2}))).await;
    for _ in 0..2 {
        worker.lease().await.renew(0).await.ok();
    }
    let done = on.done(&task).await;
    assert_eq!(
        (&done["state"], &done["reason"], &done["attempt"]),
        (&json!("failed"), &json!("lease_lost"), &json!(2))
    );
    assert_eq!(done["result"]["exit_code"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_task_goes_back_at_once_and_costs_no_attempt_ten_times() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let task = on.submit(&spec_with("a", json!({"max_attempts": 1}))).await;
    for _ in 0..10 {
        let lease = worker.look().await.expect("it is there at once");
        let first = lease.release().await;
        assert_eq!(first.status, 200);
        assert_eq!(lease.release().await.bytes, first.bytes, "a repeat");
    }
    assert_eq!(on.task(&task).await["state"], "queued");
    worker.look().await.unwrap().release().await.ok();
    let done = on.task(&task).await;
    assert_eq!((&done["state"], &done["reason"]), (&json!("failed"), &json!("lease_lost")), "the eleventh counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_task_wakes_a_parked_worker() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    let parked = on.worker(&["a"]).await;
    let next = tokio::spawn(async move { parked.lease().await });
    on.seen(2).await;
    let since = Instant::now();
    lease.release().await.ok();
    assert_eq!(next.await.unwrap().task, lease.task);
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_worker_is_woken_by_a_submission() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let parked = tokio::spawn(async move { worker.lease().await });
    on.seen(1).await;
    let task = on.submit(&spec("a")).await;
    assert_eq!(parked.await.unwrap().task, task);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_without_work_is_answered_204() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let since = Instant::now();
    let answer = worker.ask(1).await;
    assert_eq!((answer.status, answer.bytes.len()), (204, 0));
    assert!(since.elapsed() >= Duration::from_secs(1));
    assert_eq!(worker.ask(0).await.status, 204);
    worker.ask(61).await.refused(Code::InvalidField);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_renewal_is_answered_at_once_on_cancel() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    let held = tokio::spawn({
        let lease = lease.clone();
        async move { lease.renew(10).await }
    });
    let since = Instant::now();
    on.cancel(&lease.task).await.ok();
    assert_eq!(held.await.unwrap().ok(), json!({"ttl_s": 30, "stop": "cancel"}));
    assert!(since.elapsed() < Duration::from_secs(2));
    assert_eq!(lease.renew(10).await.ok()["stop"], "cancel", "and at once from then on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_renewal_is_told_when_its_lease_ends() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    let held = tokio::spawn({
        let lease = lease.clone();
        async move { lease.renew(10).await }
    });
    lease.renew(0).await.ok();
    lease.exit(0).await.ok();
    held.await.unwrap().refused(Code::LeaseLost);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_is_held_for_a_third_of_the_ttl_at_most() {
    let on = Running::start_with(|config| config.ttls = Ttls { first_s: 10, code_s: 3, agent_s: 120 }).await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    let since = Instant::now();
    assert_eq!(lease.renew(3600).await.ok(), json!({"ttl_s": 3, "stop": null}));
    assert!((Duration::from_secs(1)..Duration::from_secs(3)).contains(&since.elapsed()), "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_extends_at_once_and_not_when_it_is_answered() {
    let on = Running::start_with(|config| config.ttls = Ttls { first_s: 1, code_s: 6, agent_s: 6 }).await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    // Held for 2 s, twice as long as the lease lived before.
    lease.renew(2).await.ok();
    lease.renew(0).await.ok();
    assert_eq!(on.task(&lease.task).await["state"], "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_agents_live_longer_and_all_live_shortly_until_renewed() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await.runs(&["python", "agent:claude"]);
    let agent = json!({"repo": "a", "run": {"kind": "agent", "agent": "claude", "prompt": "do"}});
    for (spec, ttl_s) in [(spec("a"), 30), (agent, 120)] {
        on.submit(&spec).await;
        let lease = worker.lease().await;
        assert_eq!(lease.grant["ttl_s"], 10);
        assert_eq!(lease.renew(0).await.ok()["ttl_s"], ttl_s);
        lease.exit(0).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_carries_the_spec_as_it_was_submitted() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let submitted =
        spec_with("a", json!({"priority": "high", "env": {"A": "1"}, "files": {"x/y": "text"}, "args": ["-v"]}));
    on.submit(&submitted).await;
    let lease = worker.lease().await;
    assert_eq!((&lease.grant["spec"], &lease.grant["repo"]), (&submitted, &json!("a")));
    assert!(!lease.grant.to_string().contains("_at\""), "durations, never instants: {}", lease.grant);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_leased_only_to_a_worker_that_can_run_it() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    for (more, needs) in [
        (json!({"run": {"kind": "shell", "code": "ls"}}), "shell"),
        (json!({"run": {"kind": "javascript", "code": "1"}}), "javascript"),
        (json!({"run": {"kind": "command", "argv": ["ls"]}}), "command"),
        (json!({"run": {"kind": "agent", "agent": "claude", "prompt": "x"}}), "agent:claude"),
        (json!({"event": {"a": 1}}), "handler"),
        (json!({"limits": {"memory_bytes": 1}}), "limits"),
        (json!({"network": "none"}), "network:none"),
        (json!({"network": "restricted"}), "network:restricted"),
    ] {
        let task = on.submit(&spec_with("a", more)).await;
        assert!(worker.look().await.is_none(), "{needs}");
        let able = worker.clone().runs(&["python", needs]);
        let lease = able.look().await.expect(needs);
        assert_eq!(lease.task, task);
        lease.exit(0).await.ok();
    }
    let task = on.submit(&spec_with("a", json!({"requires": ["bwrap", "gvisor"]}))).await;
    let mut confined = worker.clone();
    confined.info["confinement"] = json!(["bwrap"]);
    assert!(confined.look().await.is_none());
    confined.info["confinement"] = json!(["bwrap", "gvisor"]);
    assert_eq!(confined.look().await.unwrap().task, task);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_never_leased_by_a_worker_of_another_repo() {
    let on = Running::start().await;
    let of_b = on.worker(&["b"]).await;
    on.submit(&spec("a")).await;
    assert!(of_b.look().await.is_none());
    let mut greedy = of_b.clone();
    greedy.repos = vec!["a".into(), "b".into()];
    greedy.ask(0).await.refused(Code::WrongRepo);
    assert!(on.worker(&["a", "b"]).await.look().await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_drains_is_seen_and_gets_nothing() {
    let on = Running::start().await;
    let mut worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    for state in ["draining", "gone"] {
        worker.info["state"] = json!(state);
        worker.info["why"] = json!("told to stop");
        assert_eq!(worker.ask(60).await.status, 204);
        let seen = on.get("/v1/workers").await.ok()["items"][0].clone();
        assert_eq!(
            (&seen["state"], &seen["why"], &seen["running"]),
            (&json!(state), &json!("told to stop"), &json!(0))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields_of_a_worker_are_ignored() {
    let on = Running::start().await;
    let mut worker = on.worker(&["a"]).await;
    worker.info["of_a_newer_version"] = json!({"x": 1});
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    lease.events(json!([{"number": 1, "type": "progress", "data": 1, "new": true}])).await.ok();
    lease.report(&json!({"outcome": {"exited": {"code": 0}}, "new": [1]})).await.ok();
}
