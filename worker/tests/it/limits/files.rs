//! The size of a file, and open files.

use serde_json::json;

use super::each_way;

#[test]
fn a_file_that_grows_too_large_ends_the_task() {
    each_way(|world| {
        let code = "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nfill(os.open('x', os.O_CREAT | os.O_WRONLY), 3)";
        world.ends_as(&json!("disk_limit"), code, &json!({"file_size_bytes": 1_000_000}));
    });
}

#[test]
fn a_program_of_a_shell_that_writes_too_large_a_file_ends_the_task_for_the_same_reason() {
    each_way(|world| {
        let run = json!({"kind": "shell", "code": "head -c 3000000 /dev/zero > x"});
        let lease = world.peer.task(json!({"run": run, "limits": {"file_size_bytes": 1_000_000}}));
        assert_eq!(world.peer.report(&lease)["outcome"], "disk_limit", "--cgroup {}", world.way);
    });
}

#[test]
fn a_program_that_handles_the_error_goes_on_with_a_file_of_just_the_size() {
    let code = "
try: fill(os.open('x', os.O_CREAT | os.O_WRONLY), 3)
except OSError as error: print(error.errno, os.stat('x').st_size)
";
    each_way(|world| {
        assert_eq!(world.passes(code, &json!({"file_size_bytes": 1_000_000})).stdout, "27 1000000\n");
    });
}

#[test]
fn a_process_opens_as_many_files_as_it_may() {
    let code = "
opened = []
try:
    while len(opened) < 100: opened.append(os.open('/dev/null', os.O_RDONLY))
except OSError as error: print(error.errno, max(opened))
";
    each_way(|world| {
        assert_eq!(world.passes(code, &json!({"open_files": 32})).stdout, "24 31\n");
    });
}
