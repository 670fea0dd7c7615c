//! How connections are carried: whole, with their halves and their ends as they are.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::*;

const BYTES: usize = 24 << 20;

/// Bytes that no part of themselves repeats in a simple way.
fn noise() -> Vec<u8> {
    let mut state = 1u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(BYTES).collect()
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn large_transfers_and_half_closes_arrive_whole() {
    let world = World::new();
    world.know(&["127.0.0.11 alpha"]);
    // It answers only when it has heard the end: with the sum of what came, and then with the noise.
    let server = Server::start((ALPHA, 0), |mut stream| {
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        stream.write_all(sum(&came).as_bytes()).unwrap();
        stream.write_all(&noise()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    });
    let port = server.port();
    let _worker = world.worker(&["--allow", &format!("alpha:{port}")]);
    let code = format!(
        "import hashlib, os, socket
stream = socket.create_connection(('alpha', {port}), 20)
sent = os.urandom({BYTES})
stream.sendall(sent)
stream.shutdown(socket.SHUT_WR)
came = b''.join(iter(lambda: stream.recv(1 << 20), b''))
print(came[:64].decode() == hashlib.sha256(sent).hexdigest(), hashlib.sha256(came[64:]).hexdigest())"
    );
    assert_eq!(world.python(&json!("restricted"), &code), format!("True {}\n", sum(&noise())));
}

#[test]
fn a_part_that_ends_in_a_reset_never_looks_like_the_whole() {
    let world = World::new();
    world.know(&["127.0.0.11 alpha"]);
    let server = Server::start((ALPHA, 0), |mut stream| {
        stream.write_all(b"half of it").unwrap();
        // The task has it all, and says so, before the reset.
        stream.read_exact(&mut [0]).unwrap();
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    let port = server.port();
    let _worker = world.worker(&["--allow", &format!("alpha:{port}")]);
    let code = format!(
        "import socket
stream = socket.create_connection(('alpha', {port}), 20)
print(stream.recv(100))
stream.sendall(b'x')
try:
    print('end', stream.recv(100))
except ConnectionResetError:
    print('reset')"
    );
    assert_eq!(world.python(&json!("restricted"), &code), "b'half of it'\nreset\n");
}

#[test]
fn a_far_side_that_is_down_or_unknown_fails_promptly_also_on_a_low_port() {
    let world = World::new();
    world.know(&["127.0.0.13 down"]);
    let worker = world.worker(&["--allow", "down:443,unknown.invalid:443"]);
    let code = "import socket, time
for name in ['down', 'unknown.invalid']:
    began = time.monotonic()
    try:
        stream = socket.create_connection((name, 443), 20)
        print('end', stream.recv(100))
    except ConnectionResetError:
        print('reset', time.monotonic() - began < 5)";
    let began = Instant::now();
    assert_eq!(world.python(&json!("restricted"), code), "reset True\nreset True\n");
    assert!(began.elapsed() < Duration::from_secs(20));
    worker.logged("cannot connect to tcp:down:443");
    worker.logged("cannot connect to tcp:unknown.invalid:443");
}
