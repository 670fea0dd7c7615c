use protocol::Run;
use serde_json::json;

use super::*;

fn create(home: &Path, spec: &Spec) -> Directory {
    fs::write(home.join("init"), "").unwrap();
    let place = Place { attempts: home, init: &home.join("init"), owner: None, is_mounted: true };
    let mut directory = Directory::create(&place).unwrap();
    assert!(directory.path().starts_with(home.join(format!(".{}", directory.name()))), "it is hidden");
    directory.move_in(spec, "127.0.0.2 model\n").unwrap();
    directory
}

#[test]
fn files_and_input_are_laid_out_for_the_owner_alone() {
    let home = tempfile::tempdir().unwrap();
    let spec: Spec = serde_json::from_value(json!({
        "repo": "r", "run": {"kind": "shell", "code": "true"}, "stdin": "in",
        "files": {"a/b/c.txt": "text", "a/d": {"base64": "AP8="}},
    }))
    .unwrap();
    let directory = create(home.path(), &spec);
    assert_eq!(fs::read(directory.work().join("a/b/c.txt")).unwrap(), b"text");
    assert_eq!(fs::read(directory.work().join("a/d")).unwrap(), [0, 0xFF]);
    assert_eq!(fs::read(directory.path().join("task/stdin")).unwrap(), b"in");
    assert_eq!(fs::read(directory.path().join("hosts")).unwrap(), b"127.0.0.2 model\n");
    assert_eq!(directory.path(), home.path().join(directory.name()));
    assert_eq!(fs::metadata(directory.path()).unwrap().permissions().mode() & 0o777, 0o700);
    let other = create(home.path(), &Spec::new("r".parse().unwrap(), Run::Command { argv: vec![] }));
    assert_ne!(other.path(), directory.path());
}

#[test]
fn a_tree_of_any_depth_with_closed_directories_and_links_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let (tree, outside) = (home.path().join("tree"), home.path().join("outside"));
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    fs::create_dir(&tree).unwrap();
    std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
    std::os::unix::fs::symlink("/nonexistent", tree.join("dangling")).unwrap();
    // Deeper than a path can be long: built from the inside out.
    let mut deep = home.path().join("seed");
    fs::create_dir(&deep).unwrap();
    for level in 0..1000 {
        fs::write(deep.join("file"), "x").unwrap();
        let around = home.path().join(format!("around{level}"));
        fs::create_dir(&around).unwrap();
        fs::rename(&deep, around.join("inner")).unwrap();
        deep = around;
    }
    fs::set_permissions(&deep, fs::Permissions::from_mode(0o000)).unwrap();
    fs::rename(&deep, tree.join("deep")).unwrap();
    remove(&tree).unwrap();
    assert!(!tree.exists());
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "only what was outside is left");
    assert!(outside.join("precious").exists());
}
