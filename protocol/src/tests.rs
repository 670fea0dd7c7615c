//! Claims about ids, names, paths, units and the rules of a spec.

use serde_json::json;

use crate::spec::Spec;
use crate::{Invalid, RepoName, TaskId, Timestamp, decode, unit};

fn spec(json: &serde_json::Value) -> Result<Spec, Invalid> {
    let spec: Spec = decode(json.to_string().as_bytes())?;
    spec.check()?;
    Ok(spec)
}

fn wrong_field(json: &serde_json::Value) -> String {
    spec(json).expect_err("must be refused").field
}

#[test]
fn ids_sort_by_the_time_they_were_made() {
    let early = TaskId::new(1_000, u128::MAX);
    let late = TaskId::new(1_001, 0);
    assert!(early < late);
    assert!(early.to_string() < late.to_string());
    assert!(early.to_bytes() < late.to_bytes());
}

#[test]
fn an_id_has_one_spelling() {
    let id = TaskId::new(1_700_000_000_000, 0x1234_5678_9abc_def0);
    let text = id.to_string();
    assert_eq!(text.parse(), Ok(id));
    for other in [text.to_uppercase(), text.replace("task_", "lease_"), format!("{text}0"), "..".into(), String::new()]
    {
        assert!(other.parse::<TaskId>().is_err(), "{other}");
    }
    assert!("task_80000000000000000000000000".parse::<TaskId>().is_err(), "more than 128 bits");
}

#[test]
fn names_that_would_be_paths_are_refused() {
    for bad in ["", "..", ".", ".git", "a/b", "a..b", "a\0", "-rf", "ä", &"a".repeat(65)] {
        assert!(bad.parse::<RepoName>().is_err(), "{bad:?}");
    }
    for good in ["rhizome", "a", "A.b_c-1", &"a".repeat(64)] {
        assert!(good.parse::<RepoName>().is_ok(), "{good}");
    }
}

#[test]
fn times_are_rfc_3339_with_milliseconds() {
    let time = Timestamp::from_ms(1_769_860_800_007);
    assert_eq!(time.to_string(), "2026-01-31T12:00:00.007Z");
    assert_eq!("2026-01-31T13:00:00.007+01:00".parse(), Ok(time));
    assert_eq!(Timestamp::MAX.to_string().parse(), Ok(Timestamp::MAX));
    assert_eq!(Timestamp::MAX.plus_ms(1), Timestamp::MAX);
    assert!("yesterday".parse::<Timestamp>().is_err());
}

#[test]
fn durations_and_sizes_read_as_people_type_them() {
    assert_eq!(unit::duration_ms("30s"), Ok(30_000));
    assert_eq!(unit::duration_ms("1h30m"), Ok(5_400_000));
    assert_eq!(unit::duration_ms("250ms"), Ok(250));
    assert_eq!(unit::duration_ms("7"), Ok(7_000));
    for bad in ["", "s", "5x", "-1s", "1.5h", "99999999999999999999s", "5m3"] {
        assert_eq!(unit::duration_ms(bad), Err(unit::BadUnit::Duration), "{bad}");
    }
    assert_eq!(unit::size_bytes("512M"), Ok(512 << 20));
    assert_eq!(unit::size_bytes("5GiB"), Ok(5 << 30));
    assert_eq!(unit::size_bytes("100"), Ok(100));
    for bad in ["", "M", "5X", "-1", "999999999999T"] {
        assert_eq!(unit::size_bytes(bad), Err(unit::BadUnit::Size), "{bad}");
    }
}

#[test]
fn a_minimal_spec_is_valid_and_gets_defaults() {
    let spec = spec(&json!({"repo": "r", "run": {"kind": "python", "code": "print(1)"}})).unwrap();
    assert_eq!((spec.timeout_s(), spec.max_attempts()), (30, 3));
    assert_eq!(spec.needs(), "python");
}

#[test]
fn what_a_spec_asks_for_beyond_running_is_a_need() {
    let spec = spec(&json!({
        "repo": "r", "run": {"kind": "agent", "agent": "claude", "prompt": "fix it"},
        "session": "s", "limits": {"pids": 4}, "network": "restricted", "requires": ["bwrap"],
    }))
    .unwrap();
    assert_eq!(spec.needs(), "agent:claude confinement:bwrap limits network:restricted session");
}

#[test]
fn a_wrong_field_is_refused_by_its_name() {
    let run = json!({"kind": "shell", "code": "true"});
    let with = |extra: serde_json::Value| {
        let mut whole = json!({"repo": "r", "run": run});
        whole.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        wrong_field(&whole)
    };
    assert_eq!(with(json!({"repo": ".."})), "repo");
    assert_eq!(with(json!({"timeout_s": 0})), "timeout_s");
    assert_eq!(with(json!({"timeout_s": 3601})), "timeout_s");
    assert_eq!(with(json!({"timeout_s": "soon"})), "timeout_s");
    assert_eq!(with(json!({"priority": "urgent"})), "priority");
    assert_eq!(with(json!({"env": {"PATH": "/x"}})), "env.PATH");
    assert_eq!(with(json!({"env": {"CW_TASK_ID": "x"}})), "env.CW_TASK_ID");
    assert_eq!(with(json!({"env": {"A=B": "x"}})), "env.A=B");
    assert_eq!(with(json!({"env": {"A": "x\u{0}y"}})), "env.A");
    assert_eq!(with(json!({"args": vec!["x"; 10_000]})), "args");
    assert_eq!(with(json!({"args": ["a\u{0}"]})), "args[0]");
    assert_eq!(with(json!({"files": {"a": "1", "a/b": "2"}})), "files.a/b");
    assert_eq!(with(json!({"files": {"a": {"base64": "%"}}})), "files.a");
    assert_eq!(with(json!({"labels": {"a b": "c"}})), "labels.a b");
    assert_eq!(with(json!({"retry": {"on": ["ok"]}})), "retry.on");
    assert_eq!(with(json!({"limits": {"memory": 5}})), "limits.memory");
    assert_eq!(with(json!({"network": "open"})), "network");
    assert_eq!(with(json!({"session_mode": "read"})), "session_mode");
    assert_eq!(with(json!({"event": {}})), "event");
    assert_eq!(with(json!({"run": {"kind": "command", "argv": []}})), "run.argv");
    assert_eq!(with(json!({"run": {"kind": "shell"}})), "run.code");
    assert_eq!(with(json!({"run": {"kind": "agent", "prompt": " "}})), "run.prompt");
    assert_eq!(with(json!({"run": {"kind": "python", "code": "x".repeat((1 << 20) + 1)}})), "run.code");
}

#[test]
fn an_unknown_field_is_refused_by_its_name() {
    let unknown = json!({"repo": "r", "run": {"kind": "shell", "code": "true"}, "timeout": 5});
    let error = spec(&unknown).expect_err("must be refused");
    assert_eq!(error.field, "timeout");
    assert!(error.message.contains("unknown field `timeout`"), "{error}");
    let inside = json!({"repo": "r", "run": {"kind": "shell", "code": "true", "cod": ""}});
    assert!(spec(&inside).expect_err("must be refused").message.contains("`cod`"));
}

#[test]
fn file_paths_that_leave_their_root_are_refused() {
    for path in ["/etc/passwd", "../x", "a/../b", "a//b", "./a", "", "a\u{0}", &"x".repeat(300)] {
        let whole = json!({"repo": "r", "run": {"kind": "shell", "code": "true"}, "files": {path: "x"}});
        assert!(wrong_field(&whole).starts_with("files"), "{path:?}");
    }
}

#[test]
fn a_brief_spec_has_no_bulk() {
    let full = spec(&json!({
        "repo": "r", "run": {"kind": "python", "code": "secret"}, "stdin": "in", "files": {"a": "b"}, "labels": {"k": "v"},
    }))
    .unwrap();
    let brief = serde_json::to_value(full.brief()).unwrap();
    assert_eq!(brief["run"], json!({"kind": "python"}));
    assert!(brief.get("stdin").is_none() && brief.get("files").is_none());
    assert_eq!(brief["labels"]["k"], "v");
}

#[test]
fn a_brief_spec_stays_small_whatever_was_submitted() {
    let long = spec(&json!({
        "repo": "r", "run": {"kind": "command", "argv": vec!["ä".repeat(1_000); 500]}, "args": vec!["x".repeat(900); 1_000],
        "env": {"A": "x".repeat(100_000)},
    }))
    .unwrap();
    let brief = serde_json::to_string(&long.brief()).unwrap();
    assert!(brief.len() < 4_096, "{} bytes", brief.len());
}

#[test]
fn a_files_name_says_what_it_is() {
    let of = |path: &str| {
        let path = path.parse().expect("a path");
        (crate::artifact::kind(&path), crate::artifact::media_type(&path))
    };
    assert_eq!(of("output/a.CSV"), ("output", "text/csv"));
    assert_eq!(of("logs/run"), ("log", "application/octet-stream"));
    assert_eq!(of("build/make.log"), ("log", "text/plain"));
    assert_eq!(of("outputs/x.json"), ("artifact", "application/json"));
    assert_eq!(of("a.b/noend"), ("artifact", "application/octet-stream"), "only the last part has a suffix");
}

#[test]
fn a_hash_is_64_lower_case_digits() {
    assert!(crate::artifact::is_sha256(&"0a".repeat(32)));
    for wrong in [String::new(), "0A".repeat(32), "0a".repeat(31), "é".repeat(32), "0g".repeat(32)] {
        assert!(!crate::artifact::is_sha256(&wrong), "{wrong}");
    }
}
