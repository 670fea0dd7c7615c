//! Bad input: each gets a problem with a stable code, and changes nothing.

use protocol::Code;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::running::{Running, spec, spec_with};

async fn post_text(on: &Running, path: &str, body: impl Into<reqwest::Body>) -> Answer {
    let request = on.request(Method::POST, path).bearer_auth(&on.admin).header("content-type", "application/json");
    Answer::read(request.body(body).send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_json_is_refused() {
    let on = Running::start().await;
    let before = on.contents().await;
    let valid = spec("a").to_string();
    for bad in [
        "",
        "{",
        "nonsense",
        "{\"repo\": }",
        "{'repo': 'a'}",
        &valid[..valid.len() - 1],
        &format!("{valid}{valid}"),
        "\u{feff}{}",
    ] {
        post_text(&on, "/v1/tasks", bad.to_owned()).await.refused(Code::InvalidJson);
    }
    for path in ["/v1/keys", "/v1/leases", "/v1/leases/lease_00000000000000000000000000/renew"] {
        post_text(&on, path, "{").await.refused(Code::InvalidJson);
    }
    let mut not_utf8 = valid.replace("print(1)", "?").into_bytes();
    let place = not_utf8.iter().position(|byte| *byte == b'?').unwrap();
    not_utf8[place] = 0xff;
    let problem = post_text(&on, "/v1/tasks", not_utf8).await.refused(Code::InvalidField);
    assert_eq!(problem.errors[0].field, "run.code");
    assert_eq!(on.contents().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_is_unknown_missing_or_of_another_type_is_refused_by_its_name() {
    let on = Running::start().await;
    let before = on.contents().await;
    for (bad, field) in [
        (json!([]), ""),
        (json!(null), ""),
        (json!({"run": {"kind": "python", "code": "1"}}), ""),
        (json!({"repo": "a"}), ""),
        (json!({"repo": 1, "run": {"kind": "python", "code": "1"}}), "repo"),
        (spec_with("a", json!({"prioritty": "high"})), "prioritty"),
        (spec_with("a", json!({"priority": "urgent"})), "priority"),
        (spec_with("a", json!({"timeout_s": "30"})), "timeout_s"),
        (spec_with("a", json!({"timeout_s": -1})), "timeout_s"),
        (spec_with("a", json!({"timeout_s": 0})), "timeout_s"),
        (spec_with("a", json!({"timeout_s": 3601})), "timeout_s"),
        (spec_with("a", json!({"timeout_s": 1e300})), "timeout_s"),
        (spec_with("a", json!({"max_attempts": 0})), "max_attempts"),
        (spec_with("a", json!({"env": {"PATH": "/"}})), "env.PATH"),
        (spec_with("a", json!({"env": {"CW_TASK_ID": "x"}})), "env.CW_TASK_ID"),
        (spec_with("a", json!({"env": {"A": "\u{0}"}})), "env.A"),
        (spec_with("a", json!({"env": {"A": 1}})), "env.A"),
        (spec_with("a", json!({"limits": {"memory": 1}})), "limits.memory"),
        (spec_with("a", json!({"network": "open"})), "network"),
        (spec_with("a", json!({"session": "../x"})), "session"),
        (spec_with("a", json!({"session_mode": "read"})), "session_mode"),
        (spec_with("a", json!({"not_before": "tomorrow"})), "not_before"),
        (spec_with("a", json!({"retry": {"on": ["ok"]}})), "retry.on"),
        (spec_with("a", json!({"retry": {"on": ["bad luck"]}})), "retry.on[0]"),
        (spec_with("a", json!({"args": ["\u{0}"]})), "args[0]"),
        (spec_with("a", json!({"labels": {"a b": "c"}})), "labels.a b"),
        (spec_with("a", json!({"event": 1, "run": {"kind": "shell", "code": "1"}})), "event"),
    ] {
        let problem = on.post("/v1/tasks", &bad).await.refused(Code::InvalidField);
        assert_eq!(problem.errors[0].field, field, "{bad}");
    }
    for bad_run in [
        json!({}),
        json!({"kind": "ruby", "code": "1"}),
        json!({"kind": "python"}),
        json!({"kind": "python", "code": ""}),
        json!({"kind": "python", "code": "1", "argv": []}),
        json!({"kind": "command", "argv": []}),
        json!({"kind": "command", "argv": [""]}),
        json!({"kind": "agent", "prompt": " "}),
        json!({"kind": "agent", "prompt": "x", "model": "--yes"}),
    ] {
        let problem = on.post("/v1/tasks", &json!({"repo": "a", "run": bad_run})).await.refused(Code::InvalidField);
        assert!(problem.errors[0].field.starts_with("run"), "{bad_run}: {problem:?}");
    }
    assert_eq!(on.contents().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_of_files_that_would_leave_their_root_are_refused() {
    let on = Running::start().await;
    for path in ["..", "../x", "a/../b", "/etc/passwd", "", ".", "a//b", "a/", "a\u{0}b", &"x".repeat(1025)] {
        on.post("/v1/tasks", &spec_with("a", json!({"files": {path: ""}}))).await.refused(Code::InvalidField);
    }
    let nested = spec_with("a", json!({"files": {"a": "", "a/b": ""}}));
    on.post("/v1/tasks", &nested).await.refused(Code::InvalidField);
    on.post("/v1/tasks", &spec_with("a", json!({"files": {"a": {"base64": "%"}}}))).await.refused(Code::InvalidField);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_in_a_path_has_one_form() {
    let on = Running::start().await;
    for bad in
        ["%00", "x", "task_", "task_0", "%ff", "TASK_00000000000000000000000000", "lease_00000000000000000000000000"]
    {
        on.get(&format!("/v1/tasks/{bad}")).await.refused(Code::InvalidId);
        on.get(&format!("/v1/tasks/{bad}/why")).await.refused(Code::InvalidId);
        on.cancel(bad).await.refused(Code::InvalidId);
    }
    for bad in ["%00", "task_00000000000000000000000000"] {
        on.post(&format!("/v1/leases/{bad}/renew"), &json!({})).await.refused(Code::InvalidId);
        on.ask(&on.admin, Method::DELETE, &format!("/v1/keys/{bad}"), None).await.refused(Code::InvalidId);
    }
    for bad in ["%00", ".git", "a%2fb", "-x"] {
        on.get(&format!("/v1/repos/{bad}")).await.refused(Code::InvalidId);
        on.change_repo(bad, json!({"paused": true})).await.refused(Code::InvalidId);
    }
    on.get("/v1/tasks/task_00000000000000000000000000").await.refused(Code::NotFound);
    assert_eq!(on.get("/v1/repos").await.ok()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn dots_in_a_raw_path_are_an_id_that_is_not_one() {
    let on = Running::start().await;
    for path in
        ["/v1/tasks/..", "/v1/tasks/%2e%2e", "/v1/tasks/%2E.", "/v1/tasks/.", "/v1/repos/..", "/v1/repos/%2e%2e"]
    {
        let line = format!("GET {path}");
        let mut raw = crate::raw::Raw::connect(&on).await;
        let answer = raw.send(crate::raw::request(&line, &on.admin, "Connection: close\r\n")).await.rest().await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("invalid_id"), "{path}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_parameter_that_is_unknown_double_or_wrong_is_refused() {
    let on = Running::start().await;
    let task = on.submit(&spec("a")).await;
    for query in [
        "/v1/tasks?stat=queued",
        "/v1/tasks?state=waiting",
        "/v1/tasks?state=queued&state=running",
        "/v1/tasks?limit=0",
        "/v1/tasks?limit=501",
        "/v1/tasks?limit=x",
        "/v1/tasks?limit=-1",
        "/v1/tasks?limit=99999999999999999999",
        "/v1/tasks?cursor=x",
        "/v1/tasks?label=x",
        "/v1/tasks?worker=x",
        "/v1/tasks?repo=..",
        "/v1/tasks?session=%00",
        "/v1/keys?limit=501",
        "/v1/workers?x=1",
        "/v1/repos?limit=1&limit=2",
        "/v1/events?after=x",
        "/v1/events?after=-1",
    ] {
        on.get(query).await.refused(Code::InvalidQuery);
    }
    for query in
        ["?wait_s=61", "?wait_s=-1", "?wait_s=1&wait_s=2", "?wait=1", "/output?stream=stdin", "/events?after=1.5"]
    {
        on.get(&format!("/v1/tasks/{task}{query}")).await.refused(Code::InvalidQuery);
    }
    let last = on.request(Method::GET, &format!("/v1/tasks/{task}/events")).bearer_auth(&on.admin);
    Answer::read(last.header("last-event-id", "x").send().await.unwrap()).await.refused(Code::InvalidHeader);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_ten_thousand_is_refused() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let before = on.contents().await;
    let many: Vec<String> = (0..10_000).map(|number| format!("x{number}")).collect();
    let map: serde_json::Map<String, Value> = many.iter().map(|name| (name.clone(), json!("v"))).collect();
    for (field, value) in [
        ("args", json!(many)),
        ("requires", json!(many)),
        ("labels", json!(map)),
        ("env", json!(map)),
        ("files", json!(map)),
        ("run", json!({"kind": "command", "argv": many})),
    ] {
        let problem = on.post("/v1/tasks", &spec_with("a", json!({field: value}))).await.refused(Code::InvalidField);
        assert!(problem.errors[0].field.starts_with(field), "{field}: {:?}", problem.errors);
    }
    let short: Vec<String> = (0..10_000).map(|number| format!("{number:x}")).collect();
    let lease = |runs: &Value, repos: &Value| json!({"worker": {"id": worker.id(), "runs": runs}, "repos": repos});
    for bad in [lease(&json!(short[..6_000]), &json!(["a"])), lease(&json!([]), &json!(short[..6_000]))] {
        worker.say(Method::POST, "/v1/leases", &bad).await.refused(Code::InvalidField);
    }
    on.post("/v1/keys", &json!({"role": "client", "repos": short[..6_000]})).await.refused(Code::InvalidField);
    assert_eq!(on.contents().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_nested_too_deep_is_refused_and_the_coordinator_lives() {
    let on = Running::start().await;
    let before = on.contents().await;
    for depth in [200, 10_000, 1_000_000] {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let answer = post_text(&on, "/v1/tasks", nested.clone()).await;
        answer.refused(Code::InvalidJson);
        let event =
            format!("{{\"repo\": \"a\", \"run\": {{\"kind\": \"python\", \"code\": \"1\"}}, \"event\": {nested}}}");
        let answer = post_text(&on, "/v1/tasks", event).await;
        answer.refused(Code::InvalidJson);
    }
    assert_eq!(on.contents().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_nested_value_is_accepted_can_be_read_back_by_a_client() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await.runs(&["python", "handler"]);
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let reads = async |task: &str| {
        let text = on.get(&format!("/v1/tasks/{task}")).await.text();
        serde_json::from_str::<protocol::TaskView>(&text).map(drop).map_err(|error| error.to_string())
    };
    for depth in 90..130 {
        let event = nested(depth);
        let spec =
            format!("{{\"repo\": \"a\", \"run\": {{\"kind\": \"python\", \"code\": \"1\"}}, \"event\": {event}}}");
        let submitted = post_text(&on, "/v1/tasks", spec).await;
        if submitted.status == 201 {
            assert_eq!(reads(&crate::running::id(&submitted.json(201))).await, Ok(()), "an event {depth} deep");
            worker.lease().await.exit(0).await.ok();
        }
        let task = on.submit(&spec_with("a", json!({}))).await;
        let lease = worker.lease().await;
        let report = format!("{{\"outcome\": \"oom\", \"return_value\": {event}}}");
        let request = on.request(Method::PUT, &format!("/v1/leases/{}/report", lease.id)).bearer_auth(&worker.key);
        let reported = request.header("content-type", "application/json").body(report).send().await.unwrap();
        if reported.status() != 200 {
            lease.exit(0).await.ok();
        }
        assert_eq!(reads(&task).await, Ok(()), "a value {depth} deep");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_another_type_is_refused() {
    let on = Running::start().await;
    let before = on.contents().await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", ""] {
        let request = on.request(Method::POST, "/v1/tasks").bearer_auth(&on.admin).header("content-type", kind);
        let answer = Answer::read(request.body(spec("a").to_string()).send().await.unwrap()).await;
        answer.refused(Code::UnsupportedMediaType);
    }
    assert_eq!(on.contents().await, before);
    let request = on.request(Method::POST, "/v1/tasks").bearer_auth(&on.admin);
    let request = request.header("content-type", "Application/JSON; charset=utf-8");
    assert_eq!(request.body(spec("a").to_string()).send().await.unwrap().status(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_such_route_and_no_such_method_are_problems_too() {
    let on = Running::start().await;
    for path in ["/", "/v1", "/v1/", "/v1/tasks/", "/v2/tasks", "/v1/tasks/x/y/z", "/metrics", "/.env"] {
        on.get(path).await.refused(Code::NotFound);
    }
    for (method, path) in [
        (Method::DELETE, "/v1/tasks"),
        (Method::PUT, "/v1/keys"),
        (Method::POST, "/livez"),
        (Method::OPTIONS, "/v1/tasks"),
    ] {
        let answer = on.ask(&on.admin, method, path, None).await;
        answer.refused(Code::MethodNotAllowed);
        assert!(answer.headers.contains_key("allow"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_keeps_its_id_if_it_is_harmless_in_a_log() {
    let on = Running::start().await;
    let ask = async |id: &str| {
        let request = on.request(Method::GET, "/nowhere").header("x-request-id", id);
        Answer::read(request.send().await.unwrap()).await.refused(Code::NotFound).request_id
    };
    assert_eq!(ask("abc-123_X").await, "abc-123_X");
    for odd in ["a b", "", "x\u{7f}", &"x".repeat(65), "a;b"] {
        let sent = std::panic::AssertUnwindSafe(odd);
        if reqwest::header::HeaderValue::from_str(&sent).is_ok() {
            assert!(ask(odd).await.starts_with("req_"), "{odd:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_that_is_too_old_too_new_or_no_number_is_refused() {
    let on = Running::start().await;
    let ask = async |generation: &str| {
        let request = on.request(Method::GET, "/v1/tasks").bearer_auth(&on.admin).header("cw-protocol", generation);
        Answer::read(request.send().await.unwrap()).await
    };
    for near in ["1", "2"] {
        let answer = ask(near).await;
        assert_eq!((answer.status, answer.headers["cw-protocol"].to_str().unwrap()), (200, "1"));
    }
    assert!(ask("0").await.refused(Code::ProtocolUnsupported).detail.contains("upgrade this program"));
    assert!(ask("3").await.refused(Code::ProtocolUnsupported).detail.contains("upgrade the coordinator"));
    for garbage in ["", "one", "-1", "1.0", "99999999999"] {
        ask(garbage).await.refused(Code::InvalidHeader);
    }
}
