//! A coordinator that runs inside the test, and what a client and an operator do with it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coordinator::config::{Address, Config, Patience, Sessions};
use coordinator::retention::Retention;
use coordinator::shutdown::{self, Trigger};
use coordinator::store::{SessionRules, Ttls};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::answer::Answer;
use crate::worker::Worker;

/// How long a test waits for what must happen; only a failing one waits so long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A coordinator on two ports of its own.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) worker_url: String,
    pub(crate) admin: String,
    pub(crate) http: reqwest::Client,
    pub(crate) dir: Arc<TempDir>,
    trigger: Trigger,
    served: JoinHandle<anyhow::Result<()>>,
}

/// The configuration of a test: everything as usual, but ports that the system chooses.
pub(crate) fn config(dir: &Path) -> Config {
    let any_port = Address::Tcp("127.0.0.1:0".parse().unwrap());
    Config {
        state_dir: dir.to_owned(),
        listen: any_port.clone(),
        worker_listen: Some(any_port),
        allowed_hosts: Vec::new(),
        default_agent: "opencode".into(),
        ttls: Ttls { first_s: 10, code_s: 30, agent_s: 120 },
        retention: kept(30 * 86_400_000, 7 * 86_400_000),
        artifacts_limit: 1 << 20,
        sessions: Sessions {
            rules: SessionRules { quota_bytes: 1 << 30, layout: Vec::new() },
            utils_dir: None,
            skills_dir: None,
        },
        grace: DEADLINE,
        patience: Patience::default(),
    }
}

/// How long tasks and their output are kept; blobs that nobody names go at once.
pub(crate) fn kept(tasks_ms: i64, output_ms: i64) -> Retention {
    Retention { tasks_ms, output_ms, sessions_ms: None, orphans_ms: 0 }
}

/// Short leases, so that a test can see one lapse.
pub(crate) fn short_leases(config: &mut Config) {
    config.ttls = Ttls { first_s: 1, code_s: 1, agent_s: 2 };
}

/// Looks until something is there, and fails when it never is.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A task that prints, in this repo.
pub(crate) fn spec(repo: &str) -> Value {
    json!({"repo": repo, "run": {"kind": "python", "code": "print(1)"}})
}

/// The same with more fields.
pub(crate) fn spec_with(repo: &str, more: Value) -> Value {
    let mut spec = spec(repo);
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    spec
}

pub(crate) fn id(task: &Value) -> String {
    task["id"].as_str().unwrap().to_owned()
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_in(Arc::new(TempDir::new().unwrap()), change).await
    }

    pub(crate) async fn start_in(dir: Arc<TempDir>, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(dir.path());
        change(&mut config);
        let (trigger, shutdown) = shutdown::channel();
        let served = tokio::spawn(coordinator::run(config, shutdown));
        let announced = eventually("the coordinator says where it listens", async || {
            let said = std::fs::read(dir.path().join("coordinator.json")).ok()?;
            // A coordinator that was killed left its own words behind.
            serde_json::from_slice(&said).ok().filter(|said: &Value| said["pid"] == std::process::id())
        })
        .await;
        let url = |name: &str| announced[name].as_str().map(|address| format!("http://{address}")).unwrap_or_default();
        let admin = std::fs::read_to_string(dir.path().join("admin.key")).unwrap().trim().to_owned();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { url: url("listen"), worker_url: url("worker_listen"), admin, http, dir, trigger, served }
    }

    /// Tells it to stop, and goes on.
    pub(crate) fn tell_to_stop(&self) {
        self.trigger.stop();
    }

    /// Stops it, and leaves the state directory to a next one.
    pub(crate) async fn stop(self) -> Arc<TempDir> {
        self.trigger.stop();
        self.served.await.unwrap().unwrap();
        self.dir
    }

    /// The host and port, for raw connections.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).timeout(DEADLINE)
    }

    /// Asks as the bearer of a key.
    pub(crate) async fn ask(&self, key: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let request = self.request(method, path).bearer_auth(key);
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        };
        Answer::read(request.send().await.unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(&self.admin, Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(&self.admin, Method::POST, path, Some(body)).await
    }

    /// Submits a task and gives its id.
    pub(crate) async fn submit(&self, spec: &Value) -> String {
        id(&self.post("/v1/tasks", spec).await.json(201))
    }

    pub(crate) async fn task(&self, id: &str) -> Value {
        self.get(&format!("/v1/tasks/{id}")).await.ok()
    }

    /// Waits until a task is done.
    pub(crate) async fn done(&self, id: &str) -> Value {
        self.get(&format!("/v1/tasks/{id}?wait_s=15")).await.ok()
    }

    /// Waits until a task is in a state.
    pub(crate) async fn in_state(&self, id: &str, state: &str) -> Value {
        let look = async || Some(self.task(id).await).filter(|task| task["state"] == state);
        eventually(&format!("{id} is {state}"), look).await
    }

    pub(crate) async fn cancel(&self, id: &str) -> Answer {
        self.post(&format!("/v1/tasks/{id}/cancel"), &json!({})).await
    }

    pub(crate) async fn why(&self, id: &str) -> Value {
        self.get(&format!("/v1/tasks/{id}/why")).await.ok()
    }

    pub(crate) async fn change_repo(&self, repo: &str, change: Value) -> Answer {
        self.ask(&self.admin, Method::PATCH, &format!("/v1/repos/{repo}"), Some(&change)).await
    }

    /// Makes a key, and gives its id and its secret.
    pub(crate) async fn key(&self, new: Value) -> (String, String) {
        let made = self.post("/v1/keys", &new).await.json(201);
        (id(&made), made["key"].as_str().unwrap().to_owned())
    }

    /// A worker with a key for these repos that runs python.
    pub(crate) async fn worker(&self, repos: &[&str]) -> Worker {
        let (_, key) = self.key(json!({"role": "worker", "repos": repos})).await;
        Worker::new(self, key, repos)
    }

    /// Waits until so many workers have asked for work.
    pub(crate) async fn seen(&self, count: usize) {
        let look = async || (self.get("/v1/workers").await.ok()["items"].as_array()?.len() == count).then_some(());
        eventually("the workers ask for work", look).await;
    }

    /// Everything that a refused request could have changed.
    pub(crate) async fn contents(&self) -> Value {
        json!([
            self.get("/v1/tasks?limit=500").await.ok(),
            self.get("/v1/repos?limit=500").await.ok(),
            self.get("/v1/keys?limit=500").await.ok(),
        ])
    }
}
