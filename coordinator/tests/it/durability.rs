//! The real program: what it acknowledged survives its sudden death, and a backup can be made while it works.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::running::{Running, eventually, spec};

/// The program as a process that a test may kill.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cw-coordinator"));
    command.env_clear().env("CW_STATE_DIR", dir).env("CW_LISTEN", "127.0.0.1:0").env("CW_WORKER_LISTEN", "none");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts it and waits until it says where it listens.
async fn start(dir: &Path) -> (Program, String, String) {
    started(program(dir), dir).await
}

async fn started(mut command: Command, dir: &Path) -> (Program, String, String) {
    let program = Program(command.spawn().unwrap());
    let pid = program.0.id();
    let url = eventually("the program listens", async || {
        let said = std::fs::read(dir.join("coordinator.json")).ok()?;
        let said: Value = serde_json::from_slice(&said).ok().filter(|said: &Value| said["pid"] == pid)?;
        Some(format!("http://{}", said["listen"].as_str()?))
    })
    .await;
    (program, url, std::fs::read_to_string(dir.join("admin.key")).unwrap().trim().to_owned())
}

async fn submit(http: &reqwest::Client, url: &str, key: &str) -> Option<String> {
    let request = http.post(format!("{url}/v1/tasks")).bearer_auth(key).header("content-type", "application/json");
    let answer = request.body(spec("a").to_string()).send().await.ok().filter(|answer| answer.status() == 201)?;
    let task: Value = serde_json::from_slice(&answer.bytes().await.ok()?).ok()?;
    Some(task["id"].as_str()?.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_submission_survives_sudden_death() {
    let dir = Arc::new(TempDir::new().unwrap());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let (mut program, url, key) = start(dir.path()).await;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (http, url, key) = (http.clone(), url.clone(), key.clone());
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                while let Some(task) = submit(&http, &url, &key).await {
                    acknowledged.push(task);
                }
                acknowledged
            })
        })
        .collect();
    // Under load, at no particular moment.
    eventually("some are queued", async || {
        let list = http.get(format!("{url}/v1/tasks?limit=500")).bearer_auth(&key).send().await.ok()?;
        let list: Value = serde_json::from_slice(&list.bytes().await.ok()?).ok()?;
        (list["items"].as_array()?.len() > 100).then_some(())
    })
    .await;
    program.0.kill().unwrap();
    program.0.wait().unwrap();
    let on = Running::start_in(dir, |_| {}).await;
    let mut count = 0;
    for client in clients {
        for task in client.await.unwrap() {
            assert_eq!(on.task(&task).await["state"], "queued");
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_program_with_success() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = TempDir::new().unwrap();
        let (mut program, ..) = start(dir.path()).await;
        kill_process(Pid::from_child(&program.0), signal).unwrap();
        let status = tokio::task::spawn_blocking(move || program.0.wait().unwrap()).await.unwrap();
        assert!(status.success(), "{status}");
        assert_eq!(std::fs::read(dir.path().join("coordinator.json")).unwrap(), b"", "nobody runs here any more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_report_and_cancel_survive_sudden_death() {
    let dir = Arc::new(TempDir::new().unwrap());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let (mut program, url, key) = start(dir.path()).await;
    let ask_as = async |key: &str, method: Method, path: &str, body: Value| -> Value {
        let request = http.request(method, format!("{url}{path}")).bearer_auth(key);
        let answer = request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    };
    let made = ask_as(&key, Method::POST, "/v1/keys", json!({"role": "worker", "repos": ["a"]})).await;
    let worker_key = made["key"].as_str().unwrap();
    let reported = submit(&http, &url, &key).await.unwrap();
    let worker = json!({"id": "worker_00000000000000000000000000", "runs": ["python"]});
    let grant = ask_as(worker_key, Method::POST, "/v1/leases", json!({"worker": worker, "repos": ["a"]})).await;
    let report = format!("/v1/leases/{}/report", grant["lease"].as_str().unwrap());
    ask_as(worker_key, Method::PUT, &report, json!({"outcome": {"exited": {"code": 0}}})).await;
    let cancelled = submit(&http, &url, &key).await.unwrap();
    ask_as(&key, Method::POST, &format!("/v1/tasks/{cancelled}/cancel"), json!({})).await;
    program.0.kill().unwrap();
    program.0.wait().unwrap();
    let on = Running::start_in(dir, |_| {}).await;
    assert_eq!(on.task(&reported).await["state"], "completed");
    assert_eq!(on.task(&cancelled).await["state"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_of_a_bare_prompt_is_the_environments_else_opencode() {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    for (variable, agent) in [(None, "opencode"), (Some("aider"), "aider")] {
        let dir = TempDir::new().unwrap();
        let mut command = program(dir.path());
        command.envs(variable.map(|name| ("CW_AGENT", name)));
        let (_program, url, key) = started(command, dir.path()).await;
        let prompt = json!({"repo": "a", "run": {"kind": "agent", "prompt": "fix it"}});
        let request = http.post(format!("{url}/v1/tasks")).bearer_auth(key);
        let answer = request.header("content-type", "application/json").body(prompt.to_string()).send().await.unwrap();
        let task: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(task["spec"]["run"]["agent"], agent);
    }
}

fn backup(dir: &Path, to: &Path) -> Output {
    program(dir).arg("backup").arg(to).stderr(Stdio::piped()).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_opens_and_has_what_was_acknowledged_before_it() {
    let on = Running::start().await;
    let mut before = Vec::new();
    for _ in 0..50 {
        before.push(on.submit(&spec("a")).await);
    }
    let load = tokio::spawn({
        let (http, url, key) = (on.http.clone(), on.url.clone(), on.admin.clone());
        async move { while submit(&http, &url, &key).await.is_some() {} }
    });
    let copy = Arc::new(TempDir::new().unwrap());
    let file = copy.path().join("queue.db");
    let made = backup(on.dir.path(), &file);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    on.stop().await;
    load.await.unwrap();

    let again = backup(copy.path(), &file);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && said.contains("exists already"), "{said}");
    let db = rusqlite::Connection::open(&file).unwrap();
    let health: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(health, "ok");
    for task in before {
        let id: protocol::TaskId = task.parse().unwrap();
        assert!(db.prepare("SELECT 1 FROM tasks WHERE id = ?1").unwrap().exists([id.to_bytes()]).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_nothing_says_what_to_set() {
    let dir = TempDir::new().unwrap();
    let made = backup(dir.path(), &dir.path().join("copy.db"));
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(!made.status.success() && said.contains("CW_STATE_DIR"), "{said}");
    assert!(!dir.path().join("copy.db").exists());
}

/// The program with a worker's key, which a test kills and starts again on the same directory.
pub(crate) struct Killable {
    program: Program,
    dir: Arc<TempDir>,
    http: reqwest::Client,
    pub(crate) url: String,
    admin: String,
    worker: String,
}

impl Killable {
    pub(crate) async fn start() -> Self {
        let dir = Arc::new(TempDir::new().unwrap());
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let (program, url, admin) = start(dir.path()).await;
        let mut this = Self { program, dir, http, url, admin, worker: String::new() };
        let new = json!({"role": "worker", "repos": ["a"]}).to_string().into_bytes();
        let made = this.send(&this.admin, Method::POST, &format!("{}/v1/keys", this.url), new).await.unwrap();
        let made: Value = serde_json::from_str(&made).unwrap();
        made["key"].as_str().unwrap().clone_into(&mut this.worker);
        this
    }

    async fn send(&self, key: &str, method: Method, url: &str, body: Vec<u8>) -> Option<String> {
        let request = self.http.request(method, url).bearer_auth(key).header("content-type", "application/json");
        let answer = request.body(body).send().await.ok().filter(|answer| answer.status().is_success())?;
        answer.text().await.ok()
    }

    pub(crate) async fn submit(&self, spec: &Value) {
        let url = format!("{}/v1/tasks", self.url);
        self.send(&self.admin, Method::POST, &url, spec.to_string().into_bytes()).await.unwrap();
    }

    pub(crate) async fn as_worker(&self, method: Method, url: &str, body: Vec<u8>) -> Option<String> {
        self.send(&self.worker, method, url, body).await
    }

    pub(crate) async fn client(&self, path: &str) -> Value {
        let said = self.send(&self.admin, Method::GET, &format!("{}{path}", self.url), Vec::new()).await.unwrap();
        serde_json::from_str(&said).unwrap()
    }

    /// Leases the next task of the session and renews.
    pub(crate) async fn lease(&self) -> String {
        let worker = json!({"id": "worker_00000000000000000000000000", "runs": ["python", "session"]});
        let ask = json!({"worker": worker, "repos": ["a"], "wait_s": 15}).to_string().into_bytes();
        let grant = self.as_worker(Method::POST, &format!("{}/v1/leases", self.url), ask).await.unwrap();
        let grant: Value = serde_json::from_str(&grant).unwrap();
        grant["lease"].as_str().unwrap().to_owned()
    }

    /// Cancels what is left of the tasks, so that the next one goes first.
    async fn cancel_all(&self) {
        for task in self.client("/v1/tasks?limit=500").await["items"].as_array().unwrap() {
            let url = format!("{}/v1/tasks/{}/cancel", self.url, task["id"].as_str().unwrap());
            self.send(&self.admin, Method::POST, &url, b"{}".to_vec()).await;
        }
    }

    pub(crate) async fn killed_and_restarted(mut self) -> Self {
        self.program.0.kill().unwrap();
        self.program.0.wait().unwrap();
        let (program, url, admin) = start(self.dir.path()).await;
        let this = Self { program, url, admin, dir: self.dir, http: self.http, worker: self.worker };
        this.cancel_all().await;
        this
    }
}
