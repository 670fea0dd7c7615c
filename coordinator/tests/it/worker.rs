//! A worker that only speaks: it takes leases and says about them what the test wants.

use std::time::Duration;

use protocol::WorkerId;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::running::{DEADLINE, Running};

/// One start of a worker.
#[derive(Clone)]
pub(crate) struct Worker {
    http: reqwest::Client,
    url: String,
    pub(crate) key: String,
    pub(crate) info: Value,
    pub(crate) repos: Vec<String>,
}

/// A lease that it was given.
#[derive(Clone)]
pub(crate) struct Lease {
    pub(crate) worker: Worker,
    pub(crate) id: String,
    pub(crate) task: String,
    pub(crate) grant: Value,
}

/// An event with output.
pub(crate) fn output(number: u64, stream: &str, text: &str) -> Value {
    json!({"number": number, "type": "output", "stream": stream, "text": text})
}

impl Worker {
    pub(crate) fn new(on: &Running, key: String, repos: &[&str]) -> Self {
        let mut random = [0u8; 16];
        getrandom::fill(&mut random).unwrap();
        let id = WorkerId::new(0, u128::from_be_bytes(random)).to_string();
        Self {
            http: on.http.clone(),
            url: on.url.clone(),
            key,
            info: json!({"id": id, "version": "0.1.0", "runs": ["python", "session"], "confinement": [], "slots": 1}),
            repos: repos.iter().map(|&repo| repo.to_owned()).collect(),
        }
    }

    /// The same worker with other words for what it can run.
    pub(crate) fn runs(mut self, words: &[&str]) -> Self {
        self.info["runs"] = json!(words);
        self
    }

    pub(crate) fn id(&self) -> &str {
        self.info["id"].as_str().unwrap()
    }

    pub(crate) async fn say(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key);
        let request = request.timeout(Duration::from_secs(60) + DEADLINE).body(body.to_string());
        Answer::read(request.header("content-type", "application/json").send().await.unwrap()).await
    }

    pub(crate) fn request(&self, wait_s: u32) -> Value {
        json!({"worker": self.info, "repos": self.repos, "wait_s": wait_s})
    }

    pub(crate) async fn ask(&self, wait_s: u32) -> Answer {
        self.say(Method::POST, "/v1/leases", &self.request(wait_s)).await
    }

    /// The next task, if there is one within the wait.
    pub(crate) async fn lease_within(&self, wait_s: u32) -> Option<Lease> {
        let answer = self.ask(wait_s).await;
        if answer.status == 204 {
            return None;
        }
        let grant = answer.ok();
        let text = |name: &str| grant[name].as_str().unwrap().to_owned();
        Some(Lease { worker: self.clone(), id: text("lease"), task: text("task"), grant })
    }

    /// The next task, if there is one now.
    pub(crate) async fn look(&self) -> Option<Lease> {
        self.lease_within(0).await
    }

    /// The next task, which must come.
    pub(crate) async fn lease(&self) -> Lease {
        self.lease_within(15).await.unwrap()
    }
}

impl Lease {
    fn path(&self, verb: &str) -> String {
        format!("/v1/leases/{}/{verb}", self.id)
    }

    pub(crate) async fn renew(&self, wait_s: u32) -> Answer {
        self.worker.say(Method::POST, &self.path("renew"), &json!({"wait_s": wait_s})).await
    }

    pub(crate) async fn report(&self, report: &Value) -> Answer {
        self.worker.say(Method::PUT, &self.path("report"), report).await
    }

    /// Reports that the process left with this code.
    pub(crate) async fn exit(&self, code: i32) -> Answer {
        self.report(&json!({"outcome": {"exited": {"code": code}}})).await
    }

    pub(crate) async fn release(&self) -> Answer {
        self.worker.say(Method::POST, &self.path("release"), &json!({})).await
    }

    pub(crate) async fn events(&self, events: Value) -> Answer {
        self.worker.say(Method::POST, &self.path("events"), &json!({"events": events})).await
    }

    /// Brings a file.
    pub(crate) async fn upload(&self, path: &str, bytes: &[u8]) -> Answer {
        self.upload_with(&[("path", path)], bytes).await
    }

    /// Brings a file with this query.
    pub(crate) async fn upload_with(&self, query: &[(&str, &str)], bytes: &[u8]) -> Answer {
        let mut url = reqwest::Url::parse(&format!("{}{}", self.worker.url, self.path("uploads"))).unwrap();
        url.query_pairs_mut().extend_pairs(query);
        let request = self.worker.http.post(url).bearer_auth(&self.worker.key).timeout(DEADLINE);
        Answer::read(request.body(bytes.to_vec()).send().await.unwrap()).await
    }

    pub(crate) fn url(&self) -> &str {
        &self.worker.url
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.worker.http
    }

    /// The same lease in the hands of another key.
    pub(crate) fn stolen_by(&self, key: &str) -> Self {
        let mut thief = self.clone();
        key.clone_into(&mut thief.worker.key);
        thief
    }
}
