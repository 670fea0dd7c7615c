//! Tasks that work in a session: what they find, what they leave, and what becomes of it.

use serde_json::{Value, json};

use crate::peer::Peer;
use crate::peer::sessions::{Node, file, link};
use crate::run::{Bench, eventually};

mod ends;
mod streams;
mod trees;

pub(crate) const OK: &str = r#"{"exited":{"code":0}}"#;

/// Waits for a report that says that all went well; says what the task printed.
pub(crate) fn well(peer: &Peer, lease: &str) -> String {
    let report = peer.report(lease);
    assert_eq!(report["outcome"].to_string(), OK, "{report}\n{}", peer.stderr(lease));
    peer.stdout(lease)
}

/// What was asked of the contents so far: how many requests.
pub(crate) fn fetches(peer: &Peer) -> usize {
    peer.requests().iter().filter(|request| request.path.ends_with("/workspace/blobs")).count()
}

/// The versions that manifests were asked since.
pub(crate) fn asked(peer: &Peer) -> Vec<String> {
    let paths = peer.requests().into_iter().map(|request| request.path);
    let of_manifest = paths.filter_map(|path| Some(path.split_once("/workspace")?.1.to_owned()));
    of_manifest.filter(|rest| rest.is_empty() || rest.starts_with('?')).collect()
}

/// Waits until the worker has put a tree away.
pub(crate) fn kept(bench: &Bench, count: usize) {
    let trees = bench.state().join("trees");
    eventually(&format!("{count} kept trees"), || {
        let entries = std::fs::read_dir(&trees).into_iter().flatten().flatten();
        entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count() == count
            && bench.attempts() == 0
    });
}

#[test]
fn a_task_finds_the_files_of_its_session_and_what_it_changes_is_published() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.files("s", |tree| {
        tree.insert("a.txt".into(), file("one\n"));
        tree.insert("run.sh".into(), Node::File(0o755, b"echo ran\n".to_vec()));
        tree.insert("deep/er/b".into(), file("b\n"));
        tree.insert("empty".into(), Node::Directory(0o750));
        tree.insert("l".into(), link("deep/er/b"));
    });
    let _worker = bench.worker(&peer, &[]);
    let lease = peer.in_session(
        "s",
        "cat a.txt l; sh ./run.sh; stat -c '%a %F %Y %n' a.txt run.sh empty deep; pwd; echo $CW_SESSION $CW_WORKSPACE_DIR; \
         echo two > a.txt; rm -r deep; mkdir new; echo n > new/n; chmod 700 run.sh; ln -s nowhere dangling",
    );
    let said = well(&peer, &lease);
    let expected = "one\nb\nran\n644 regular file 1769860800 a.txt\n755 regular file 1769860800 run.sh\n";
    assert!(said.starts_with(expected), "{said}");
    assert!(said.contains("750 directory"), "{said}");
    assert!(said.ends_with("/workspace\ns /workspace\n"), "{said}");
    let tree = peer.tree("s");
    let names: Vec<&str> = tree.keys().map(String::as_str).collect();
    assert_eq!(names, ["a.txt", "dangling", "empty", "l", "new", "new/n", "run.sh"]);
    assert_eq!((&tree["a.txt"], &tree["new/n"]), (&file("two\n"), &file("n\n")));
    assert_eq!(tree["run.sh"], Node::File(0o700, b"echo ran\n".to_vec()));
    assert_eq!((&tree["dangling"], &tree["l"]), (&link("nowhere"), &link("deep/er/b")));
    let report = peer.report(&lease);
    assert!(report["stage"].is_string() && report["artifacts"].is_null(), "{report}");
    let frames = peer.stage(&lease).unwrap().frames;
    assert_eq!(frames.len(), 6, "just what changed: {frames:?}");
}

#[test]
fn the_tree_is_reused_when_nothing_changed_and_else_just_the_difference_is_fetched() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.files("s", |tree| {
        for number in 0..50 {
            tree.insert(format!("d/{number}"), file(format!("{number}\n")));
        }
    });
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    well(&peer, &peer.in_session("s", "true"));
    kept(&bench, 1);
    let inode = peer.in_session("s", "stat -c %i d/7 d/8");
    let first = well(&peer, &inode);
    kept(&bench, 1);
    assert_eq!(fetches(&peer), 1, "nothing is fetched twice");
    peer.files("s", |tree| {
        tree.insert("d/7".into(), file("changed\n"));
        tree.remove("d/9");
        tree.insert("d/51".into(), link("7"));
    });
    let second = well(&peer, &peer.in_session("s", "cat d/7; stat -c %i d/8; ls d | wc -l; cat d/51"));
    let same = first.lines().nth(1).unwrap();
    assert_eq!(second, format!("changed\n{same}\n50\nchanged\n"));
    assert_eq!(asked(&peer), ["", "?since=1", "?since=1"]);
    assert_eq!(fetches(&peer), 2);
    assert!(peer.stage(&inode).is_none(), "nothing changed, nothing is sent");
}

#[test]
fn what_a_task_published_is_there_for_the_next_without_being_fetched() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    well(&peer, &peer.in_session("s", "mkdir d; echo mine > d/file; ln -s d/file l; head -c 300000 /dev/zero > zeros"));
    kept(&bench, 1);
    let said = well(&peer, &peer.in_session("s", "cat l; stat -c %s zeros; echo more >> d/file; rm zeros"));
    assert_eq!((said.as_str(), fetches(&peer)), ("mine\n300000\n", 0));
    kept(&bench, 1);
    assert_eq!(well(&peer, &peer.in_session("s", "cat d/file; ls")), "mine\nmore\nd\nl\nskills\nutils\n");
    assert_eq!(fetches(&peer), 0);
    assert_eq!(asked(&peer), ["", "", "?since=1"], "an empty session has no version to compare with");
}

#[test]
fn overlays_and_a_session_that_is_only_read_take_no_write() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.files("s", |tree| {
        tree.insert("a".into(), file("a\n"));
        tree.insert("closed".into(), Node::File(0o600, b"mine\n".to_vec()));
    });
    peer.overlays(|tree| {
        tree.insert("utils".into(), Node::Directory(0o555));
        tree.insert("utils/tool.py".into(), Node::File(0o555, b"print('tool')\n".to_vec()));
        tree.insert("skills".into(), Node::Directory(0o555));
    });
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    let tries = "import errno, os\ndef attempt(do):\n    try:\n        do()\n        return 'done'\n    except OSError as error:\n        return errno.errorcode[error.errno]\n";
    let overlaid = tries.to_owned()
        + "print(attempt(lambda: open('utils/new', 'w')), attempt(lambda: open('utils/tool.py', 'a')), \
           attempt(lambda: os.remove('utils/tool.py')), attempt(lambda: os.mkdir('skills/x')), attempt(lambda: os.chmod('utils/tool.py', 0o777)), \
           attempt(lambda: os.rename('utils', 'other')), attempt(lambda: os.rmdir('skills')), attempt(lambda: open('own', 'w')))\n\
           os.system('python3 utils/tool.py')\n";
    let task = |code: &str, mode: &str| {
        peer.task(json!({"run": {"kind": "python", "code": code}, "session": "s", "session_mode": mode}))
    };
    let said = well(&peer, &task(&overlaid, "write"));
    // A file there has a mode that takes no write either, and that is asked first.
    assert_eq!(said, "EROFS EACCES EROFS EROFS EROFS EBUSY EBUSY done\ntool\n");
    assert_eq!(peer.tree("s").keys().collect::<Vec<_>>(), ["a", "closed", "own"]);
    let reading = tries.to_owned()
        + "print(attempt(lambda: open('a', 'a')), attempt(lambda: open('new', 'w')), attempt(lambda: os.mkdir('d')), \
           attempt(lambda: os.chmod('a', 0o777)), attempt(lambda: open('utils/x', 'w')), open('closed').read().strip(), attempt(lambda: os.utime('a')))\n";
    let lease = task(&reading, "read");
    assert_eq!(well(&peer, &lease), "EROFS EROFS EROFS EROFS EROFS mine EROFS\n");
    assert!(peer.stage(&lease).is_none() && peer.report(&lease)["stage"] == Value::Null);
}

#[test]
fn files_of_the_spec_lie_on_top_and_count_as_changes() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.files("s", |tree| {
        tree.insert("a".into(), file("old"));
        tree.insert("out".into(), link("/etc"));
    });
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    let run = json!({"kind": "shell", "code": "cat a d/b"});
    well(&peer, &peer.task(json!({"run": run, "session": "s", "files": {"a": "new", "d/b": "b"}})));
    assert_eq!(peer.tree("s")["a"], file("new"));
    assert_eq!(peer.tree("s")["d/b"], file("b"));
    let lease = peer.task(json!({"run": run, "session": "s", "files": {"out/shadow.cw": "x"}}));
    let report = peer.report(&lease);
    let detail = report["outcome"]["setup_failed"]["detail"].as_str().unwrap();
    assert!(detail.contains("`out` is a file or a link there"), "{detail}");
    assert!(!std::path::Path::new("/etc/shadow.cw").exists());
}
