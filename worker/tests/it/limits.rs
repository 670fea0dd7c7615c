//! Programs that try to pass each limit, under the real worker: the limit holds, and its reason is told, whether a cgroup
//! holds it or looks at the processes do.

use std::path::Path;

use serde_json::{Value, json};

use crate::peer::Peer;
use crate::run::{Bench, Running};

mod cpu;
mod disk;
mod ended;
mod files;
mod flood;
mod memory;
mod pids;
mod room;
mod shared;
mod time;
mod usage;

const MIB: u64 = 1 << 20;

/// What every program begins with.
const PRELUDE: &str = "
import ctypes, mmap, os, signal, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
MIB = 1 << 20
kept = []
def take(mib):
    for _ in range(mib): kept.append(bytearray(b'x') * MIB)
def fill(file, mib):
    for _ in range(mib): os.write(file, b'x' * MIB)
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
";

/// The ways in which this machine can hold limits. Cgroups are made by root alone, and not inside gVisor; where they cannot
/// be made, `auto` must do.
fn ways() -> &'static [&'static str] {
    let has_cgroups = || {
        let v2 = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
        Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists() || v2.contains("memory")
    };
    if rustix::process::getuid().is_root() && has_cgroups() { &["require", "off"] } else { &["auto"] }
}

/// A worker that holds limits in one of these ways.
struct World {
    way: &'static str,
    bench: Bench,
    peer: Peer,
    worker: Running,
}

/// An attempt that is over.
struct Ended {
    report: Value,
    stdout: String,
    stderr: String,
}

fn each_way(claim: impl Fn(&World)) {
    each_way_with(&[], claim);
}

fn each_way_with(args: &[&str], claim: impl Fn(&World)) {
    for way in ways() {
        let (bench, peer) = (Bench::new(), Peer::start());
        let task_uid = free_uids().to_string();
        let worker = bench.worker(&peer, &[&["--cgroup", way, "--task-uid", &task_uid], args].concat());
        claim(&World { way, bench, peer, worker });
    }
}

/// Users for the slots of one worker: where the kernel counts a user's processes in all namespaces together, tests that
/// run side by side must not share them.
fn free_uids() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    1_000_000 + std::process::id() % 10_000 * 1000 + NEXT.fetch_add(4, Ordering::Relaxed)
}

impl World {
    fn begin(&self, code: &str, limits: &Value, timeout_s: u32) -> String {
        let run = json!({"kind": "python", "code": format!("{PRELUDE}{code}")});
        self.peer.task(json!({"run": run, "limits": limits, "timeout_s": timeout_s}))
    }

    fn end(&self, lease: &str) -> Ended {
        let report = self.peer.report(lease);
        let text = |stream: &str| String::from_utf8_lossy(&self.peer.output(lease, stream)).into_owned();
        Ended { report, stdout: text("stdout"), stderr: text("stderr") }
    }

    fn run(&self, code: &str, limits: &Value) -> Ended {
        self.end(&self.begin(code, limits, 20))
    }

    /// Runs a program that must end so. One that a limit does not stop would sleep on, and end as `timeout`.
    fn ends_as(&self, outcome: &Value, code: &str, limits: &Value) -> Ended {
        let ended = self.run(&format!("{code}\ntime.sleep(600)\n"), limits);
        assert_eq!(&ended.report["outcome"], outcome, "--cgroup {}: {}: {}", self.way, ended.report, ended.stderr);
        ended
    }

    /// Runs a program that no limit may stop.
    fn passes(&self, code: &str, limits: &Value) -> Ended {
        let ended = self.run(code, limits);
        let outcome = &ended.report["outcome"];
        assert_eq!(outcome, &json!({"exited": {"code": 0}}), "--cgroup {}: {}", self.way, ended.stderr);
        ended
    }
}

impl Ended {
    fn usage(&self, field: &str) -> u64 {
        self.report["usage"][field].as_u64().unwrap_or_else(|| panic!("no {field} in {}", self.report))
    }
}
