//! Disk by bytes, by files, by depth, and by what has no name.

use serde_json::{Value, json};

use super::{MIB, each_way};
use crate::run::{eventually, is_gvisor};

fn limits() -> Value {
    json!({"disk_bytes": 8 * MIB, "file_size_bytes": 90 * MIB, "open_files": 64})
}

fn full(code: &str) {
    each_way(|world| {
        world.ends_as(&json!("disk_limit"), code, &limits());
        // The worker removes what may be too deep for whoever removes the test's own directory.
        eventually("attempts are removed", || world.bench.attempts() == 0);
    });
}

fn passes(code: &str) {
    each_way(|world| {
        world.passes(code, &limits());
    });
}

#[test]
fn bytes_in_all_directories_count_together() {
    full(
        "
for place in ['/workspace', '/tmp', '/home/task']:
    fill(os.open(f'{place}/x', os.O_CREAT | os.O_WRONLY), 3)
",
    );
}

#[test]
fn a_task_that_is_done_before_a_look_is_still_told() {
    let code = "fill(os.open('x', os.O_CREAT | os.O_WRONLY), 16)\nwhile time.perf_counter() < began + 0.12: pass";
    each_way(|world| {
        let ended = world.run(&format!("began = time.perf_counter()\n{code}"), &limits());
        assert_eq!(ended.report["outcome"], "disk_limit", "--cgroup {}", world.way);
    });
}

#[test]
fn empty_files_count() {
    full(
        "
for number in range(1_000_000): os.close(os.open(f'{number}', os.O_CREAT | os.O_WRONLY))
",
    );
}

#[test]
fn a_deep_tree_counts() {
    full(
        "
for _ in range(1_000_000):
    os.mkdir('directory')
    os.chdir('directory')
",
    );
}

#[test]
fn a_closed_directory_is_looked_into() {
    full(
        "
os.mkdir('closed')
file = os.open('closed/x', os.O_CREAT | os.O_WRONLY)
fill(file, 12)
os.close(file)
os.chmod('closed', 0)
",
    );
}

#[test]
fn deleted_files_that_are_still_open_count() {
    full(
        "
for _ in range(12):
    file = os.open('x', os.O_CREAT | os.O_WRONLY)
    os.unlink('x')
    fill(file, 1)
",
    );
}

#[test]
fn deleted_files_count_in_a_process_that_cannot_be_looked_into() {
    full(
        "
libc.prctl(4, 0, 0, 0, 0)
for _ in range(12):
    file = os.open('x', os.O_CREAT | os.O_WRONLY)
    os.unlink('x')
    fill(file, 1)
",
    );
}

#[test]
fn deleted_files_are_counted_once_however_often_they_are_open() {
    passes(
        "
file = os.open('x', os.O_CREAT | os.O_WRONLY)
os.unlink('x')
fill(file, 3)
for _ in range(20): os.dup(file)
children = [os.fork() for _ in range(3)]
time.sleep(0.6)
if 0 in children: os._exit(0)
",
    );
}

#[test]
fn holes_count_only_where_the_kernel_takes_them_for_blocks() {
    let code = "
for number in range(4):
    os.truncate(os.open(f'/tmp/{number}', os.O_CREAT | os.O_WRONLY), 80 * MIB)
time.sleep(0.6)
";
    // gVisor's own file system does, and tells nobody where they are.
    if is_gvisor() { full(code) } else { passes(code) }
}

#[test]
fn second_names_do_not_count() {
    passes(
        "
file = os.open('/tmp/full', os.O_CREAT | os.O_WRONLY)
fill(file, 4)
for number in range(20): os.link('/tmp/full', f'/tmp/name-{number}')
time.sleep(0.6)
",
    );
}

#[test]
fn names_without_end_count_though_they_hold_nothing() {
    full(
        "
os.close(os.open('/tmp/one', os.O_CREAT))
for number in range(10_000): os.link('/tmp/one', f'/tmp/{number}')
",
    );
}
