//! Real S3 servers on ports that the system chooses. `scripts/fetch s3` installs them, once.

use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::{Patience, Secret, Settings};

pub(crate) const ACCESS_KEY: &str = "AKIDTEST";
pub(crate) const SECRET_KEY: &str = "not-so-secret";
pub(crate) const BUCKET: &str = "bucket";

/// A server. It ends with the test.
pub(crate) struct Server {
    child: Child,
    /// What rclone serves.
    pub(crate) dir: tempfile::TempDir,
    /// Where it listens.
    pub(crate) url: String,
}

impl Server {
    /// Serves a directory, and checks signatures.
    pub(crate) fn rclone() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(BUCKET)).unwrap();
        Self::rclone_in(dir, "127.0.0.1:0")
    }

    pub(crate) fn rclone_in(dir: tempfile::TempDir, address: &str) -> Self {
        let mut command = Command::new(installed("rclone"));
        command.args(["serve", "s3", "--config", "/dev/null", "--addr", address]);
        command.args(["--auth-key", &format!("{ACCESS_KEY},{SECRET_KEY}")]).arg(dir.path());
        Self::start(command, dir)
    }

    /// Keeps everything in memory, and believes every signature.
    pub(crate) async fn moto() -> Self {
        let mut command = Command::new(installed("python3"));
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]).env("NO_COLOR", "1");
        let server = Self::start(command, tempfile::tempdir().unwrap());
        let made = reqwest::Client::new().put(format!("{}/{BUCKET}", server.url)).send().await.unwrap();
        assert!(made.status().is_success(), "{made:?}");
        server
    }

    fn start(mut command: Command, dir: tempfile::TempDir) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starting a server");
        let said = child.stderr.take().unwrap();
        let (found, url) = mpsc::channel();
        std::thread::spawn(move || listen_to(said, &found));
        let url = url.recv_timeout(Duration::from_secs(120)).expect("the server does not say where it listens");
        Self { child, dir, url }
    }

    /// Ends it at once, and gives what it served.
    pub(crate) fn kill(mut self) -> (tempfile::TempDir, String) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap());
        (dir, self.url.clone())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Finds the address in what a server says, and lets it say the rest.
fn listen_to(said: impl Read, found: &mpsc::Sender<String>) {
    let mut log = String::new();
    for line in BufReader::new(said).lines().map_while(Result::ok) {
        if let Some((_, rest)) = line.split_once("http://") {
            let host: String = rest.chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect();
            let _ = found.send(format!("http://{host}"));
        }
        log = line;
    }
    eprintln!("the server's last words: {log}");
}

fn installed(program: &str) -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/fetch");
    let output = Command::new(script).arg("s3").output().expect("running scripts/fetch");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the S3 servers for tests are missing, and scripts/fetch s3 did not get them: {said}"
    );
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()).join("bin").join(program)
}

/// Short waits, so that what must fail does so soon.
pub(crate) fn settings(url: &str) -> Settings {
    let (answer, retry_for) = (Duration::from_secs(10), Duration::from_secs(20));
    let patience = Patience { connect: Duration::from_secs(2), answer, piece: answer, retries: 3, retry_for };
    Settings {
        endpoint: url.into(),
        region: "us-east-1".into(),
        bucket: BUCKET.into(),
        prefix: "some/where".into(),
        access_key: ACCESS_KEY.into(),
        secret_key: Secret(SECRET_KEY.into()),
        patience,
    }
}
