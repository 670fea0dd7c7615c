//! The machine-readable description says what is true: every route, every message, every code.

use std::collections::BTreeSet;
use std::path::PathBuf;

use protocol::{Code, Reason, TaskState};
use reqwest::Method;
use serde_json::{Value, json};

use crate::running::{Running, spec, spec_with};
use crate::schema::{misfit, references};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

fn document() -> Value {
    serde_json::from_str(include_str!("../../src/http/openapi.json")).unwrap()
}

/// `METHOD path` of every route, read from the router's own text.
fn served() -> BTreeSet<String> {
    let router = include_str!("../../src/http.rs");
    let mut routes = BTreeSet::new();
    for route in router.split(".route(\"").skip(1) {
        let (path, rest) = route.split_once('"').unwrap();
        let handlers = rest.split("\n").next().unwrap();
        for method in METHODS.iter().filter(|method| handlers.contains(&format!("{method}("))) {
            routes.insert(format!("{} {}", method.to_uppercase(), path.replace("{*", "{")));
        }
    }
    routes
}

fn described(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().unwrap();
    let methods = |(path, item): (&String, &Value)| {
        let path = path.clone();
        item.as_object()
            .unwrap()
            .keys()
            .map(move |method| format!("{} {path}", method.to_uppercase()))
            .collect::<Vec<_>>()
    };
    paths.iter().flat_map(methods).collect()
}

fn operations(document: &Value) -> Vec<Value> {
    document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values().cloned())
        .collect()
}

#[test]
fn every_route_is_described_and_every_described_route_is_served() {
    let served = served();
    assert!(served.len() >= 23, "{served:?}");
    assert_eq!(described(&document()), served);
}

#[test]
fn every_reference_leads_somewhere_and_every_part_is_used() {
    let document = document();
    let used = references(&document);
    for reference in &used {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
    for kind in ["schemas", "parameters", "responses"] {
        for name in document["components"][kind].as_object().unwrap().keys() {
            let reference = format!("#/components/{kind}/{name}");
            let is_named =
                ["TaskRow", "StateEvent", "OutputEvent", "FeedEvent", "MethodNotAllowed"].contains(&name.as_str());
            assert!(used.contains(&reference) || is_named, "{reference} is used nowhere");
        }
    }
}

#[test]
fn every_operation_has_its_name_a_key_and_a_problem() {
    let document = document();
    let mut names = BTreeSet::new();
    for operation in operations(&document) {
        assert!(names.insert(operation["operationId"].to_string()), "{operation}");
        let is_open = operation["tags"][0] == "anyone";
        assert_eq!(operation.get("security").is_some(), is_open, "{}", operation["operationId"]);
        assert!(is_open || operation["responses"].get("401").is_some(), "{}", operation["operationId"]);
        assert!(operation["responses"].get("403").is_some(), "{}", operation["operationId"]);
    }
    assert_eq!(document["components"]["securitySchemes"]["key"]["scheme"], "bearer");
}

#[test]
fn the_closed_lists_are_complete() {
    let document = document();
    let listed = |name: &str| -> Vec<String> {
        serde_json::from_value(document["components"]["schemas"][name]["enum"].clone()).unwrap()
    };
    assert_eq!(listed("Code"), Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>());
    assert_eq!(listed("Reason"), Reason::ALL.iter().map(|reason| reason.as_str()).collect::<Vec<_>>());
    assert_eq!(listed("TaskState"), TaskState::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>());
    let responses = document["components"]["responses"].as_object().unwrap();
    for code in Code::ALL {
        let is_named = |response: &Value| {
            response["description"].as_str().unwrap().split([' ', ',']).any(|word| word == code.as_str())
        };
        assert!(responses.values().any(is_named), "{}", code.as_str());
    }
}

#[test]
fn every_golden_message_fits_its_schema() {
    let document = document();
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../protocol/tests/golden");
    let mut count = 0;
    for entry in std::fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let Some(schema) = schema_of(&name) else { continue };
        let message: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(misfit(&document, schema, &message), None, "{name}");
        count += 1;
    }
    assert!(count > 50, "{count}");
}

/// The schema of a golden file; lists of words have none.
fn schema_of(name: &str) -> Option<&'static str> {
    let by_beginning = [
        ("manifest", None),
        ("blob-frames", None),
        ("stage-frames", None),
        ("new-session", Some("NewSession")),
        ("session-page", Some("SessionPage")),
        ("session", Some("SessionView")),
        ("new-snapshot", Some("NewSnapshot")),
        ("snapshot", Some("SnapshotView")),
        ("usage", Some("SessionUsage")),
        ("fork", Some("Fork")),
        ("restored", Some("Restored")),
        ("restore", Some("Restore")),
        ("exec-done", Some("ExecDone")),
        ("exec", Some("Exec")),
        ("file-list", Some("FileList")),
        ("file-entry", Some("Entry")),
        ("file-content", Some("FileContent")),
        ("written", Some("Written")),
        ("edited", Some("Edited")),
        ("edit", Some("EditRequest")),
        ("moved", Some("Moved")),
        ("move", Some("Move")),
        ("mkdir", Some("MakeDirectory")),
        ("made", Some("Made")),
        ("deleted", Some("Deleted")),
        ("glob", Some("GlobMatches")),
        ("grep", Some("GrepMatches")),
        ("blobs-request", Some("BlobsRequest")),
        ("staged", Some("Staged")),
        ("why-codes", None),
        ("reasons", None),
        ("states", None),
        ("codes", None),
        ("spec-", Some("Spec")),
        ("lease-request", Some("LeaseRequest")),
        ("lease-grant", Some("LeaseGrant")),
        ("lease-ended", Some("LeaseEnded")),
        ("renewed", Some("Renewed")),
        ("renew", Some("Renew")),
        ("event-batch", Some("EventBatch")),
        ("events-accepted", Some("EventsAccepted")),
        ("report-", Some("Report")),
        ("release", Some("Release")),
        ("task-row", Some("TaskRow")),
        // A list's tasks have no result; the type that reads them writes a null.
        ("task-page-last", Some("TaskPage")),
        ("task-page", None),
        ("task-", Some("TaskView")),
        ("new-key", Some("NewKey")),
        ("created-key", Some("CreatedKey")),
        ("key", Some("KeyView")),
        ("repo-change", Some("RepoChange")),
        ("repo", Some("RepoView")),
        ("worker", Some("WorkerView")),
        ("why", Some("Why")),
        ("problem", Some("Problem")),
        ("state-event", Some("StateEvent")),
        ("feed-event", Some("FeedEvent")),
        ("version", Some("Version")),
        ("uploaded", Some("Uploaded")),
    ];
    by_beginning
        .into_iter()
        .find(|(beginning, _)| name.starts_with(beginning))
        .unwrap_or_else(|| panic!("{name} has no schema"))
        .1
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_really_answered_fits_its_schema() {
    let on = Running::start().await;
    let document = on.get("/openapi.json").await.ok();
    assert_eq!(document, self::document());
    let fits = |schema: &str, answer: &Value| assert_eq!(misfit(&document, schema, answer), None, "{answer}");
    let made = on.post("/v1/keys", &json!({"role": "worker", "repos": ["a"], "ttl_s": 600})).await.json(201);
    fits("CreatedKey", &made);
    let worker = crate::worker::Worker::new(&on, made["key"].as_str().unwrap().into(), &["a"]);
    fits("TaskView", &on.post("/v1/tasks", &spec_with("a", json!({"labels": {"k": "v"}}))).await.json(201));
    let lease = worker.lease().await;
    fits("LeaseGrant", &lease.grant);
    fits("Renewed", &lease.renew(0).await.ok());
    fits("EventsAccepted", &lease.events(json!([crate::worker::output(1, "stdout", "x")])).await.ok());
    fits("Why", &on.why(&lease.task).await);
    fits("Uploaded", &lease.upload("output/a.txt", b"abc").await.ok());
    fits("LeaseEnded", &lease.exit(1).await.ok());
    fits("TaskView", &on.done(&lease.task).await);
    what_is_answered_of_workspaces_fits(&on, &fits).await;
    fits("TaskPage", &on.get("/v1/tasks").await.ok());
    fits("KeyPage", &on.get("/v1/keys").await.ok());
    fits("WorkerPage", &on.get("/v1/workers").await.ok());
    fits("RepoPage", &on.get("/v1/repos").await.ok());
    fits("RepoView", &on.change_repo("a", json!({"max_running": 3})).await.ok());
    fits("Version", &on.get("/version").await.ok());
    let queued = on.submit(&spec("a")).await;
    fits("Why", &on.why(&queued).await);
    let told = crate::sse::Sse::open(&on, &format!("/v1/tasks/{}/events", lease.task)).await.rest().await;
    for frame in told {
        fits(if frame.event == "state" { "StateEvent" } else { "OutputEvent" }, &frame.data);
    }
    fits("FeedEvent", &crate::sse::Sse::open(&on, "/v1/events?after=0").await.next().await.unwrap().data);
    for refused in [
        on.get("/v1/tasks/x").await,
        on.post("/v1/tasks", &json!({"repo": 1})).await,
        on.ask("", Method::GET, "/v1/keys", None).await,
        on.cancel(&lease.task).await,
    ] {
        fits("Problem", &serde_json::from_slice(&refused.bytes).unwrap());
    }
}

#[test]
fn a_message_that_does_not_fit_is_told() {
    let document = document();
    for (schema, bad) in [
        ("Version", json!({"version": "1", "protocol": 1})),
        ("Version", json!({"version": "1", "protocol": "1", "oldest_protocol": 1})),
        ("Version", json!({"version": "1", "protocol": 1, "oldest_protocol": 1, "more": 1})),
        ("Spec", json!({"repo": "a", "run": {"kind": "ruby"}})),
        ("Why", json!({"state": "asleep", "code": "next", "summary": ""})),
        ("Renewed", json!({"ttl_s": 1, "stop": "pause"})),
        ("KeyPage", json!({"items": [{}], "next_cursor": null})),
    ] {
        assert!(misfit(&document, schema, &bad).is_some(), "{schema}: {bad}");
    }
}

async fn what_is_answered_of_workspaces_fits(on: &Running, fits: &impl Fn(&str, &Value)) {
    let files = crate::files::Files::of(on, "s");
    fits("SessionView", &on.post("/v1/workspaces", &json!({"session": "s", "repo": "a"})).await.json(201));
    fits("Written", &files.write("d/f.py", "x = 1").await);
    fits("FileList", &files.get("/files", &[("limit", "1")]).await.ok());
    fits("Entry", &files.get("/files/stat", &[("path", "d/f.py")]).await.ok());
    fits("FileContent", &files.read("d/f.py").await.ok());
    fits("Edited", &files.post("/files/edit", json!({"path": "d/f.py", "old": "1", "new": "2"})).await.ok());
    fits("Moved", &files.post("/files/move", json!({"from": "d", "to": "e"})).await.ok());
    fits("Made", &files.post("/files/mkdir", json!({"path": "g"})).await.ok());
    fits("GlobMatches", &files.get("/files/glob", &[("pattern", "**")]).await.ok());
    fits("GrepMatches", &files.get("/files/grep", &[("pattern", "x")]).await.ok());
    fits("SessionUsage", &files.get("/usage", &[]).await.ok());
    fits("SnapshotView", &files.post("/snapshots", json!({"name": "n"})).await.json(201));
    fits("SnapshotPage", &files.get("/snapshots", &[]).await.ok());
    fits("Restored", &files.post("/restore", json!({"snapshot": "n"})).await.ok());
    fits("SessionView", &files.post("/fork", json!({"session": "t"})).await.json(201));
    fits("SessionPage", &on.get("/v1/workspaces").await.ok());
    fits("Deleted", &files.send(Method::DELETE, "/files", &[("path", "g")], &[]).await.ok());
    for line in crate::checkouts::checked_out(on).await {
        fits("ManifestLine", &line);
    }
    fits("SessionView", &crate::files::Files::of(on, "t").send(Method::DELETE, "", &[], &[]).await.ok());
}
