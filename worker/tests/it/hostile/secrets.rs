//! What belongs to the worker and to the host, and must not be read.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use super::*;
use crate::peer::KEY;

/// Looks at every file and process for what must not be found; it comes in turned round.
const SEARCH: &str = r#"
needles = [argument[::-1].encode() for argument in sys.argv[1].split(",")]
found, looked = [], 0
def look(path, size=4 << 20):
    global looked
    try:
        with open(path, "rb") as file:
            text = file.read(size)
            looked += 1
    except OSError:
        return
    found.extend(f"{path}: {needle}" for needle in needles if needle in text)
for top in os.listdir("/"):
    if top in ("usr", "bin", "lib", "lib64", "sbin", "sys", "proc", "dev"):
        continue
    for directory, _, names in os.walk("/" + top):
        found.extend(f"{directory}/{name}" for name in names if name.startswith("cw-bait"))
        for name in names:
            path = os.path.join(directory, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                look(path)
for pid in pids():
    for name in ("environ", "cmdline", "maps", "status", "mountinfo", "cgroup"):
        look(f"/proc/{pid}/{name}")
    for thread in os.listdir(f"/proc/{pid}/task"):
        look(f"/proc/{pid}/task/{thread}/environ")
for name in ("keys", "cmdline", "net/unix", "sysvipc/shm"):
    look(f"/proc/{name}")
print(json.dumps({"found": str(found), "looked": str(looked)}))
"#;

fn turned(texts: &[&str]) -> String {
    texts.iter().map(|text| text.chars().rev().collect::<String>()).collect::<Vec<_>>().join(",")
}

#[test]
fn a_task_finds_neither_the_workers_key_nor_its_environment_anywhere() {
    let ground = Ground::new(&[]);
    std::fs::set_permissions(ground.bench.home.path().join("key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let seen = ground.seen(&ground.send(SEARCH, &[&turned(&[KEY, "must not be seen", "SECRET_OF_THE_HOST"])]));
    assert_eq!(seen["found"], "[]");
    assert!(seen["looked"].parse::<u32>().unwrap() > 15, "{seen:?}");
}

#[test]
fn a_search_of_this_kind_does_find_what_is_there() {
    let ground = Ground::new(&[]);
    let lease = ground.send(&format!("open('/tmp/here', 'w').write('a needle')\n{SEARCH}"), &[&turned(&["a needle"])]);
    let seen = ground.seen(&lease);
    assert!(seen["found"].contains("/tmp/here"), "{seen:?}");
}

/// Directories of the host in which somebody might keep something.
const PLACES: [&str; 12] =
    ["/root", "/home", "/var/tmp", "/var/lib", "/var/log", "/tmp", "/dev/shm", "/opt", "/srv", "/run", "/etc", "/mnt"];

/// Tries to read a file of the host by its path and round about it.
const READ: &str = r#"
for path in sys.argv[1:]:
    for before in ("", "/proc/self/root", "/proc/1/root", "/proc/self/cwd/..", "/proc/thread-self/root", "/workspace/..",
                   "/dev/fd/../../..", "/proc/1/cwd", "/run/cw/../..", "/proc/self/task/../root", "/mnt", "/oldroot", "/newroot"):
        attempt(before + path, lambda: read(before + path))
    link = f"/workspace/link{len(seen)}"
    os.symlink(path, link)
    attempt(f"link to {path}", lambda: read(link))
    attempt(f"hard link to {path}", lambda: os.link(path, link + "hard"))
    attempt(f"a shell in {path}", lambda: subprocess.run(["cat", path], check=True, capture_output=True))
"#;

#[test]
fn a_task_cannot_read_files_of_the_host_outside_the_systems_directories() {
    let ground = Ground::new(&[]);
    let mut places: Vec<PathBuf> = PLACES.iter().map(PathBuf::from).collect();
    places.extend([ground.bench.home.path().to_path_buf(), ground.bench.state(), ground.bench.state().join("spool")]);
    ground.peer.wait_for_count("/v1/leases", 1);
    let text = format!("bait-{}", token());
    let baits: Vec<Bait> = places.iter().filter_map(|place| Bait::lay(place, &text)).collect();
    assert!(baits.len() >= 5, "only {} places can be written", baits.len());
    let mut paths: Vec<String> = baits.iter().map(Bait::path).collect();
    paths.push(ground.bench.home.path().join("key").display().to_string());
    paths.extend(
        ["/etc/shadow", "/etc/gshadow", "/etc/hostname", "/etc/sudoers", "/etc/ssh", "/etc/crontab"].map(Into::into),
    );
    paths.extend(
        ["/sys/kernel", "/sys/fs/cgroup", "/boot", "/var/log", "/run/systemd", "/dev/mem", "/dev/kmsg"].map(Into::into),
    );
    let arguments: Vec<&str> = paths.iter().map(String::as_str).collect();
    all_fail(&ground.tries(READ, &arguments), 16 * paths.len());
    let seen = ground.seen(&ground.send(SEARCH, &[&turned(&[&text])]));
    assert_eq!(seen["found"], "[]");
}

#[test]
fn a_task_sees_no_directory_of_the_host_but_the_systems() {
    let ground = Ground::new(&[]);
    let lease = ground.send("print(json.dumps({name: '' for name in os.listdir('/')}))", &[]);
    let known =
        ["bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "task", "tmp", "usr"];
    let shared = ground.bench.home.path().components().nth(1).unwrap().as_os_str().to_string_lossy().into_owned();
    let mut other: Vec<String> = ground.seen(&lease).into_keys().collect();
    other.retain(|name| !known.contains(&name.as_str()) && *name != "workspace" && *name != shared);
    assert_eq!(other, [""; 0]);
}

#[test]
fn a_link_to_a_file_of_the_host_is_not_uploaded() {
    let ground = Ground::new(&[]);
    let bait = Bait::lay(ground.bench.home.path(), "bait of the host").unwrap();
    let code = r#"
for number, path in enumerate(sys.argv[1:]):
    os.symlink(path, f"link{number}.txt")
    os.symlink(os.path.dirname(path), f"directory{number}")
    os.symlink("../" * 40 + path, f"climbing{number}.txt")
open("own.txt", "w").write("own")
"#;
    let key = ground.bench.home.path().join("key").display().to_string();
    let lease = ground.send(code, &[&bait.path(), &key, "/etc/shadow"]);
    let report = ground.peer.report(&lease);
    assert_eq!(report["outcome"], json!({"exited": {"code": 0}}), "{}", ground.peer.stderr(&lease));
    let uploads = ground.peer.uploads(&lease);
    assert_eq!(uploads.keys().map(String::as_str).collect::<Vec<_>>(), ["own.txt"]);
}

#[test]
fn a_task_is_given_no_descriptor_but_its_three_streams() {
    let (bench, peer) = (Bench::new(), Peer::start());
    // Whoever starts a worker may have files open that programs inherit.
    let worker = bench.command(&peer.url(), &[]);
    let mut command = Command::new("sh");
    command.args(["-c", "exec 9>>\"$0/leaked\" 8<\"$0/key\"; exec \"$@\""]).arg(bench.home.path());
    command.arg(worker.get_program()).args(worker.get_args()).env_clear();
    command.envs(worker.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let ground = Ground { worker: Running::start(command), bench, peer };
    let code = r#"
open_ones = {}
for number in range(0, 1024):
    try:
        open_ones[str(number)] = oct(stat.S_IFMT(os.fstat(number).st_mode))
    except OSError:
        pass
print(json.dumps(open_ones))
"#;
    let seen = ground.seen(&ground.send(code, &[]));
    let numbers: Vec<&str> = seen.keys().map(String::as_str).collect();
    assert_eq!(numbers, ["0", "1", "2"]);
    assert!(seen.values().all(|kind| kind != "0o140000"), "a socket: {seen:?}");
}
