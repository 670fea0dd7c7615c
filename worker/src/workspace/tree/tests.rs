use protocol::spec::SessionMode;
use protocol::workspace::Head;

use super::super::entry::{Laid, Mark};
use super::*;

fn file(content: u8, mode: u32) -> Entry {
    Entry { what: What::File { size: 1, sum: [content; 32], mode }, modified_ms: 0 }
}

fn directory(mode: u32) -> Entry {
    Entry { what: What::Directory { mode }, modified_ms: 0 }
}

fn tree(entries: &[(&str, Entry)]) -> Tree {
    let laid = |entry: &Entry| Laid { entry: entry.clone(), mark: Mark::default() };
    let mut tree = Tree::empty("s".parse().unwrap());
    tree.laid = entries.iter().map(|(path, entry)| (Path::from(*path), laid(entry))).collect();
    tree
}

fn told(difference: Difference, entries: &[(&str, Option<Entry>)]) -> Manifest {
    let session = "s".parse().unwrap();
    let head = Head { session, generation: 1, version: 2, mode: SessionMode::Write, difference, quota_left_bytes: 0 };
    let entries = entries.iter().map(|(path, entry)| (Path::from(*path), entry.clone())).collect();
    Manifest { head, entries, overlaid: BTreeMap::new() }
}

fn paths(list: &[(Path, Entry)]) -> Vec<&str> {
    list.iter().map(|(path, _)| &**path).collect()
}

#[test]
fn a_whole_manifest_leaves_nothing_else() {
    let tree = tree(&[("a", file(1, 0o644)), ("b", file(2, 0o644)), ("d", directory(0o755)), ("d/x", file(3, 0o644))]);
    let told = told(
        Difference::Whole,
        &[("a", Some(file(1, 0o755))), ("b", Some(file(9, 0o644))), ("c", Some(file(4, 0o644)))],
    );
    let plan = tree.plan(&told);
    assert_eq!(plan.remove.iter().map(|path| &**path).collect::<Vec<_>>(), ["b", "d"], "with `d` goes `d/x`");
    assert_eq!((paths(&plan.fix), paths(&plan.make)), (vec!["a"], vec!["b", "c"]));
}

#[test]
fn nothing_is_done_where_nothing_differs() {
    let tree = tree(&[("a", file(1, 0o644)), ("d", directory(0o755))]);
    assert_eq!(tree.plan(&told(Difference::Since, &[])), Plan::default());
    let whole = told(Difference::Whole, &[("a", Some(file(1, 0o644))), ("d", Some(directory(0o755)))]);
    assert_eq!(tree.plan(&whole), Plan::default());
}

#[test]
fn what_was_not_published_goes_back_to_what_the_version_has() {
    let mut tree = tree(&[("made", file(1, 0o644)), ("changed", file(2, 0o644)), ("touched", file(3, 0o644))]);
    tree.drift.insert("made".into(), None);
    tree.drift.insert("changed".into(), Some(file(8, 0o644)));
    tree.drift.insert("touched".into(), Some(file(3, 0o644)));
    tree.drift.insert("removed".into(), Some(file(4, 0o644)));
    let plan = tree.plan(&told(Difference::Since, &[]));
    assert_eq!(plan.remove.iter().map(|path| &**path).collect::<Vec<_>>(), ["changed", "made"]);
    assert_eq!((paths(&plan.fix), paths(&plan.make)), (vec!["touched"], vec!["changed", "removed"]));
}

#[test]
fn what_was_published_stays_where_it_stands() {
    let mut tree = tree(&[("made", file(1, 0o644)), ("changed", file(2, 0o600))]);
    tree.drift.insert("made".into(), None);
    tree.drift.insert("changed".into(), Some(file(8, 0o644)));
    let published = told(Difference::Since, &[("made", Some(file(1, 0o644))), ("changed", Some(file(2, 0o600)))]);
    let plan = tree.plan(&published);
    assert!(plan.remove.is_empty() && plan.make.is_empty(), "{plan:?}");
    assert_eq!(paths(&plan.fix), ["changed", "made"], "their times are the version's");
}

#[test]
fn a_directory_in_the_place_of_a_file_and_the_other_way_round() {
    let tree = tree(&[("a", file(1, 0o644)), ("d", directory(0o755)), ("d/x", file(2, 0o644))]);
    let told = told(
        Difference::Since,
        &[("a", Some(directory(0o755))), ("a/y", Some(file(3, 0o644))), ("d", Some(file(4, 0o644))), ("d/x", None)],
    );
    let plan = tree.plan(&told);
    assert_eq!(plan.remove.iter().map(|path| &**path).collect::<Vec<_>>(), ["a", "d"]);
    assert_eq!(paths(&plan.make), ["a", "a/y", "d"]);
}

#[test]
fn what_was_below_a_removed_directory_is_gone_and_its_neighbours_are_not() {
    let mut tree = tree(&[
        ("d", directory(0o755)),
        ("d-", file(1, 0o644)),
        ("d/x", directory(0o755)),
        ("d/x/y", file(2, 0o644)),
        ("dd", file(3, 0o644)),
    ]);
    tree.removed(&["d".into()]);
    assert_eq!(tree.laid.keys().map(|path| &**path).collect::<Vec<_>>(), ["d-", "dd"]);
}
