//! Wall time, idle time, and the time between TERM and KILL.

use serde_json::json;

use super::{MIB, each_way, each_way_with};

#[test]
fn the_deadline_counts_from_the_start_of_the_program() {
    each_way(|world| {
        let ended = world.end(&world.begin("print('up')\ntime.sleep(600)", &json!({}), 2));
        assert_eq!((&ended.report["outcome"], ended.stdout.as_str()), (&json!("timeout"), "up\n"));
        let wall_ms = ended.usage("wall_ms");
        eprintln!("--cgroup {}: ended {wall_ms} ms after its start, for a deadline of 2000", world.way);
        // 100 ms on a machine that is free; this one may not be.
        assert!((1950..20_000).contains(&wall_ms), "--cgroup {}: {wall_ms}", world.way);
    });
}

#[test]
fn a_silent_task_ends_by_its_idle_timeout() {
    let run = json!({"kind": "shell", "code": "echo up; sleep 600"});
    each_way(|world| {
        let lease = world.peer.task(json!({"run": run, "idle_timeout_s": 1}));
        let ended = world.end(&lease);
        assert_eq!((&ended.report["outcome"], ended.stdout.as_str()), (&json!("idle_timeout"), "up\n"));
        let wall_ms = ended.usage("wall_ms");
        eprintln!("--cgroup {}: ended {wall_ms} ms after its start, for an idle time of 1000", world.way);
        assert!((950..10_000).contains(&wall_ms), "--cgroup {}: {wall_ms}", world.way);
    });
}

#[test]
fn a_task_that_ignores_term_is_killed_after_the_grace() {
    let code = "
signal.signal(signal.SIGTERM, lambda *_: print('TERM', flush=True))
print('up', flush=True)
while True: time.sleep(600)
";
    each_way_with(&["--grace", "500ms"], |world| {
        let ended = world.end(&world.begin(code, &json!({}), 3));
        assert_eq!((&ended.report["outcome"], ended.stdout.as_str()), (&json!("timeout"), "up\nTERM\n"));
        let wall_ms = ended.usage("wall_ms");
        eprintln!("--cgroup {}: killed {wall_ms} ms after its start, for a deadline of 3000 and 500", world.way);
        assert!((3450..20_000).contains(&wall_ms), "--cgroup {}: {wall_ms}", world.way);
    });
}

#[test]
fn limits_hold_between_term_and_kill() {
    let hogs = [
        ("take(96)", "memory_bytes", 64 * MIB),
        ("fill(os.open('x', os.O_CREAT | os.O_WRONLY), 12)", "disk_bytes", 8 * MIB),
    ];
    let task = |hog: &str| {
        format!("def hog(*_):\n {hog}\n time.sleep(600)\nsignal.signal(signal.SIGTERM, hog)\ntime.sleep(600)\n")
    };
    each_way(|world| {
        let begun = hogs.map(|(hog, limit, value)| (limit, world.begin(&task(hog), &json!({limit: value}), 2)));
        for (limit, lease) in begun {
            let ended = world.end(&lease);
            // What ended it first is its reason.
            assert_eq!(ended.report["outcome"], "timeout");
            let wall_ms = ended.usage("wall_ms");
            assert!(wall_ms < 6800, "--cgroup {}: past {limit} until the grace of 5 s was over: {wall_ms}", world.way);
        }
    });
}
