//! Who may do what: roles, repos, and keys that are missing, unknown, expired or revoked.

use std::time::{Duration, Instant};

use protocol::Code;
use reqwest::Method;
use serde_json::{Value, json};

use crate::running::{Running, eventually, spec};
use crate::sse::Sse;

const NO_TASK: &str = "/v1/tasks/task_00000000000000000000000000";
const NO_LEASE: &str = "/v1/leases/lease_00000000000000000000000000";

/// Every route with a key, who may use it, and a body that would do.
fn routes() -> Vec<(Method, String, &'static str, Option<Value>)> {
    let lease = json!({"worker": {"id": "worker_00000000000000000000000000"}, "repos": ["a"]});
    let ok = json!({"outcome": {"exited": {"code": 0}}});
    vec![
        (Method::POST, "/v1/tasks".into(), "client", Some(spec("a"))),
        (Method::GET, "/v1/tasks".into(), "client", None),
        (Method::GET, NO_TASK.into(), "client", None),
        (Method::POST, format!("{NO_TASK}/cancel"), "client", None),
        (Method::GET, format!("{NO_TASK}/events"), "client", None),
        (Method::GET, format!("{NO_TASK}/output"), "client", None),
        (Method::GET, format!("{NO_TASK}/why"), "client", None),
        (Method::GET, "/v1/events".into(), "client", None),
        (Method::POST, "/v1/leases".into(), "worker", Some(lease)),
        (Method::POST, format!("{NO_LEASE}/renew"), "worker", Some(json!({}))),
        (Method::POST, format!("{NO_LEASE}/events"), "worker", Some(json!({"events": []}))),
        (Method::PUT, format!("{NO_LEASE}/report"), "worker", Some(ok)),
        (Method::POST, format!("{NO_LEASE}/release"), "worker", Some(json!({}))),
        (Method::POST, "/v1/keys".into(), "admin", Some(json!({"role": "client"}))),
        (Method::GET, "/v1/keys".into(), "admin", None),
        (Method::DELETE, "/v1/keys/key_00000000000000000000000000".into(), "admin", None),
        (Method::GET, "/v1/workers".into(), "admin", None),
        (Method::GET, "/v1/repos".into(), "admin", None),
        (Method::GET, "/v1/repos/a".into(), "admin", None),
        (Method::PATCH, "/v1/repos/a".into(), "admin", Some(json!({"paused": true}))),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_refuses_the_wrong_role_and_changes_nothing() {
    let on = Running::start().await;
    let (_, client) = on.key(json!({"role": "client"})).await;
    let (_, worker) = on.key(json!({"role": "worker", "repos": ["a"]})).await;
    let before = on.contents().await;
    for (method, path, role, body) in routes() {
        for (name, key) in [("client", &client), ("worker", &worker)] {
            if name != role {
                on.ask(key, method.clone(), &path, body.as_ref()).await.refused(Code::WrongRole);
            }
        }
    }
    assert_eq!(on.contents().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_refuses_a_key_that_is_missing_unknown_or_revoked() {
    let on = Running::start().await;
    let (id, revoked) = on.key(json!({"role": "admin"})).await;
    let gone = on.ask(&on.admin, Method::DELETE, &format!("/v1/keys/{id}"), None).await.ok();
    assert!(gone["revoked_at"].is_string());
    let before = on.contents().await;
    for (method, path, _, body) in routes() {
        let bare = on.request(method.clone(), &path).header("content-type", "application/json");
        let bare = bare.body(body.as_ref().map(Value::to_string).unwrap_or_default());
        let answer = crate::answer::Answer::read(bare.send().await.unwrap()).await;
        answer.refused(Code::KeyMissing);
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        on.ask("cwk_of_another_coordinator", method.clone(), &path, body.as_ref()).await.refused(Code::KeyUnknown);
        on.ask(&revoked, method, &path, body.as_ref()).await.refused(Code::KeyRevoked);
    }
    assert_eq!(on.contents().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_of_another_scheme_is_no_key() {
    let on = Running::start().await;
    for header in ["Basic YTpi".to_owned(), "Bearer".into(), "Bearer ".into(), on.admin.clone(), "\u{e4}".into()] {
        let request = on.request(Method::GET, "/v1/tasks").header("authorization", header.as_bytes());
        crate::answer::Answer::read(request.send().await.unwrap()).await.refused(Code::KeyMissing);
    }
    let request = on.request(Method::GET, "/v1/tasks").header("authorization", format!("bearer {}", on.admin));
    assert_eq!(request.send().await.unwrap().status(), 200, "the scheme's case does not matter");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_sees_and_touches_only_its_repos() {
    let on = Running::start().await;
    let (_, of_a) = on.key(json!({"role": "client", "repos": ["a"]})).await;
    let in_a = on.submit(&spec("a")).await;
    let in_b = on.submit(&spec("b")).await;
    let get = async |path: String| on.ask(&of_a, Method::GET, &path, None).await;
    assert_eq!(get(format!("/v1/tasks/{in_a}")).await.status, 200);
    let before = on.contents().await;
    for path in ["", "/events", "/output", "/why"] {
        get(format!("/v1/tasks/{in_b}{path}")).await.refused(Code::WrongRepo);
    }
    on.ask(&of_a, Method::POST, &format!("/v1/tasks/{in_b}/cancel"), None).await.refused(Code::WrongRepo);
    on.ask(&of_a, Method::POST, "/v1/tasks", Some(&spec("b"))).await.refused(Code::WrongRepo);
    get("/v1/tasks?repo=b".into()).await.refused(Code::WrongRepo);
    get("/v1/events?repo=b".into()).await.refused(Code::WrongRepo);
    assert_eq!(on.contents().await, before);
    let listed = get("/v1/tasks".into()).await.ok();
    let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|task| &task["id"]).collect();
    assert_eq!(ids, [&json!(in_a)]);
}

/// A worker whose key expires in a second, with a lease.
async fn expired(on: &Running) -> crate::worker::Lease {
    let (_, key) = on.key(json!({"role": "worker", "repos": ["a"], "ttl_s": 1})).await;
    let worker = crate::worker::Worker::new(on, key, &["a"]);
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    eventually("the key expires", async || (worker.ask(0).await.status == 401).then_some(())).await;
    lease
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_of_a_workers_key_stops_new_leases_but_not_the_report_of_a_held_one() {
    let on = Running::start().await;
    let lease = expired(&on).await;
    on.submit(&spec("a")).await;
    lease.worker.ask(0).await.refused(Code::KeyExpired);
    lease.renew(0).await.ok();
    lease.events(json!([crate::worker::output(1, "stdout", "x")])).await.ok();
    lease.exit(0).await.ok();
    assert_eq!(on.done(&lease.task).await["result"]["stdout"], "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_client_is_refused() {
    let on = Running::start().await;
    let (_, key) = on.key(json!({"role": "client", "ttl_s": 1})).await;
    let ask = async || on.ask(&key, Method::GET, "/v1/tasks", None).await;
    let refused = eventually("the key expires", async || Some(ask().await).filter(|answer| answer.status != 200)).await;
    refused.refused(Code::KeyExpired);
}

#[tokio::test(flavor = "multi_thread")]
async fn revocation_stops_everything_of_a_held_lease() {
    let on = Running::start().await;
    let (id, key) = on.key(json!({"role": "worker", "repos": ["a"]})).await;
    on.submit(&spec("a")).await;
    let lease = crate::worker::Worker::new(&on, key, &["a"]).lease().await;
    on.ask(&on.admin, Method::DELETE, &format!("/v1/keys/{id}"), None).await.ok();
    let before = on.task(&lease.task).await;
    lease.worker.ask(0).await.refused(Code::KeyRevoked);
    lease.renew(0).await.refused(Code::KeyRevoked);
    lease.events(json!([])).await.refused(Code::KeyRevoked);
    lease.exit(0).await.refused(Code::KeyRevoked);
    lease.release().await.refused(Code::KeyRevoked);
    assert_eq!(on.task(&lease.task).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_worker_whose_key_is_revoked_gets_no_task() {
    let on = Running::start().await;
    let (id, key) = on.key(json!({"role": "worker", "repos": ["a"]})).await;
    let worker = crate::worker::Worker::new(&on, key, &["a"]);
    let parked = tokio::spawn(async move { worker.ask(30).await });
    eventually("it is parked", async || on.get("/v1/workers").await.ok()["items"].get(0).cloned()).await;
    on.ask(&on.admin, Method::DELETE, &format!("/v1/keys/{id}"), None).await.ok();
    let task = on.submit(&spec("a")).await;
    parked.await.unwrap().refused(Code::KeyRevoked);
    assert_eq!(on.task(&task).await["state"], "queued");
    assert_eq!(on.worker(&["a"]).await.look().await.unwrap().task, task);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_worker_whose_key_expires_gets_no_task() {
    let on = Running::start().await;
    let (_, key) = on.key(json!({"role": "worker", "repos": ["a"], "ttl_s": 1})).await;
    let worker = crate::worker::Worker::new(&on, key, &["a"]);
    let parked = tokio::spawn({
        let worker = worker.clone();
        async move { worker.ask(30).await }
    });
    let since = Instant::now();
    eventually("the key expires", async || {
        (since.elapsed() > Duration::from_secs(1) && worker.ask(0).await.status == 401).then_some(())
    })
    .await;
    let task = on.submit(&spec("a")).await;
    parked.await.unwrap().refused(Code::KeyExpired);
    assert_eq!(on.task(&task).await["state"], "queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_key_is_revoked() {
    let on = Running::start().await;
    let (id, key) = on.key(json!({"role": "client"})).await;
    let task = on.submit(&spec("a")).await;
    let mut feed = Sse::open_as(&on, &key, "/v1/events").await;
    let mut of_task = Sse::open_as(&on, &key, &format!("/v1/tasks/{task}/events?after=1")).await;
    on.ask(&on.admin, Method::DELETE, &format!("/v1/keys/{id}"), None).await.ok();
    on.cancel(&task).await.ok();
    assert_eq!((feed.next().await, of_task.next().await), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_shown_once_and_never_again() {
    let on = Running::start().await;
    let made =
        on.post("/v1/keys", &json!({"role": "worker", "repos": ["a"], "name": "one", "ttl_s": 60})).await.json(201);
    let secret = made["key"].as_str().unwrap();
    assert!(secret.starts_with("cwk_") && secret.len() == 68);
    let listed = on.get("/v1/keys").await;
    let last = listed.ok()["items"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["id"], &last["name"], &last["repos"]), (&made["id"], &json!("one"), &json!(["a"])));
    assert!(!listed.text().contains("cwk_"));
    assert!(last["expires_at"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_twice_keeps_the_first_instant_and_an_unknown_key_is_not_found() {
    let on = Running::start().await;
    let (id, _) = on.key(json!({"role": "client"})).await;
    let revoke = async || on.ask(&on.admin, Method::DELETE, &format!("/v1/keys/{id}"), None).await.ok();
    assert_eq!(revoke().await, revoke().await);
    on.ask(&on.admin, Method::DELETE, "/v1/keys/key_00000000000000000000000000", None).await.refused(Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_survive_a_restart_and_a_revoked_one_stays_so() {
    let on = Running::start().await;
    let (_, kept) = on.key(json!({"role": "client"})).await;
    let (id, revoked) = on.key(json!({"role": "client"})).await;
    on.ask(&on.admin, Method::DELETE, &format!("/v1/keys/{id}"), None).await.ok();
    let on = Running::start_in(on.stop().await, |_| {}).await;
    assert_eq!(on.ask(&kept, Method::GET, "/v1/tasks", None).await.status, 200);
    on.ask(&revoked, Method::GET, "/v1/tasks", None).await.refused(Code::KeyRevoked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_makes_no_sense_is_not_made() {
    let on = Running::start().await;
    let before = on.contents().await;
    for (bad, field) in [
        (json!({"role": "worker"}), "repos"),
        (json!({"role": "admin", "repos": ["a"]}), "repos"),
        (json!({"role": "client", "ttl_s": 0}), "ttl_s"),
        (json!({"role": "client", "name": "a\nb"}), "name"),
        (json!({"role": "client", "repos": [".."]}), "repos[0]"),
        (json!({"role": "owner"}), "role"),
        (json!({}), ""),
        (json!({"role": "client", "nmae": "x"}), "nmae"),
    ] {
        let problem = on.post("/v1/keys", &bad).await.refused(Code::InvalidField);
        assert_eq!(problem.errors[0].field, field, "{bad}");
    }
    assert_eq!(on.contents().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_last_admins_key_has_expired_the_next_start_writes_a_new_one() {
    let on = Running::start().await;
    let first = on.get("/v1/keys").await.ok()["items"][0]["id"].as_str().unwrap().to_owned();
    let (_, brief) = on.key(json!({"role": "admin", "ttl_s": 2})).await;
    on.ask(&brief, Method::DELETE, &format!("/v1/keys/{first}"), None).await.ok();
    eventually("the other key expires", async || {
        (on.ask(&brief, Method::GET, "/v1/keys", None).await.status == 401).then_some(())
    })
    .await;
    let on = Running::start_in(on.stop().await, |_| {}).await;
    on.get("/v1/keys").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_id_is_spoken_for_by_the_key_that_first_used_it() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    worker.ask(0).await;
    let (_, other) = on.key(json!({"role": "worker", "repos": ["a"]})).await;
    let mut gone = worker.request(0);
    gone["worker"]["state"] = json!("gone");
    on.ask(&other, Method::POST, "/v1/leases", Some(&gone)).await.refused(Code::Conflict);
    assert_eq!(on.get("/v1/workers").await.ok()["items"][0]["state"], "ready");
}
