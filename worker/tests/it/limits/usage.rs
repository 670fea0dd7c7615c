//! What is reported of a known workload.

use serde_json::json;

use super::{MIB, each_way};

/// Four processes that live side by side for a while: each burns 200 ms, three touch 24 MiB each.
const TREE: &str = "
ready, go = os.pipe(), os.pipe()
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        take(24)
        burn(0.2)
        os.write(ready[1], b'x')
        os.read(go[0], 1)
        os._exit(0)
    children.append(child)
burn(0.2)
for _ in children: os.read(ready[0], 1)
time.sleep(1)
os.write(go[1], b'xxx')
for child in children: os.waitpid(child, 0)
";

#[test]
fn a_tree_is_reported_with_its_time_and_memory() {
    each_way(|world| {
        let ended = world.passes(TREE, &json!({}));
        let (cpu_ms, peak) = (ended.usage("cpu_ms"), ended.usage("peak_memory_bytes") / MIB);
        let (source, wall_ms) = (&ended.report["usage"]["source"], ended.usage("wall_ms"));
        eprintln!("--cgroup {}: 800 ms and 72 MiB: {cpu_ms} ms and {peak} MiB, {wall_ms} ms, {source}", world.way);
        let sources = if world.way == "require" { ["cgroup"] } else { ["sampled"] };
        assert!(sources.contains(&source.as_str().unwrap()), "{source}");
        assert!((790..8000).contains(&cpu_ms), "--cgroup {}: {cpu_ms}", world.way);
        assert!((72..72 + 48).contains(&peak), "--cgroup {}: {peak}", world.way);
        assert!(wall_ms >= 1200, "{wall_ms}");
    });
}

#[test]
fn one_process_is_reported_with_its_time_and_memory() {
    each_way(|world| {
        let ended = world.passes("take(40)\nburn(0.3)", &json!({}));
        let (cpu_ms, peak) = (ended.usage("cpu_ms"), ended.usage("peak_memory_bytes") / MIB);
        let source = &ended.report["usage"]["source"];
        eprintln!("--cgroup {}: 300 ms and 40 MiB: {cpu_ms} ms and {peak} MiB, {source}", world.way);
        assert_eq!(source, if world.way == "require" { "cgroup" } else { "rusage" });
        assert!((290..3000).contains(&cpu_ms), "--cgroup {}: {cpu_ms}", world.way);
        assert!((40..40 + 24).contains(&peak), "--cgroup {}: {peak}", world.way);
    });
}

#[test]
fn the_pages_of_files_are_not_reported_as_memory() {
    each_way(|world| {
        let ended = world.passes("fill(os.open('/tmp/x', os.O_CREAT | os.O_WRONLY), 80)", &json!({}));
        let peak = ended.usage("peak_memory_bytes") / MIB;
        assert!(peak < 40, "--cgroup {}: {peak}", world.way);
    });
}

#[test]
fn time_is_that_of_the_processes_alone() {
    each_way(|world| {
        let ended = world.end(&world.peer.shell("true"));
        let wall_ms = ended.usage("wall_ms");
        eprintln!("--cgroup {}: `true` took {wall_ms} ms", world.way);
        let missing = world.end(&world.peer.task(json!({"run": {"kind": "command", "argv": ["no-such-program"]}})));
        assert_eq!(missing.usage("wall_ms"), 0, "{}", missing.report);
    });
}
