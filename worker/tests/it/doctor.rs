//! `cw-worker doctor` on machines that lack something, each made for real in namespaces of its own; and that a worker does
//! not start where the doctor finds the minimum missing.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::peer::Peer;
use crate::run::{Bench, eventually};

const WORKER: &str = env!("CARGO_BIN_EXE_cw-worker");

pub(crate) fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// Runs the program on this machine after a script changed it; `$S` is its state directory. The change is seen in there
/// alone. A user namespace is made where it is asked for, and by those who need one to mount.
pub(crate) fn changed(bench: &Bench, namespaces: &str, script: &str, arguments: &str) -> Output {
    let mut command = Command::new("unshare");
    if !is_root() {
        command.args(["--user", "--map-current-user"]);
    }
    let is_mapped = is_root() && namespaces.contains("--user");
    command.args(namespaces.split_whitespace()).arg("--keep-caps");
    command.args(["sh", "-ec", &format!("read go; {script}; exec \"$W\" {arguments}")]).env_clear();
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("W", WORKER).env("S", bench.state());
    command.env("CW_STATE_DIR", bench.state());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if is_mapped {
        map_all_users(child.id());
    }
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    child.wait_with_output().unwrap()
}

/// Root of the machine gives the new namespace all users, as an engine for containers does.
fn map_all_users(pid: u32) {
    let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/user")).unwrap();
    eventually("a user namespace", || namespace(&pid.to_string()) != namespace("self"));
    for map in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{pid}/{map}"), "0 0 65536").unwrap();
    }
}

fn doctor(bench: &Bench, arguments: &[&str]) -> Output {
    let mut command = Command::new(WORKER);
    command.arg("doctor").args(arguments).env_clear().env("CW_STATE_DIR", bench.state());
    command.output().unwrap()
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

pub(crate) fn layer<'found>(found: &'found Value, name: &str) -> &'found Value {
    let layers = found["layers"].as_array().unwrap();
    layers.iter().find(|layer| layer["layer"] == name).unwrap_or_else(|| panic!("no {name} in {found}"))
}

/// The doctor ends with 1 and names what is missing and the fix; a worker does not start, and says the same.
fn falls_short(namespaces: &str, script: &str, missing: &str, fix: &str) {
    let bench = Bench::new();
    std::fs::create_dir(bench.state()).unwrap();
    let output = changed(&bench, namespaces, script, "doctor --json");
    let found = json(&output);
    assert_eq!((output.status.code(), &found["ok"]), (Some(1), &Value::Bool(false)), "{found}");
    let built = layer(&found, "confinement");
    assert!(built["seen"].as_str().unwrap().contains(missing), "{built}");
    assert!(built["fix"].as_str().unwrap().contains(fix), "{built}");

    let key = bench.home.path().join("key").display().to_string();
    let run = format!("run --coordinator http://127.0.0.1:9 --repo r --key-file {key}");
    let output = changed(&bench, namespaces, script, &run);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("none is taken") && said.contains(missing) && said.contains(fix), "{said}");
}

#[test]
fn every_wall_holds_here_and_each_language_runs_behind_them() {
    let bench = Bench::new();
    let output = doctor(&bench, &["--json"]);
    let found = json(&output);
    assert_eq!((output.status.code(), &found["level"]), (Some(0), &"bwrap".into()), "{found}");
    for name in ["uid", "namespaces", "privileges", "seccomp", "rlimits", "files", "network"] {
        assert_eq!(layer(&found, name)["holds"], true, "{found}");
        assert_eq!(layer(&found, name)["required"], true, "{found}");
    }
    for name in ["shell", "python", "javascript"] {
        assert_eq!(layer(&found, name)["holds"], true, "{found}");
    }
    assert_eq!(std::fs::read_dir(bench.state()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn the_table_has_a_line_for_each_layer_and_the_verdict() {
    let said = String::from_utf8(doctor(&Bench::new(), &["--quick"]).stdout).unwrap();
    assert!(said.contains("seccomp      yes       refused: new user namespace, io_uring"), "{said}");
    assert!(said.contains("The minimum holds"), "{said}");
    assert!(!said.contains("python"), "a quick look leaves the languages out: {said}");
}

#[test]
fn a_worker_that_runs_is_not_disturbed() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    peer.wait_for_count("/v1/leases", 1);
    assert_eq!(doctor(&bench, &["--quick"]).status.code(), Some(0));
    let lease = peer.shell("echo still here");
    peer.report(&lease);
    assert_eq!(peer.stdout(&lease), "still here\n");
}

#[test]
fn without_user_namespaces_the_switch_is_named() {
    let off = "echo 0 > /proc/sys/user/max_user_namespaces";
    falls_short("--user", off, "cannot make user, mount and network namespaces", "user.max_user_namespaces=10000");
}

#[test]
fn without_bubblewrap_its_package_is_named() {
    let hide = "for at in /usr/bin/bwrap /bin/bwrap; do mount --bind /dev/null $at 2>/dev/null || true; done";
    falls_short("--mount", hide, "bubblewrap is not installed", "apt-get install bubblewrap");
}

#[test]
fn a_state_directory_that_is_mounted_noexec_is_named() {
    let mount = "mount -t tmpfs -o noexec,mode=700 none \"$S\"";
    falls_short("--mount", mount, "cannot run programs from", "noexec");
}

#[test]
fn a_proc_that_is_partly_hidden_is_named_with_the_flag_for_containers() {
    falls_short("--mount", "mount -t tmpfs none /proc/acpi || mount -t tmpfs none /proc/fs", "proc", "systempaths");
}

#[test]
fn cgroups_that_cannot_be_written_are_missed_only_where_they_are_required() {
    let bench = Bench::new();
    std::fs::create_dir(bench.state()).unwrap();
    let hide = "mount -t tmpfs -o ro none /sys/fs/cgroup";
    let output = changed(&bench, "--mount", hide, "doctor --quick --json");
    let found = json(&output);
    assert_eq!(output.status.code(), Some(0), "{found}");
    let cgroup = layer(&found, "cgroup");
    assert_eq!((&cgroup["holds"], &cgroup["required"]), (&false.into(), &false.into()));
    assert!(cgroup["fix"].as_str().unwrap().contains("Delegate=yes"), "{cgroup}");
    falls_short("--mount", &format!("{hide}; export CW_CGROUP=require"), "--cgroup require", "Delegate=yes");
}
