use super::*;

fn planned() -> String {
    let maker = Maker { bwrap: "/usr/bin/bwrap".into(), staging: "/mnt" };
    let system = [System::Directory("/usr"), System::Link("/bin", "usr/bin".into())];
    arguments(&maker, &["/opt/venv".into()], &system, 64, None).join(" ")
}

fn shown(is_read_only: bool) -> String {
    let maker = Maker { bwrap: "/usr/bin/bwrap".into(), staging: "/mnt" };
    let shown = Shown { is_read_only, overlays: ".overlays/x".into() };
    arguments(&maker, &[], &[], 64, Some(&shown)).join(" ")
}

#[test]
fn overlays_are_read_only_and_lie_over_the_workspace() {
    let shown = shown(false);
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text} in {shown}"));
    assert!(at("--bind /mnt/work /workspace") < at("--ro-bind /mnt/overlays/utils /workspace/utils"));
    assert!(at("--bind /mnt/work /workspace") < at("--ro-bind /mnt/overlays/skills /workspace/skills"));
}

#[test]
fn a_workspace_that_is_only_read_is_mounted_so() {
    assert!(shown(true).contains("--ro-bind /mnt/work /workspace"));
}

#[test]
fn system_directories_are_read_only_and_links_stay_links() {
    let planned = planned();
    assert!(planned.contains("--ro-bind /usr /usr --symlink usr/bin /bin"), "{planned}");
    assert!(planned.contains("--ro-bind /opt/venv /opt/venv"), "{planned}");
}

#[test]
fn only_the_tasks_own_directories_are_writable() {
    let planned = planned();
    let writable: Vec<_> = planned.split("--bind ").skip(1).map(|rest| rest.split(' ').nth(1).unwrap()).collect();
    assert_eq!(writable, [WORK, HOME, TEMPORARY]);
    assert!(planned.ends_with("--remount-ro / --chdir /workspace /run/cw/init init"), "{planned}");
}

#[test]
fn the_machines_etc_is_not_shown() {
    let planned = planned();
    assert!(planned.contains("--ro-bind /mnt/etc /etc --ro-bind /mnt/hosts /etc/hosts"), "{planned}");
    assert!(!planned.contains("bind /etc") && !planned.contains("/root"), "{planned}");
}

#[test]
fn the_staging_place_hides_nothing_that_tasks_may_read() {
    let first = staging(&[]).unwrap();
    let other = staging(&[Path::new(first).join("venv")]).unwrap();
    assert_ne!(first, other);
}
