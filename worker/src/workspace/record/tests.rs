use super::*;

fn origin() -> Origin {
    Origin { coordinator: "http://here".into(), boot: "boot".into() }
}

fn tree() -> Tree {
    let mark = Mark { inode: u64::MAX, size: 3, mode: 0o100_644, modified: (-5, 7), changed: (9, 999_999_999) };
    let mut tree = Tree { generation: 4, version: 9, ..Tree::empty("s".parse().unwrap()) };
    let entries = [
        ("a \"b\"", What::File { size: 3, sum: [0xab; 32], mode: 0o644 }),
        ("d", What::Directory { mode: 0o755 }),
        ("l", What::Symlink { target: "../é".into() }),
    ];
    for (path, what) in entries {
        tree.laid.insert(path.into(), Laid { entry: Entry { what, modified_ms: -1 }, mark });
    }
    tree.drift.insert("gone".into(), None);
    tree.drift.insert("d".into(), Some(Entry { what: What::Directory { mode: 0o700 }, modified_ms: 5 }));
    tree
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("record");
    let written = Head::of(&tree(), Some(60_600), &origin());
    write(&path, &written, &tree()).unwrap();
    assert_eq!(head(&path).unwrap(), written);
    assert_eq!(read(&path).unwrap(), tree());
}

#[test]
fn a_record_that_is_cut_off_anywhere_is_none() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("record");
    write(&path, &Head::of(&tree(), None, &origin()), &tree()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    // The last byte is the end of the last line.
    for length in 0..whole.len() - 1 {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(read(&path).is_err(), "{length} bytes of it");
    }
}

#[test]
fn a_record_of_another_coordinator_or_another_start_of_the_machine_counts_for_nothing() {
    let head = Head::of(&tree(), None, &origin());
    assert!(head.is_of(&origin()));
    assert!(!head.is_of(&Origin { coordinator: "http://there".into(), ..origin() }));
    assert!(!head.is_of(&Origin { boot: "next".into(), ..origin() }));
    let nowhere = Origin { boot: String::new(), ..origin() };
    assert!(!Head::of(&tree(), None, &nowhere).is_of(&nowhere), "who does not know, cannot tell");
}
