//! The host's disk after tasks that fill theirs.

use super::*;
use crate::run::{eventually, processes};

/// Blocks of 512 bytes below a directory.
fn blocks(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => blocks(&entry.path()),
            Ok(found) => found.blocks(),
            Err(_) => 0,
        })
        .sum()
}

/// Fills what it can until it is ended or refused, then stays; the token stands in its command line.
const FILL: &str = r#"
def fill(make):
    try:
        for number in range(100000):
            make(number)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
def bytes_of(directory):
    def make(number):
        with open(f"{directory}/{number}", "wb") as file:
            for _ in range(8):
                file.write(b"x" * (1 << 20))
    return make
kept = []
def deleted(number):
    file = open("/workspace/deleted", "wb")
    os.unlink("/workspace/deleted")
    kept.append(file)
    for _ in range(8):
        file.write(b"x" * (1 << 20))
    if number == 20:
        raise OSError(errno.ENOSPC, "enough")
def names(number):
    os.close(os.open(f"/tmp/{number}", os.O_CREAT))
    os.link(f"/tmp/{number}", f"/home/task/{number}")
way = {"bytes": bytes_of("/workspace"), "home": bytes_of("/home/task"), "memory": bytes_of("/dev/shm"), "deleted": deleted, "names": names}
fill(way[sys.argv[1]])
subprocess.run(["sleep", sys.argv[2]])
"#;

fn leaves_the_disk_as_it_was(way: &str) {
    let ground = Ground::bare(&["--grace", "200ms"]);
    ground.peer.wait_for_count("/v1/leases", 1);
    let (before, token) = (blocks(&ground.bench.state()), token());
    let shared_memory = |token: &str| Path::new("/dev/shm").join(token).exists();
    let spec = json!({"run": {"kind": "python", "code": program(FILL)}, "args": [way, token], "timeout_s": 4,
        "limits": {"disk_bytes": 40 << 20, "memory_bytes": 256 << 20}});
    let lease = ground.peer.task(spec);
    let outcome = ground.peer.report(&lease)["outcome"].clone();
    let ends = ["disk_limit", "timeout", "oom"];
    assert!(ends.contains(&outcome.as_str().unwrap_or_default()), "{outcome} {}", ground.peer.stderr(&lease));
    assert_eq!(processes(&token), [0; 0], "no process holds deleted files");
    assert!(!shared_memory("0"), "the host's own shared memory");
    eventually("attempts are removed", || ground.bench.attempts() == 0);
    eventually("the disk is as it was", || blocks(&ground.bench.state()) <= before + 2048);
}

#[test]
fn a_task_that_fills_files_leaves_the_hosts_disk_as_it_was() {
    leaves_the_disk_as_it_was("bytes");
}

#[test]
fn a_task_that_fills_its_home_leaves_the_hosts_disk_as_it_was() {
    leaves_the_disk_as_it_was("home");
}

#[test]
fn a_task_that_makes_names_leaves_the_hosts_disk_as_it_was() {
    leaves_the_disk_as_it_was("names");
}

#[test]
fn a_task_that_fills_shared_memory_leaves_the_hosts_as_it_was() {
    leaves_the_disk_as_it_was("memory");
}

#[test]
fn a_task_that_fills_deleted_files_holds_them_no_longer_than_it_lives() {
    leaves_the_disk_as_it_was("deleted");
}
