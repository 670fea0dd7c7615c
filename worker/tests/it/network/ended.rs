//! What a task with a restricted network can do to its worker, and that nothing is left of it.

use super::*;
use crate::run::eventually;

/// Answers `hi` at once, and holds the connection until the other side ends it; counts those that are open.
fn holder() -> (Server, Arc<AtomicUsize>) {
    let open = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&open);
    let server = Server::start((ALPHA, 0), move |mut stream| {
        count.fetch_add(1, Ordering::SeqCst);
        let _ = stream.write_all(b"hi");
        while let Ok(1..) = stream.read(&mut [0; 64]) {}
        count.fetch_sub(1, Ordering::SeqCst);
    });
    (server, open)
}

#[test]
fn thousands_of_connections_are_bounded_and_other_tasks_go_on() {
    let world = World::new();
    world.know(&["127.0.0.11 alpha"]);
    let (server, open) = holder();
    let port = server.port();
    let _worker = world.worker(&["--allow", &format!("alpha:{port}"), "--slots", "2"]);
    // 256 connections and as many that wait are the most there can be: the others are reset.
    let code = format!(
        "import os, selectors, socket, time
look = selectors.DefaultSelector()
held, served, reset = [], 0, 0
for _ in range(3000):
    try:
        stream = socket.create_connection(('alpha', {port}), 20)
        look.register(stream, selectors.EVENT_READ)
        held.append(stream)
    except ConnectionResetError:
        reset += 1
while reset < 1000 or not served:
    for key, _ in look.select(5):
        look.unregister(key.fileobj)
        try:
            served += key.fileobj.recv(2) == b'hi'
        except ConnectionResetError:
            reset += 1
print('served' if served <= 256 else served, flush=True)
while not os.path.exists('{}'): time.sleep(0.01)",
        world.bench.gate().display()
    );
    let limits = json!({"open_files": 4096});
    let flood = world.peer.task(
        json!({"run": {"kind": "python", "code": code}, "network": "restricted", "limits": limits, "timeout_s": 60}),
    );
    world.peer.wait_for_output(&flood, "served\n");
    assert!((1..=256).contains(&open.load(Ordering::SeqCst)), "{open:?}");
    let beside = world.peer.shell("echo here");
    world.peer.report(&beside);
    assert_eq!(world.peer.stdout(&beside), "here\n");
    std::fs::write(world.bench.gate(), "").unwrap();
    assert_eq!(world.peer.report(&flood)["outcome"], json!({"exited": {"code": 0}}));
    eventually("all connections are cut", || open.load(Ordering::SeqCst) == 0);
}

#[test]
fn connections_are_cut_when_the_attempt_is_ended() {
    let world = World::new();
    world.know(&["127.0.0.11 alpha"]);
    let (server, open) = holder();
    let port = server.port();
    let _worker = world.worker(&["--allow", &format!("alpha:{port}")]);
    let code = format!(
        "import signal, socket
signal.signal(signal.SIGTERM, signal.SIG_IGN)
stream = socket.create_connection(('alpha', {port}), 20)
print(stream.recv(2), flush=True)
signal.pause()"
    );
    let lease = world.peer.task(json!({"run": {"kind": "python", "code": code}, "network": "restricted"}));
    world.peer.wait_for_output(&lease, "hi");
    assert_eq!(open.load(Ordering::SeqCst), 1);
    world.peer.cancel(&lease);
    assert_eq!(world.peer.report(&lease)["outcome"], json!("cancelled"));
    eventually("the connection is cut", || open.load(Ordering::SeqCst) == 0);
}

/// As root the worker's descriptors can be counted; who cannot count them sees that they do not run out.
#[test]
fn no_descriptor_is_left_of_many_attempts() {
    let world = World::new();
    world.know(&["127.0.0.11 alpha"]);
    let (server, open) = holder();
    let port = server.port();
    let others: Vec<String> = (1..64).map(|low| format!("alpha:{low}")).collect();
    let allow = format!("alpha:{port},{}", others.join(","));
    let plain = world.command(&["--allow", &allow, "--slots", "1"]);
    let mut limited = Command::new("prlimit");
    limited.arg("--nofile=1024:1024").arg(plain.get_program()).args(plain.get_args()).env_clear();
    limited.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let worker = Running::start(limited);
    let code = format!(
        "import os, socket
streams = [socket.create_connection(('alpha', {port}), 20) for _ in range(8)]
print([stream.recv(2) for stream in streams] == [b'hi'] * 8, flush=True)
os._exit(0)"
    );
    let listing = format!("/proc/{}/fd", worker.pid().as_raw_nonzero());
    let count = || std::fs::read_dir(&listing).map_or(0, Iterator::count);
    assert_eq!(world.python(&json!("restricted"), &code), "True\n");
    let before = count();
    for _ in 0..16 {
        assert_eq!(world.python(&json!("restricted"), &code), "True\n");
    }
    eventually("all connections are cut", || open.load(Ordering::SeqCst) == 0);
    eventually("as many descriptors as before", || count() <= before);
    assert_eq!(server.accepted(), 17 * 8);
}
