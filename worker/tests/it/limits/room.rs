//! The disk that stays free: a worker on a small disk of its own, which others fill.

use std::ffi::OsString;

use serde_json::json;

use super::MIB;
use crate::peer::Peer;
use crate::run::{Bench, Running, is_gvisor, with_mounts};

/// Mounts a disk at the state directory, seen by the worker alone, with a file on it that goes when the gate opens. Who waits
/// for that is no child of the worker, which would end it.
const ON_A_DISK: &str = r#"
mkdir -p "$CW_STATE_DIR" && mount -t tmpfs -o "size=$1,mode=700" none "$CW_STATE_DIR" || exit 99
head -c "$2" /dev/zero > "$CW_STATE_DIR/filler" || exit 98
worker=$$ gate=$3
shift 3
empty() {
    until [ -e "$gate" ]; do
        kill -0 "$worker" || exit
        sleep 0.05
    done
    rm -f "$CW_STATE_DIR/filler"
}
(empty >/dev/null 2>&1 &)
exec "$@"
"#;

/// The disk has room for the worker, and for so much beyond what stays free.
const BEYOND_MIB: u64 = 100;

fn worker_on_a_disk(bench: &Bench, peer: &Peer, filler_mib: u64) -> Running {
    let program = std::fs::metadata(env!("CARGO_BIN_EXE_cw-worker")).unwrap().len();
    // Inside gVisor an ordinary user's attempts have copies of the program, so there is one attempt at a time.
    let programs = if is_gvisor() && !rustix::process::getuid().is_root() { 2 } else { 1 };
    let size = programs * program + (1024 + BEYOND_MIB) * MIB;
    let worker = bench.command(&peer.url(), &["--grace", "100ms", "--slots", "1", "--ready", "0"]);
    let [size, filler] = [size, filler_mib * MIB].map(|bytes| OsString::from(bytes.to_string()));
    Running::start(with_mounts(ON_A_DISK, &[&size, &filler, bench.gate().as_os_str()], &worker))
}

#[test]
fn below_a_free_gibibyte_no_task_is_taken_until_there_is_room_again() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let lease = peer.shell("echo done");
    let worker = worker_on_a_disk(&bench, &peer, 2 * BEYOND_MIB);
    worker.logged("no task is taken:");
    worker.logged("more must be free on the disk of");
    assert!(!peer.requests().iter().any(|request| request.path == "/v1/leases"), "it asked for a lease");
    std::fs::write(bench.gate(), "").unwrap();
    worker.logged("the disk has room again");
    assert_eq!(peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}));
}

#[test]
fn a_task_that_takes_the_last_free_gibibyte_ends_as_disk_limit() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = worker_on_a_disk(&bench, &peer, 0);
    let code =
        "for number in range(6):\n open(f'{number}', 'wb').write(b'x' * (32 << 20))\nimport time; time.sleep(600)";
    let lease = peer.task(json!({"run": {"kind": "python", "code": code}, "timeout_s": 20}));
    assert_eq!(peer.report(&lease)["outcome"], "disk_limit", "{}", peer.stderr(&lease));
}
