use protocol::{Run, Spec, TaskId};

use super::*;

fn task(reason: Reason, exit_code: Option<i32>, signal: Option<i32>) -> TaskView {
    let spec = Spec::new("repo".parse().unwrap(), Run::Shell { code: "true".to_owned() });
    let json = serde_json::json!({
        "id": TaskId::new(1, 1), "repo": "repo", "state": reason.state(), "reason": reason, "priority": "normal",
        "attempt": 1, "max_attempts": 3, "session": null, "labels": {}, "worker": null,
        "created_at": "2026-01-01T00:00:00Z", "started_at": null, "finished_at": null, "cancel_requested_at": null,
        "spec": spec, "result": TaskResult { exit_code, signal, ..TaskResult::default() },
    });
    serde_json::from_value(json).unwrap()
}

#[test]
fn every_reason_has_its_code() {
    for reason in Reason::ALL {
        let expected = match reason.as_str() {
            "ok" => 0,
            "cancelled" => 7,
            "quota" | "budget" => 8,
            "conflict" => 5,
            _ => 1,
        };
        assert_eq!(Exit::of_task(&task(*reason, None, None)), Exit(expected), "{reason}");
    }
}

#[test]
fn process_passes_on_its_own_code() {
    assert_eq!(Exit::of_process(&task(Reason::ExitNonzero, Some(42), None)), Exit(42));
    assert_eq!(Exit::of_process(&task(Reason::Signalled, None, Some(9))), Exit(137));
    assert_eq!(Exit::of_process(&task(Reason::Timeout, None, None)), Exit::FAILED);
    assert_eq!(Exit::of_process(&task(Reason::Ok, Some(0), None)), Exit::DONE);
}

#[test]
fn every_problem_has_its_code() {
    for code in Code::ALL {
        let expected = match (code, code.status()) {
            (Code::IdempotencyMismatch, _) | (_, 409 | 412) => 5,
            (Code::QuotaExceeded, _) => 8,
            (Code::ReadOnly | Code::UnsafePath | Code::SensitivePath, _) => 2,
            (_, 401 | 403) => 4,
            (_, 404) => 3,
            (_, 426 | 500..) => 6,
            _ => 2,
        };
        assert_eq!(Exit::of_problem(*code, code.status()), Exit(expected), "{code:?}");
    }
}

#[test]
fn help_lists_every_code() {
    let codes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 124, 130, 143, 141];
    assert!(codes.iter().all(|code| HELP.contains(&code.to_string())));
}
