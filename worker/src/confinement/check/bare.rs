//! The walls of a level without namespaces, tried from inside. Some are not there: that is said, too.

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{getppid, getuid, test_kill_process};

use super::{Bare, REFUSED, Tried, capabilities, rlimits, seccomp, tried};

/// All of them.
pub(super) fn all(bare: &Bare) -> Vec<Tried> {
    let calls = [
        ("shared memory", libc::SYS_shmget, Errno::PERM),
        ("semaphores", libc::SYS_semget, Errno::PERM),
        ("message queues", libc::SYS_mq_open, Errno::PERM),
    ];
    let calls = [&REFUSED[..], &calls].concat();
    vec![uid(bare), processes(), capabilities(), seccomp(&calls), landlock(bare), rlimits(), files(bare), network(bare)]
}

fn uid(bare: &Bare) -> Tried {
    let uid = getuid().as_raw();
    match bare.uid {
        Some(own) => tried("uid", uid == own && uid != 0, format!("the task is user {uid}, its slot's own")),
        None => tried("uid", false, format!("the task is user {uid}, as the worker is")),
    }
}

fn processes() -> Tried {
    let seen = match fs::read_dir("/proc") {
        Ok(entries) => {
            let pids = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
            format!("it shares the machine's, and sees {} processes", pids.count())
        }
        Err(_) => "it shares the machine's, but cannot list processes".into(),
    };
    tried("namespaces", false, seen)
}

/// What nothing else holds at this level: what it may read, and whom it may signal.
fn landlock(bare: &Bare) -> Tried {
    let listed: Vec<&str> = bare.closed.iter().map(String::as_str).filter(|path| fs::read_dir(path).is_ok()).collect();
    let signals = getppid().is_some_and(|parent| test_kill_process(parent) != Err(Errno::PERM));
    let seen = match (listed.as_slice(), signals) {
        ([], false) => "reading outside of what is its own, and signals to others, are refused".to_owned(),
        ([], true) => "the kernel's is too old to refuse signals to others of this user".to_owned(),
        (listed, _) => format!("the kernel has none, or it is off: it can read {}", listed.join(", ")),
    };
    tried("landlock", listed.is_empty() && !signals, seen)
}

fn files(bare: &Bare) -> Tried {
    let own = bare.inside.writable().iter().all(|place| leaves_file(place));
    let foreign = ["/", "/usr", "/etc", "/tmp", "/var/tmp", "/dev/shm", "/sys", &bare.inside.task];
    let mut open: Vec<&str> = foreign.into_iter().chain(bare.closed.iter().map(String::as_str)).collect();
    open.retain(|place| leaves_file(place));
    open.extend(bare.closed.iter().map(String::as_str).filter(|path| fs::read_dir(path).is_ok()));
    open.extend(["/etc/shadow"].into_iter().filter(|file| File::open(file).is_ok()));
    let changed = bare.changeable.iter().any(|file| changes_mode(Path::new(file)));
    let seen = match (open.as_slice(), changed) {
        ([], false) => "only its own directories are writable".to_owned(),
        ([], true) => {
            "only its own directories are writable, but modes of the worker's files can be changed".to_owned()
        }
        (open, _) => format!("open to it: {}", open.join(", ")),
    };
    tried("files", own && open.is_empty() && !changed, seen)
}

/// Whether a file can be made there; it is removed again.
fn leaves_file(place: &str) -> bool {
    let path = Path::new(place).join(format!(".cw-check-{}", std::process::id()));
    let is_made = File::create_new(&path).is_ok();
    if is_made {
        let _ = fs::remove_file(&path);
    }
    is_made
}

/// To what it is already: nothing is changed.
fn changes_mode(path: &Path) -> bool {
    let mode = fs::metadata(path).map(|file| file.permissions().mode());
    mode.is_ok_and(|mode| fs::set_permissions(path, Permissions::from_mode(mode & 0o7777)).is_ok())
}

/// No socket can be made that could be told where to, so that there is nothing to reach a network or a service by.
fn network(bare: &Bare) -> Tried {
    let is_refused =
        |error: Option<std::io::Error>| error.is_some_and(|error| error.kind() == ErrorKind::PermissionDenied);
    let path = Path::new(&bare.inside.temporary).join(".cw-check-socket");
    let datagrams = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let tries = [
        ("TCP", is_refused(TcpStream::connect(bare.bait).err())),
        ("UDP", is_refused(std::net::UdpSocket::bind("127.0.0.1:0").err())),
        ("Unix listeners", is_refused(UnixListener::bind(&path).err())),
        ("Unix sockets", is_refused(UnixDatagram::unbound().err())),
        ("datagram pairs", datagrams.is_err_and(|error| error == Errno::PERM)),
    ];
    let open: Vec<&str> = tries.iter().filter(|(_, refused)| !refused).map(|(name, _)| *name).collect();
    let has_pairs = UnixStream::pair().is_ok();
    let seen = match open.as_slice() {
        [] => {
            "no socket can be made but connected pairs: it reaches nothing, and has no loopback of its own".to_owned()
        }
        open => format!("not refused: {}", open.join(", ")),
    };
    tried("network", open.is_empty() && has_pairs, seen)
}
