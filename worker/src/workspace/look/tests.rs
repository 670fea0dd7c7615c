use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::super::entry::Entry;
use super::*;

/// A tree of a file, a directory and a link, as it was laid out.
fn laid() -> (tempfile::TempDir, Entries) {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/file"), "abc").unwrap();
    symlink("d/file", root.join("link")).unwrap();
    fs::set_permissions(root.join("d"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(root.join("d/file"), fs::Permissions::from_mode(0o644)).unwrap();
    let what = [
        ("d", What::Directory { mode: 0o755 }),
        ("d/file", What::File { size: 3, sum: Sha256::digest(b"abc").into(), mode: 0o644 }),
        ("link", What::Symlink { target: "d/file".into() }),
    ];
    let entries = what.into_iter().map(|(path, what)| {
        let mark = Mark::of(&rustix::fs::lstat(root.join(path)).unwrap());
        (Path::from(path), Laid { entry: Entry { what, modified_ms: 0 }, mark })
    });
    let entries = entries.collect();
    (place, entries)
}

fn changed(place: &tempfile::TempDir, laid: &Entries) -> Vec<String> {
    let found = look(place.path(), laid, (0, 0), None).unwrap();
    found
        .changes
        .into_iter()
        .map(|change| {
            let to = match change.to {
                To::File(mark) => format!("file {:o}", mark.permissions()),
                To::Directory { mode } => format!("directory {mode:o}"),
                To::Symlink { target, .. } => format!("-> {target}"),
                To::Nothing => "gone".into(),
            };
            format!("{}: {to}", change.path)
        })
        .collect()
}

#[test]
fn nothing_is_found_where_nothing_changed() {
    let (place, laid) = laid();
    let found = look(place.path(), &laid, (0, 0), None).unwrap();
    assert!(found.changes.is_empty() && found.touched.is_empty() && found.skipped.is_empty() && !found.is_strange);
}

#[test]
fn every_kind_of_change_is_found() {
    let (place, laid) = laid();
    let root = place.path();
    fs::write(root.join("d/file"), "abd").unwrap();
    fs::set_permissions(root.join("d"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::remove_file(root.join("link")).unwrap();
    fs::create_dir_all(root.join("new/empty")).unwrap();
    assert_eq!(
        changed(&place, &laid),
        ["d: directory 700", "d/file: file 644", "link: gone", "new: directory 755", "new/empty: directory 755"]
    );
}

#[test]
fn a_file_that_holds_the_same_is_only_touched() {
    let (place, laid) = laid();
    fs::remove_file(place.path().join("d/file")).unwrap();
    fs::write(place.path().join("d/file"), "abc").unwrap();
    let found = look(place.path(), &laid, (0, 0), None).unwrap();
    assert!(found.changes.is_empty());
    assert_eq!(found.touched.iter().map(|(path, _)| &**path).collect::<Vec<_>>(), ["d/file"]);
}

#[test]
fn another_kind_in_the_same_place_is_a_change_and_what_was_below_is_gone() {
    let (place, laid) = laid();
    let root = place.path();
    fs::remove_dir_all(root.join("d")).unwrap();
    symlink("/etc", root.join("d")).unwrap();
    fs::remove_file(root.join("link")).unwrap();
    fs::create_dir(root.join("link")).unwrap();
    fs::set_permissions(root.join("link"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(changed(&place, &laid), ["d: -> /etc", "d/file: gone", "link: directory 755"]);
}

#[test]
fn with_a_directory_goes_what_was_below_it() {
    let (place, laid) = laid();
    fs::remove_dir_all(place.path().join("d")).unwrap();
    assert_eq!(changed(&place, &laid), ["d: gone"]);
}

#[test]
fn what_cannot_be_kept_is_named_and_remembered() {
    let (place, laid) = laid();
    let root = place.path();
    for name in [".env", "id_rsa", "UTILS"] {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("below"), "x").unwrap();
    }
    fs::create_dir(root.join("utils")).unwrap();
    fs::write(root.join(".env.example"), "x").unwrap();
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"d/\xff")), "x").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let found = look(root, &laid, (0, 0), None).unwrap();
    let mut skipped: Vec<(&str, &str)> = found.skipped.iter().map(|(path, why)| (&**path, &**why)).collect();
    skipped.sort_unstable();
    assert_eq!(
        skipped,
        [
            (".env", "it has the name of a file with credentials"),
            ("UTILS", "it looks like `utils/`, which is the operator's"),
            ("d/\u{fffd}", "its name is not UTF-8"),
            ("id_rsa", "it has the name of a file with credentials"),
            ("socket", "a socket"),
        ]
    );
    assert_eq!(found.strays.len(), 5);
    assert_eq!(found.changes.iter().map(|change| &*change.path).collect::<Vec<_>>(), [".env.example"]);
}

#[test]
fn a_file_with_two_names_and_one_with_a_special_bit_are_strange() {
    let (place, laid) = laid();
    fs::hard_link(place.path().join("d/file"), place.path().join("d/twin")).unwrap();
    assert!(look(place.path(), &laid, (0, 0), None).unwrap().is_strange);
    fs::remove_file(place.path().join("d/twin")).unwrap();
    assert!(!look(place.path(), &laid, (0, 0), None).unwrap().is_strange);
    fs::set_permissions(place.path().join("d/file"), fs::Permissions::from_mode(0o4755)).unwrap();
    let found = look(place.path(), &laid, (0, 0), None).unwrap();
    assert!(found.is_strange);
    assert!(matches!(found.changes[0].to, To::File(mark) if mark.permissions() == 0o755));
}

#[test]
fn what_is_closed_even_to_its_owner_is_seen_and_stays_closed() {
    let (place, laid) = laid();
    let root = place.path();
    fs::write(root.join("d/new"), "x").unwrap();
    fs::set_permissions(root.join("d/new"), fs::Permissions::from_mode(0o0)).unwrap();
    fs::set_permissions(root.join("d"), fs::Permissions::from_mode(0o0)).unwrap();
    assert_eq!(changed(&place, &laid), ["d: directory 0", "d/new: file 0"]);
    assert_eq!(fs::metadata(root.join("d")).unwrap().permissions().mode() & 0o777, 0);
    fs::set_permissions(root.join("d"), fs::Permissions::from_mode(0o755)).unwrap();
}
