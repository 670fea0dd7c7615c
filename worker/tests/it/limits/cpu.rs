//! Processor time of one process and of a tree, whoever reaps it.

use serde_json::json;

use super::each_way;

fn over(code: &str) {
    each_way(|world| {
        let ended = world.ends_as(&json!("cpu_limit"), code, &json!({"cpu_s": 1}));
        let cpu_ms = ended.usage("cpu_ms");
        assert!((900..30_000).contains(&cpu_ms), "--cgroup {}: {cpu_ms}", world.way);
    });
}

#[test]
fn one_process_ends_at_its_processor_time() {
    over("burn(30)");
}

#[test]
fn children_that_were_reaped_count() {
    over(
        "
for _ in range(30):
    if os.fork() == 0:
        burn(0.3)
        os._exit(0)
    os.wait()
",
    );
}

#[test]
fn children_side_by_side_count_together() {
    over(
        "
for _ in range(4):
    if os.fork() == 0: burn(30)
",
    );
}

/// One child after the other, none of which is waited for.
const CHILDREN: &str = "
for _ in range(30):
    if os.fork() == 0:
        burn(0.3)
        os._exit(0)
    time.sleep(0.35)
";

#[test]
fn children_that_nobody_reaps_count() {
    over(CHILDREN);
}

#[test]
fn children_whose_parent_ignores_their_end_count() {
    over(&format!("signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n{CHILDREN}"));
}

#[test]
fn a_program_that_a_shell_started_ends_the_task_for_the_same_reason() {
    each_way(|world| {
        let code = "sh -c 'while :; do :; done'\nexit $?";
        let lease = world.peer.task(json!({"run": {"kind": "shell", "code": code}, "limits": {"cpu_s": 1}}));
        assert_eq!(world.peer.report(&lease)["outcome"], "cpu_limit", "--cgroup {}", world.way);
    });
}

#[test]
fn processor_time_below_the_limit_passes() {
    each_way(|world| {
        // A start counts, too, and more inside gVisor, where it is slow.
        world.passes("burn(1)", &json!({"cpu_s": 4}));
    });
}
