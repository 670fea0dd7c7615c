use super::*;

const UNSHARE: &str = "cannot make user, mount and network namespaces: EPERM: Operation not permitted";

#[test]
fn the_switch_that_forbids_user_namespaces_is_named() {
    let nothing = Machine::default();
    let off = Machine { max_user_namespaces: Some(0), ..Machine::default() };
    let debian = Machine { unprivileged_userns_clone: Some(0), ..Machine::default() };
    let ubuntu = Machine { apparmor_restricts: Some(1), max_user_namespaces: Some(100), ..Machine::default() };
    assert!(for_failure(UNSHARE, &off).contains("user.max_user_namespaces=10000"));
    assert!(for_failure(UNSHARE, &debian).contains("kernel.unprivileged_userns_clone=1"));
    assert!(for_failure(UNSHARE, &ubuntu).contains("apparmor_restrict_unprivileged_userns=0"));
    assert!(for_failure(UNSHARE, &nothing).contains("docker: --security-opt seccomp=unconfined"));
}

#[test]
fn every_failing_step_has_its_own_fix() {
    let fix = |message: &str| for_failure(message, &Machine::default());
    assert!(fix("bubblewrap is not installed").contains("apt-get install bubblewrap"));
    assert!(fix("bwrap: Can't mount proc on /newroot/proc: Operation not permitted").contains("systempaths"));
    assert!(fix("bwrap: execvp /run/cw/init: Permission denied").contains("noexec"));
    assert!(fix("bwrap: Can't find source path /srv/closed/venv: Permission denied").contains("chmod o+x"));
    assert!(fix("cannot become user 60600: EINVAL: Invalid argument").contains("--task-uid"));
    assert!(fix("cannot become user 60600: EPERM: Operation not permitted").contains("CAP_SETUID"));
    assert!(fix("something else").contains("docs/security.md"));
}
