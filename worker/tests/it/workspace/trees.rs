//! Trees that a hostile task leaves, and ordinary ones of unusual form: kept, named or taken away, and never followed.

use serde_json::json;

use super::{fetches, kept, well};
use crate::peer::Peer;
use crate::peer::sessions::{Node, file, link};
use crate::run::Bench;

fn skipped(report: &serde_json::Value) -> Vec<(String, String)> {
    let skipped = report["skipped"].as_array().cloned().unwrap_or_default();
    let word = |one: &serde_json::Value, field: &str| one[field].as_str().unwrap().to_owned();
    skipped.iter().map(|one| (word(one, "path"), word(one, "why"))).collect()
}

#[test]
fn a_task_that_writes_wherever_it_can_poisons_neither_the_cache_nor_another_session() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let content = "what every session has, and long enough to be cloned where that is possible\n".repeat(2000);
    for session in ["one", "two"] {
        peer.files(session, |tree| {
            tree.insert("shared".into(), file(&content));
            tree.insert("twin".into(), file(&content));
        });
    }
    peer.overlays(|tree| {
        tree.insert("utils".into(), Node::Directory(0o555));
        tree.insert("utils/shared".into(), file(&content));
    });
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    let code = "import os, mmap
with open('shared', 'r+b') as file:
    mmap.mmap(file.fileno(), 0)[0:6] = b'POISON'
for name in ['twin', 'utils/shared']:
    for attempt in [lambda: os.chmod(name, 0o777), lambda: open(name, 'r+').write('POISON'), lambda: os.truncate(name, 3), lambda: os.link(name, 'linked-' + name.replace('/', '-'))]:
        try:
            attempt()
        except OSError:
            pass
print(open('shared').read(6), open('twin').read(), open('utils/shared').read(4))
";
    let lease = peer.task(json!({"run": {"kind": "python", "code": code}, "session": "one"}));
    assert_eq!(well(&peer, &lease), "POISON POI what\n");
    let check = "sha256sum shared twin utils/shared | cut -c1-64 | sort -u";
    let sum = crate::peer::sessions::sum(content.as_bytes()) + "\n";
    assert_eq!(well(&peer, &peer.in_session("two", check)), sum);
    assert_eq!(well(&peer, &peer.reading("two", check)), sum);
    assert_eq!(fetches(&peer), 1, "all of it came from the cache");
    let tree = peer.tree("one");
    assert_eq!((&tree["twin"], tree.contains_key("utils/shared")), (&Node::File(0o777, b"POI".to_vec()), false));
}

#[test]
fn links_are_data_and_a_directory_that_became_one_leads_nowhere() {
    let (bench, peer) = (Bench::new(), Peer::start());
    std::fs::write(bench.home.path().join("secret"), "secret").unwrap();
    peer.files("s", |tree| {
        tree.insert("d/a".into(), file("a"));
        tree.insert("loop".into(), link("loop"));
        tree.insert("up".into(), link("../../../../../../etc/passwd"));
    });
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    let home = bench.home.path().display();
    let code = format!(
        "readlink loop up; rm -r d; ln -s {home} d; ln -s {home}/secret e; ln -s . here; ln -s here/here there"
    );
    assert_eq!(well(&peer, &peer.in_session("s", &code)), "loop\n../../../../../../etc/passwd\n");
    let tree = peer.tree("s");
    assert_eq!(tree.keys().collect::<Vec<_>>(), ["d", "e", "here", "loop", "there", "up"]);
    assert_eq!(tree["d"], link(&home.to_string()));
    // The next version has a directory where the kept tree has a link that leads out.
    peer.files("s", |tree| {
        tree.insert("d".into(), Node::Directory(0o755));
        tree.insert("d/new".into(), file("new"));
    });
    assert_eq!(well(&peer, &peer.in_session("s", "cat d/new; rm -r d")), "new");
    assert!(!bench.home.path().join("new").exists());
    assert_eq!(std::fs::read_to_string(bench.home.path().join("secret")).unwrap(), "secret");
}

#[test]
fn what_cannot_be_kept_is_named_and_not_seen_by_the_next_task() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    let code = "import os, socket
os.mkdir('.ssh'); open('.ssh/id', 'w').write('secret')
open('.env', 'w').write('secret'); open('.env.example', 'w').write('fine')
os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('socket')
open(b'bad\\xff', 'w').close(); open('new\\nline', 'w').close()
os.mkdir('UTILS'); open('UTILS/x', 'w').close()
open('Readme', 'w').write('1'); open('README', 'w').write('2'); open('n' * 255, 'w').write('3')
os.makedirs('a/b')
for _ in range(10000):
    os.mkdir('d'); os.chdir('d')
";
    let lease = peer.task(json!({"run": {"kind": "python", "code": code}, "session": "s", "timeout_s": 120}));
    // So deep a path is over the limit of the disk when somebody looks in time: it is published all the same.
    let report = peer.report(&lease);
    assert!(report["stage"].is_string(), "{report}");
    let mut names: Vec<String> = skipped(&report).into_iter().map(|(path, _)| path).collect();
    names.sort();
    let (deep, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.starts_with("d/d/"));
    assert_eq!(others, [".env", ".ssh", "UTILS", "bad\u{fffd}", "newline", "pipe", "socket"]);
    assert_eq!(deep.len(), 1);
    let tree = peer.tree("s");
    assert_eq!((&tree["Readme"], &tree["README"], &tree[&"n".repeat(255)]), (&file("1"), &file("2"), &file("3")));
    assert_eq!((&tree[".env.example"], &tree["a/b"]), (&file("fine"), &Node::Directory(0o755)));
    assert_eq!(tree.len(), 6 + 100, "all but what was named");
    kept(&bench, 1);
    let said = well(&peer, &peer.in_session("s", "ls -A; find d | wc -l"));
    let expected = format!(".env.example\nREADME\nReadme\na\nd\n{}\nskills\nutils\n100\n", "n".repeat(255));
    assert_eq!(said, expected);
    assert_eq!(fetches(&peer), 0, "the tree was reused");
}

#[test]
fn hard_links_become_files_and_special_bits_are_dropped() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    well(&peer, &peer.in_session("s", "echo 1 > a; ln a b; chmod 6755 a; mkdir d; chmod 1777 d"));
    let tree = peer.tree("s");
    assert_eq!((&tree["a"], &tree["b"]), (&Node::File(0o755, b"1\n".to_vec()), &Node::File(0o755, b"1\n".to_vec())));
    assert_eq!(tree["d"], Node::Directory(0o777));
    let said = well(&peer, &peer.in_session("s", "echo 2 >> a; cat b; stat -c '%a %h' a b d"));
    assert_eq!(said, "1\n755 1\n755 1\n777 2\n");
}

#[test]
fn what_a_task_closed_to_itself_is_kept_and_closed_again() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    well(&peer, &peer.in_session("s", "mkdir -p d/e; echo x > d/e/f; chmod 0 d/e/f d/e d"));
    let tree = peer.tree("s");
    assert_eq!((&tree["d"], &tree["d/e"]), (&Node::Directory(0), &Node::Directory(0)));
    assert_eq!(tree["d/e/f"], Node::File(0, b"x\n".to_vec()));
    let said = well(&peer, &peer.in_session("s", "stat -c %a d; cat d/e/f 2>&1; chmod 700 d d/e d/e/f; cat d/e/f"));
    assert_eq!(said, "0\ncat: d/e/f: Permission denied\nx\n");
    for mode in ["0", "600", "300"] {
        well(&peer, &peer.in_session("s", &format!("chmod {mode} /workspace")));
        assert_eq!(well(&peer, &peer.in_session("s", "cat d/e/f")), "x\n");
    }
}

#[test]
fn attributes_and_times_of_one_task_are_not_seen_by_the_next() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.files("s", |tree| {
        tree.insert("a".into(), file("a"));
        tree.insert("b".into(), file("b"));
    });
    let _worker = bench.worker(&peer, &["--slots", "1"]);
    let times = "touch -d @12345 a";
    well(&peer, &peer.in_session("s", times));
    kept(&bench, 1);
    assert_eq!(well(&peer, &peer.in_session("s", "stat -c %Y a")), "1769860800\n");
    let code = "import os\ntry:\n    os.setxattr('b', 'user.note', b'x'); os.setxattr('.', 'user.note', b'x')\nexcept OSError as error:\n    print(error)\n";
    peer.report(&peer.task(json!({"run": {"kind": "python", "code": code}, "session": "s"})));
    let code = "import os\nprint(os.listxattr('a') + os.listxattr('b') + os.listxattr('.'))\n";
    let lease = peer.task(json!({"run": {"kind": "python", "code": code}, "session": "s"}));
    let said = well(&peer, &lease);
    assert!(!said.contains("user."), "{said}");
}

#[test]
fn ten_thousand_files_come_and_go_and_come_back_at_once() {
    let (bench, peer) = (Bench::new(), Peer::start());
    peer.files("s", |tree| {
        for number in 0..10_000 {
            tree.insert(format!("d{}/{number}", number % 100), file(format!("{number}")));
        }
    });
    let worker = bench.worker(&peer, &["--slots", "1", "--log", "debug"]);
    assert_eq!(well(&peer, &peer.in_session("s", "find . -type f | wc -l")), "10000\n");
    kept(&bench, 1);
    let before = fetches(&peer);
    let code = "find . -type f | wc -l; for n in 0 1 2 3 4; do echo changed > d0/$n; done; rm -r d1";
    assert_eq!(well(&peer, &peer.in_session("s", code)), "10000\n");
    assert_eq!(fetches(&peer), before);
    assert_eq!(peer.tree("s").values().filter(|node| matches!(node, Node::File(..))).count(), 9_904);
    drop(worker);
}

#[test]
fn a_large_file_takes_little_memory_down_and_up() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut bytes = Vec::with_capacity(100 << 20);
    let mut state = 1_u32;
    while bytes.len() < 100 << 20 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    let sum = crate::peer::sessions::sum(&bytes);
    peer.files("s", |tree| drop(tree.insert("large".into(), file(&bytes))));
    drop(bytes);
    let worker = bench.worker(&peer, &["--slots", "1"]);
    let run = json!({"kind": "shell", "code": "sha256sum large | cut -c1-64; printf x >> large"});
    let limits = json!({"file_size_bytes": 200 << 20});
    let lease = peer.task(json!({"run": run, "session": "s", "limits": limits, "timeout_s": 120}));
    assert_eq!(well(&peer, &lease), sum + "\n");
    let Node::File(_, bytes) = &peer.tree("s")["large"] else { panic!("not a file") };
    assert_eq!((bytes.len(), bytes.last()), ((100 << 20) + 1, Some(&b'x')));
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid().as_raw_nonzero())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 100 << 10, "the worker took {peak} KiB at most");
}
