//! Running `cw` as a user does: its own home, nothing inherited, a deadline.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::peer::Peer;

/// A secret that must never be seen in an output.
pub(crate) const SECRET: &str = "cwk_not_to_be_seen";

/// A user with a home and a key.
pub(crate) struct User {
    pub(crate) home: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_cw"))
}

impl User {
    pub(crate) fn new() -> Self {
        let user = Self { home: tempfile::tempdir().unwrap(), variables: Vec::new() };
        let key = user.write(".local/state/code-workers/admin.key", &format!("{SECRET}\n"));
        set_mode(&key, 0o600);
        user
    }

    pub(crate) fn of(peer: &Peer) -> Self {
        Self::new().with("CW_COORDINATOR", &peer.url)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes a file below the home.
    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.home.path()).env("PATH", "/usr/bin:/bin").current_dir(self.home.path());
        command.envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(binary()).args(args).spawn().unwrap()
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        finish(self.spawn(args))
    }

    /// Runs it with something on stdin.
    pub(crate) fn run_with_stdin(&self, args: &[&str], stdin: &str) -> Ran {
        use std::io::Write as _;
        let mut child = self.command(binary()).args(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        finish(child)
    }
}

/// Waits for the end of a program, at most 30 seconds.
pub(crate) fn finish(child: Child) -> Ran {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output = receiver.recv_timeout(Duration::from_secs(30)).expect("cw did not end in time").unwrap();
    let ran = Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        stdout: output.stdout,
    };
    assert!(!ran.out.contains(SECRET) && !ran.err.contains(SECRET), "the key was shown: {ran:?}");
    ran
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) const ID: &str = "task_01hx5zzzzzzzzzzzzzzzzzzzz1";
pub(crate) const OTHER: &str = "task_01hx5zzzzzzzzzzzzzzzzzzzz2";

/// A task as the coordinator shows it.
pub(crate) fn task(id: &str, state: &str, reason: Option<&str>) -> Value {
    let is_done = !matches!(state, "queued" | "running");
    let result = json!({
        "exit_code": if state == "completed" { Some(0) } else if reason == Some("exit_nonzero") { Some(3) } else { None },
        "signal": null, "stdout": "", "stderr": "", "dropped_bytes": {"stdout": 0, "stderr": 0},
        "written_bytes": {"stdout": 0, "stderr": 0}, "return_value": null, "artifacts": [], "usage": null,
        "confinement": null, "published": null,
    });
    json!({
        "id": id, "repo": "rhizome", "state": state, "reason": reason, "priority": "normal", "attempt": 1,
        "max_attempts": 3, "session": null, "labels": {"k": "v"}, "worker": null,
        "created_at": "2026-01-01T00:00:00.000Z", "started_at": null, "finished_at": null, "cancel_requested_at": null,
        "spec": {"repo": "rhizome", "run": {"kind": "shell", "code": "true"}, "priority": "normal"},
        "result": if is_done { result } else { Value::Null }, "a_newer_field": 1,
    })
}

/// An event of a stream.
pub(crate) fn event(number: u64, name: &str, data: Value) -> String {
    format!("id: {number}\nevent: {name}\ndata: {data}\n\n")
}

pub(crate) fn state(number: u64, state: &str) -> String {
    let attempt = u8::from(state != "queued");
    let data =
        json!({"state": state, "reason": null, "attempt": attempt, "worker": null, "at": "2026-01-01T00:00:00.000Z"});
    event(number, "state", data)
}

pub(crate) fn output(number: u64, stream: &str, text: &str) -> String {
    event(number, "output", json!({"stream": stream, "text": text}))
}
