use protocol::{Run, Spec, TaskId, TaskResult};

use super::*;

fn task(reason: Reason, change: impl Fn(&mut Spec)) -> TaskView {
    let mut spec = Spec::new("repo".parse().unwrap(), Run::Shell { code: "true".to_owned() });
    change(&mut spec);
    let json = serde_json::json!({
        "id": TaskId::new(1, 1), "repo": "repo", "state": reason.state(), "reason": reason, "priority": "normal",
        "attempt": 1, "max_attempts": 3, "session": null, "labels": {}, "worker": null,
        "created_at": "2026-01-01T00:00:00Z", "started_at": null, "finished_at": null, "cancel_requested_at": null,
        "spec": spec, "result": TaskResult::default(),
    });
    serde_json::from_value(json).unwrap()
}

#[test]
fn a_limit_that_was_passed_is_named_as_it_was_set() {
    let oom = task(Reason::Oom, |spec| spec.limits.memory_bytes = Some(64 << 20));
    assert_eq!(ending(&oom), "failed (oom): it used more than 64 MiB");
    let slow = task(Reason::Timeout, |spec| spec.timeout_s = Some(2));
    assert_eq!(ending(&slow), "timed_out (timeout): it ran longer than 2 s");
    assert_eq!(ending(&task(Reason::Oom, |_| ())), "failed (oom)");
}

#[test]
fn every_end_at_a_limit_says_what_to_do() {
    let at_a_limit =
        [Reason::Timeout, Reason::IdleTimeout, Reason::Oom, Reason::CpuLimit, Reason::DiskLimit, Reason::OutputLimit];
    assert!(at_a_limit.into_iter().all(|reason| next(reason).is_some()));
    assert_eq!(next(Reason::Ok), None);
}

#[test]
fn what_was_used_is_said_as_far_as_it_is_known() {
    let usage = Usage { wall_ms: 1500, cpu_ms: Some(20), peak_memory_bytes: Some(3 << 20), source: "cgroup".into() };
    assert_eq!(used(&usage), "1.5s, 20ms of processor time, 3 MiB of memory (cgroup)");
    let usage = Usage { cpu_ms: None, peak_memory_bytes: None, source: "rusage".into(), ..usage };
    assert_eq!(used(&usage), "1.5s (rusage)");
}
