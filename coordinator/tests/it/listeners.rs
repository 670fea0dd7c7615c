//! Where the coordinator listens, and what it serves where.

use coordinator::config::Address;
use coordinator::shutdown;
use protocol::Code;
use protocol::admin::Version;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::answer::Answer;
use crate::running::{DEADLINE, Running, config, eventually, spec};

#[tokio::test(flavor = "multi_thread")]
async fn the_workers_listener_serves_only_leases_and_health() {
    let on = Running::start().await;
    let ask_as = async |key: &str, method: Method, path: &str, body: Value| {
        let request = on.http.request(method, format!("{}{path}", on.worker_url)).bearer_auth(key);
        let request = request.timeout(DEADLINE).header("content-type", "application/json");
        Answer::read(request.body(body.to_string()).send().await.unwrap()).await
    };
    let ask = async |method: Method, path: &str, body: Value| ask_as(&on.admin, method, path, body).await;
    let task = on.submit(&spec("a")).await;
    let before = on.contents().await;
    for (method, path) in [
        (Method::POST, "/v1/tasks".to_owned()),
        (Method::GET, "/v1/tasks".into()),
        (Method::GET, format!("/v1/tasks/{task}")),
        (Method::POST, format!("/v1/tasks/{task}/cancel")),
        (Method::GET, format!("/v1/tasks/{task}/events")),
        (Method::GET, format!("/v1/tasks/{task}/output")),
        (Method::GET, format!("/v1/tasks/{task}/why")),
        (Method::GET, "/v1/events".into()),
        (Method::POST, "/v1/keys".into()),
        (Method::GET, "/v1/keys".into()),
        (Method::GET, "/v1/workers".into()),
        (Method::GET, "/v1/repos".into()),
        (Method::PATCH, "/v1/repos/a".into()),
    ] {
        ask(method, &path, spec("a")).await.refused(Code::NotFound);
    }
    assert_eq!(on.contents().await, before);
    for path in ["/livez", "/readyz", "/version", "/openapi.json"] {
        assert_eq!(ask(Method::GET, path, json!({})).await.status, 200, "{path}");
    }
    let worker = on.worker(&["a"]).await;
    let ask = async |method: Method, path: &str, body: Value| ask_as(&worker.key, method, path, body).await;
    let grant = ask(Method::POST, "/v1/leases", worker.request(0)).await.ok();
    let lease = format!("/v1/leases/{}", grant["lease"].as_str().unwrap());
    ask(Method::POST, &format!("{lease}/renew"), json!({})).await.ok();
    ask(Method::POST, &format!("{lease}/events"), json!({"events": []})).await.ok();
    ask(Method::PUT, &format!("{lease}/report"), json!({"outcome": "oom"})).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_listens_on_a_unix_socket_and_removes_it() {
    let dir = std::sync::Arc::new(tempfile::TempDir::new().unwrap());
    let socket = dir.path().join("cw.sock");
    // What a killed coordinator left behind is no hindrance.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let on = Running::start_in(dir, |config| config.listen = Address::Unix(socket.clone())).await;
    let mut stream = UnixStream::connect(&socket).await.unwrap();
    let head = crate::raw::request("GET /v1/tasks", &on.admin, "Connection: close\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(r#"{"items":[],"next_cursor":null}"#), "{answer}");
    let (_, second) = shutdown::channel();
    let mut other = config(&on.dir.path().join("other"));
    other.listen = Address::Unix(socket.clone());
    let error = coordinator::run(other, second).await.unwrap_err().to_string();
    assert!(error.contains("another program listens on"), "{error}");
    on.stop().await;
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_coordinator_on_the_same_state_refuses_and_says_who_holds_it() {
    let on = Running::start().await;
    let (_, second) = shutdown::channel();
    let error = coordinator::run(config(on.dir.path()), second).await.unwrap_err().to_string();
    assert!(error.contains(on.address()) && error.contains(&std::process::id().to_string()), "{error}");
    assert_eq!(on.get("/readyz").await.status, 200, "the first goes on");
    let on = Running::start_in(on.stop().await, |_| {}).await;
    assert_eq!(on.get("/readyz").await.status, 200, "and leaves room for the next");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_taken_is_named() {
    let on = Running::start().await;
    let dir = tempfile::TempDir::new().unwrap();
    let mut other = config(dir.path());
    other.listen = Address::Tcp(on.address().parse().unwrap());
    let (_, shutdown) = shutdown::channel();
    let error = format!("{:#}", coordinator::run(other, shutdown).await.unwrap_err());
    assert!(error.contains(on.address()) && error.contains("another"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_version_need_no_key() {
    let on = Running::start().await;
    let ask = async |path: &str| Answer::read(on.request(Method::GET, path).send().await.unwrap()).await;
    assert_eq!((ask("/livez").await.text(), ask("/readyz").await.text()), ("ok\n".into(), "ok\n".into()));
    let version: Version = serde_json::from_value(ask("/version").await.ok()).unwrap();
    assert_eq!((version.protocol, version.oldest_protocol), (protocol::PROTOCOL, protocol::OLDEST_PROTOCOL));
    assert_eq!(ask("/livez").await.headers["cache-control"], "no-store");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_listed_with_what_it_said_of_itself() {
    let on = Running::start().await;
    let mut worker = on.worker(&["b", "a"]).await;
    worker.info["slots"] = json!(3);
    worker.info["confinement"] = json!(["bwrap"]);
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    let listed = async || on.get("/v1/workers").await.ok()["items"][0].clone();
    let seen = listed().await;
    assert_eq!((&seen["id"], &seen["repos"]), (&json!(worker.id()), &json!(["a", "b"])));
    assert_eq!((&seen["slots"], &seen["running"], &seen["confinement"]), (&json!(3), &json!(1), &json!(["bwrap"])));
    assert_eq!((&seen["state"], &seen["version"], &seen["why"]), (&json!("ready"), &json!("0.1.0"), &Value::Null));
    lease.exit(0).await.ok();
    assert_eq!(listed().await["running"], 0);
    let on = Running::start_in(on.stop().await, |_| {}).await;
    eventually("it is remembered", async || on.get("/v1/workers").await.ok()["items"].get(0).cloned()).await;
}
