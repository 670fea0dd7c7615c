//! Output by gigabytes.

use serde_json::json;

use super::{MIB, each_way};

fn resident_mib(pid: rustix::process::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[test]
fn gigabytes_of_output_without_a_line_end_the_task_and_do_not_grow_the_worker() {
    each_way(|world| {
        let code = "cat /dev/zero >&2 & cat /dev/zero";
        let limits = json!({"output_bytes": MIB});
        let lease =
            world.peer.task(json!({"run": {"kind": "shell", "code": code}, "limits": limits, "timeout_s": 120}));
        let mut most = 0;
        while !world.peer.is_reported(&lease) {
            most = most.max(resident_mib(world.worker.pid()));
            // Without a pause it would take a core from those that it watches.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let report = world.peer.report(&lease);
        assert_eq!(report["outcome"], "output_limit", "--cgroup {}: {report}", world.way);
        assert!(most < 60, "--cgroup {}: {most} MiB", world.way);
        for stream in ["stdout", "stderr"] {
            let kept = world.peer.output(&lease, stream).len() as u64;
            assert!((1..=MIB + 100).contains(&kept), "{stream}: {kept}");
            assert!(report["written_bytes"][stream].as_u64().unwrap() > 64 * MIB, "{report}");
        }
    });
}
