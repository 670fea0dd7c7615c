//! A worker under test, and what it leaves on the machine.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::peer::{KEY, PATIENCE, Peer};

/// Waits for a condition, as long as is patient.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the kernel is gVisor's. Every Linux that has user namespaces has this file.
pub(crate) fn is_gvisor() -> bool {
    !Path::new("/proc/self/setgroups").exists()
}

/// A worker whose mounts are its own. A script makes them, with these arguments, and becomes what follows the arguments: that
/// is the worker, which has the user of the tests and no right to mount.
pub(crate) fn with_mounts(script: &str, arguments: &[&OsStr], worker: &Command) -> Command {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let mut command = Command::new("unshare");
    let without_rights = if uid.is_root() {
        ["setpriv".into(), "--inh-caps=-all".into(), "--ambient-caps=-all".into(), "--bounding-set=-sys_admin".into()]
    } else {
        // Root in a user namespace may mount, and in one more the user is back.
        command.args(["--user", "--map-root-user"]);
        ["unshare".into(), "--user".into(), format!("--map-user={uid}"), format!("--map-group={gid}")]
    };
    command.args(["--mount", "sh", "-c", script, "sh"]).args(arguments).args(without_rights);
    command.arg(worker.get_program()).args(worker.get_args()).env_clear();
    command.envs(worker.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A state directory with a key, and commands to start workers on it.
pub(crate) struct Bench {
    pub(crate) home: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("key"), format!("{KEY}\n")).unwrap();
        std::fs::create_dir(home.path().join("shared")).unwrap();
        for open in [home.path().to_path_buf(), home.path().join("shared")] {
            std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { home }
    }

    /// A file that tasks see once it is there.
    pub(crate) fn gate(&self) -> PathBuf {
        self.home.path().join("shared/gate")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    pub(crate) fn command(&self, url: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cw-worker"));
        command.arg("run").args(args).env_clear();
        command.env("CW_COORDINATOR", url).env("CW_REPO", "rhizome").env("CW_STATE_DIR", self.state());
        command.env("CW_RO_MOUNT", self.home.path().join("shared"));
        command.env("CW_KEY_FILE", self.home.path().join("key")).env("SECRET_OF_THE_HOST", "must not be seen");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn worker(&self, peer: &Peer, args: &[&str]) -> Running {
        Running::start(self.command(&peer.url(), args))
    }

    /// Runs a worker that is expected not to start; says its code and its words.
    pub(crate) fn refused(&self, url: &str, args: &[&str]) -> (Option<i32>, String) {
        let output = self.command(url, args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// The files of the spool.
    pub(crate) fn spooled(&self) -> Vec<PathBuf> {
        let mut files = files(&self.state().join("spool"));
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files
    }

    /// A file of the one attempt that runs.
    pub(crate) fn in_attempt(&self, file: &str) -> Option<String> {
        let mut attempts = std::fs::read_dir(self.state().join("attempts")).ok()?;
        attempts.find_map(|attempt| std::fs::read_to_string(attempt.ok()?.path().join(file)).ok())
    }

    /// The attempts whose tasks moved in; those that wait for one are hidden.
    pub(crate) fn attempts(&self) -> usize {
        let Ok(entries) = std::fs::read_dir(self.state().join("attempts")) else { return 0 };
        entries.flatten().filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
    }
}

pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

/// A worker that runs; killed when dropped.
pub(crate) struct Running {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, into) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                into.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, log }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The outermost stages of its attempts, of those that wait for a task too.
    pub(crate) fn stages(&self) -> Vec<Pid> {
        let pid = self.pid().as_raw_nonzero();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default());
        let pids: Vec<String> =
            lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
        pids.iter().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }

    /// All processes below it, whichever namespace they are in.
    pub(crate) fn descendants(&self) -> Vec<Pid> {
        let parent = |pid: i32| -> Option<i32> {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
        };
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        let mut found = vec![self.pid().as_raw_nonzero().get()];
        let mut looked = 0;
        while looked < found.len() {
            let above = found[looked];
            found.extend(pids.iter().filter(|pid| parent(**pid) == Some(above)));
            looked += 1;
        }
        found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn logged(&self, text: &str) {
        eventually(&format!("log {text:?} in:\n{}", self.log()), || self.log().contains(text));
    }

    pub(crate) fn exit(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the worker's exit", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    pub(crate) fn code(&mut self) -> Option<i32> {
        self.exit().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the worker's log\n{}---", self.log());
        }
    }
}

/// A number that no other test's command line holds, to find processes by.
pub(crate) fn token() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("7{:07}.{:05}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The living processes whose command line holds this token.
pub(crate) fn processes(token: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(token) {
            found.push(pid);
        }
    }
    found
}

pub(crate) fn wait_for_processes(token: &str, count: usize) {
    eventually(&format!("{count} processes of {token}"), || processes(token).len() == count);
}
