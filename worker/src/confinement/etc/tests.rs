use super::*;

#[test]
fn what_is_closed_to_others_is_left_out_and_links_stay_links() {
    let home = tempfile::tempdir().unwrap();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    fs::create_dir_all(from.join("inner")).unwrap();
    fs::create_dir(from.join("closed")).unwrap();
    for (name, mode) in [("open", 0o644), ("secret", 0o640), ("inner/open", 0o755)] {
        fs::write(from.join(name), name).unwrap();
        fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for (name, mode) in [("", 0o755), ("inner", 0o755), ("closed", 0o700)] {
        fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink("/nowhere", from.join("link")).unwrap();
    copy(&from, &to).unwrap();
    let mut names: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["inner", "link", "open"]);
    assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/nowhere"));
    assert_eq!(fs::metadata(to.join("inner/open")).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn users_and_names_are_the_tasks_own_and_secrets_are_not_there() {
    let home = tempfile::tempdir().unwrap();
    let etc = home.path().join("etc");
    make(&etc).unwrap();
    assert!(fs::read_to_string(etc.join("passwd")).unwrap().starts_with("task:x:1000:"));
    for hidden in ["shadow", "resolv.conf", "hostname", "ssl/private", "ssh", "sudoers"] {
        assert!(fs::symlink_metadata(etc.join(hidden)).is_err(), "{hidden}");
    }
}
