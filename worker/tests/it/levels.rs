//! Confinement without namespaces, which the operator must ask for: `process` as root, `none` as an ordinary user. Each
//! user can have one of them; for the other the tests claim the refusal.

use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::doctor::{changed, is_root, json as parsed, layer};
use crate::peer::Peer;
use crate::run::{Bench, Running};

mod closed;
mod ended;

/// The level below bubblewrap that this user can have.
fn lower() -> &'static str {
    if is_root() { "process" } else { "none" }
}

/// The first Landlock that also refuses signals.
const SIGNALS_TOO: i32 = 6;

/// A worker at a level, with users of its own.
struct Place {
    bench: Bench,
    peer: Peer,
    worker: Running,
    level: &'static str,
}

impl Place {
    fn new(level: &'static str, args: &[&str]) -> Self {
        let (bench, peer) = (Bench::new(), Peer::start());
        let uid = own_uid();
        let args = [&["--confinement", level, "--task-uid", &uid], args].concat();
        let worker = bench.worker(&peer, &args);
        Self { bench, peer, worker, level }
    }

    fn lower(args: &[&str]) -> Self {
        Self::new(lower(), args)
    }

    /// What the worker says it proved.
    fn proved(&self) -> Vec<String> {
        let body = self.peer.seen("/v1/leases", |_| true).body;
        serde_json::from_value(body["worker"]["confinement"].clone()).unwrap()
    }

    /// Whether this kernel keeps tasks from files and from other processes. The worker must know it as well.
    fn has_landlock(&self) -> bool {
        let ask = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))";
        let output = Command::new("python3").args(["-c", ask]).output().unwrap();
        let version: i32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        let proved = self.proved().iter().any(|word| word == "landlock");
        assert_eq!(proved, version >= SIGNALS_TOO, "version {version}");
        proved
    }

    /// Runs Python with these arguments; says what it printed.
    fn python(&self, code: &str, args: &[&str]) -> String {
        let lease = self.peer.task(json!({"run": {"kind": "python", "code": code}, "args": args}));
        let report = self.peer.report(&lease);
        assert_eq!(report["outcome"], json!({"exited": {"code": 0}}), "{}", self.peer.stderr(&lease));
        self.peer.stdout(&lease)
    }
}

/// The first of users that nobody else has: limits on processes count all of a user's.
fn own_uid() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    (200_000 + std::process::id() * 64 + NEXT.fetch_add(1, Ordering::Relaxed) * 4).to_string()
}

fn doctor(arguments: &str) -> std::process::Output {
    let bench = Bench::new();
    std::fs::create_dir(bench.state()).unwrap();
    changed(&bench, "--mount", "true", &format!("doctor {arguments}"))
}

#[test]
fn each_level_runs_every_language_and_stands_in_the_result() {
    for level in ["bwrap", lower()] {
        let place = Place::new(level, &[]);
        let peer = &place.peer;
        let event = json!({"a": 2});
        let python = "import helper, os, tempfile\nopen('made', 'w').write('x')\ntempfile.TemporaryFile()\n\
                      assert os.getcwd() == os.environ['CW_WORKSPACE_DIR'] and os.path.isdir(os.environ['HOME'])\nprint(helper.N)";
        let tasks = [
            (json!({"run": {"kind": "python", "code": python}, "files": {"helper.py": "N = 42"}}), "42\n"),
            (json!({"run": {"kind": "shell", "code": "read a; cd ~; echo $a | (cat)"}, "stdin": "in"}), "in\n"),
            (json!({"run": {"kind": "javascript", "code": "console.log(6 * 7)"}}), "42\n"),
            (json!({"run": {"kind": "command", "argv": ["sh", "-c", "cd \"$TMPDIR\" && echo > x && ls x"]}}), "x\n"),
            (json!({"run": {"kind": "python", "code": "def handler(e): return e['a'] * 21"}, "event": event}), ""),
            (
                json!({"run": {"kind": "javascript", "code": "exports.handler = async e => e.a * 21"}, "event": event}),
                "",
            ),
        ];
        for (spec, said) in tasks {
            let lease = peer.task(spec.clone());
            let report = peer.report(&lease);
            assert_eq!(report["outcome"], json!({"exited": {"code": 0}}), "{level}: {}", peer.stderr(&lease));
            assert_eq!((&report["confinement"], peer.stdout(&lease).as_str()), (&json!(level), said));
            let returned = if spec["event"].is_null() { Value::Null } else { json!(42) };
            assert_eq!(report.get("return_value").unwrap_or(&Value::Null), &returned, "{level}: {report}");
        }
        assert_eq!(place.proved()[0], place.level);
    }
}

#[test]
fn a_level_that_this_user_cannot_have_is_refused_and_the_other_named() {
    let other = if is_root() { "none" } else { "process" };
    let (code, said) = Bench::new().refused("http://127.0.0.1:9", &["--confinement", other]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains(&format!("--confinement {}", lower())), "{said}");
}

#[test]
fn no_worker_takes_a_lower_level_by_itself_when_bubblewrap_is_missing() {
    let hide = "for at in /usr/bin/bwrap /bin/bwrap; do mount --bind /dev/null $at 2>/dev/null || true; done";
    let bench = Bench::new();
    std::fs::create_dir(bench.state()).unwrap();
    let key = bench.home.path().join("key").display().to_string();
    let peer = Peer::start();
    let run = format!("run --coordinator {} --repo r --key-file {key} --idle-exit 0s", peer.url());
    for confinement in ["", "--confinement auto", "--confinement bwrap"] {
        let output = changed(&bench, "--mount", hide, &format!("{run} {confinement}"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("none is taken") && said.contains("bubblewrap is not installed"), "{said}");
    }
    assert!(peer.requests().is_empty(), "it asked for a lease all the same");
    let uid = own_uid();
    let output = changed(&bench, "--mount", hide, &format!("{run} --confinement {} --task-uid {uid}", lower()));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(peer.seen("/v1/leases", |_| true).body["worker"]["confinement"][0], lower());
}

#[test]
fn a_lower_level_warns_at_every_start() {
    let place = Place::lower(&[]);
    place.worker.logged(&format!("WARN --confinement {}: tasks", lower()));
    place.worker.logged("run no task that you do not trust");
    let usual = Place::new("bwrap", &[]);
    usual.proved();
    assert!(!usual.worker.log().contains("WARN"), "{}", usual.worker.log());
}

#[test]
fn the_doctor_says_no_of_walls_that_the_level_does_not_have() {
    let asked = format!("--quick --confinement {} --task-uid {}", lower(), own_uid());
    let found = parsed(&doctor(&format!("{asked} --json")));
    assert_eq!((&found["ok"], &found["level"]), (&json!(true), &json!(lower())), "{found}");
    let holds = |name: &str| layer(&found, name)["holds"] == true;
    for name in ["privileges", "seccomp", "rlimits", "network"] {
        assert!(holds(name) && layer(&found, name)["required"] == true, "{found}");
    }
    assert!(!holds("namespaces") && layer(&found, "namespaces")["required"] == false, "{found}");
    assert_eq!(holds("uid"), is_root(), "{found}");
    // The modes of its own user's files are out of Landlock's reach.
    assert_eq!(holds("files"), is_root() && holds("landlock"), "{found}");
    assert!(layer(&found, "network")["seen"].as_str().unwrap().contains("no socket can be made"), "{found}");
    let table = String::from_utf8(doctor(&asked).stdout).unwrap();
    assert!(table.contains("namespaces   no        it shares the machine's"), "{table}");
    assert!(table.contains(&format!("What --confinement {} has holds", lower())), "{table}");
}

#[test]
fn only_what_is_held_is_offered_and_the_rest_is_given_back() {
    let place = Place::lower(&["--cgroup", "off", "--allow", "model:80"]);
    let body = place.peer.seen("/v1/leases", |_| true).body;
    let runs = json!(["python", "javascript", "shell", "command", "handler", "network:none"]);
    assert_eq!(body["worker"]["runs"], runs);
    assert!(!place.proved().iter().any(|word| ["bwrap", "namespaces", "cgroup"].contains(&word.as_str())));
    for (wish, missing) in [
        (json!({"network": "restricted"}), "network:restricted"),
        (json!({"session": "s"}), "session"),
        (json!({"limits": {"memory_bytes": 1 << 26}}), "limits"),
        (json!({"requires": ["bwrap"]}), "confinement:bwrap"),
        (json!({"requires": ["namespaces"]}), "confinement:namespaces"),
    ] {
        let mut spec = json!({"run": {"kind": "shell", "code": "true"}});
        spec.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
        let begun = Instant::now();
        let lease = place.peer.task(spec);
        let reason = place.peer.release(&lease)["reason"].to_string();
        assert!(reason.contains(missing), "{reason}");
        assert!(begun.elapsed().as_secs() < 25, "{:?}", begun.elapsed());
    }
}
