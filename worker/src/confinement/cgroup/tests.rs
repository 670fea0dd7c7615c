use super::*;

#[test]
fn a_key_is_found_by_its_whole_name() {
    let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
    assert_eq!(keyed(text, "oom_kill"), Some(3));
    assert_eq!(keyed(text, "oom_group_kill"), None);
}

#[test]
fn the_directory_of_a_controller_is_that_of_its_own_mount() {
    let own = "5:cpu,cpuacct:/\n4:memory:/no/such\n0::/\n";
    let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup /sys/m cgroup rw,memory 0 0\n";
    assert_eq!(v1_directory(own, mounts, "memory"), Some("/sys/m".into()));
    assert_eq!(v1_directory(own, mounts, "cpuacct"), Some("/sys/fs/cgroup/cpu".into()));
    assert_eq!(v1_directory(own, mounts, "pids"), None);
}
