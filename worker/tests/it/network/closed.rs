//! Tasks that may reach nothing.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::time::{Duration, Instant};

use super::*;
use crate::run::token;

/// Tries all ways out, and its own loopback; prints what came of each.
const TRY: &str = r#"
import errno, os, socket, sys, time

def attempt(what, try_it):
    began = time.monotonic()
    try:
        try_it()
        seen = "ok"
    except socket.gaierror:
        seen = "unknown name"
    except OSError as error:
        seen = errno.errorcode.get(error.errno, repr(error))
    quick = "" if time.monotonic() - began < 2 else " slowly"
    print(what, seen + quick)

def own_loopback():
    listener = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(listener.getsockname(), 5)
    far = listener.accept()[0]
    far.sendall(b"hello")
    assert near.recv(5) == b"hello"

def abstract():
    unix = socket.socket(socket.AF_UNIX)
    unix.connect("\0" + sys.argv[1])

def call(address):
    return lambda: socket.create_connection((address, int(sys.argv[2])), 5)

def send_to(address):
    return lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (address, 53))

routes = open("/proc/net/route").read().splitlines()[1:]
print("routes", len(routes))
print("interfaces", [name for _, name in socket.if_nameindex()])
attempt("own", own_loopback)
attempt("abstract", abstract)
attempt("host", call("127.0.0.1"))
attempt("alpha's address", call("127.0.0.11"))
attempt("elsewhere", call("192.0.2.1"))
attempt("datagram", send_to("192.0.2.1"))
attempt("lookup", lambda: socket.getaddrinfo("example.com", 80))
attempt("alpha", lambda: socket.getaddrinfo("alpha", 80))
attempt("localhost", lambda: socket.getaddrinfo("localhost", 80))
for address in sys.argv[3:]:
    attempt("outer", call(address))
"#;

const SEEN: &str = "routes 0
interfaces ['lo']
own ok
abstract ECONNREFUSED
host ECONNREFUSED
alpha's address ECONNREFUSED
elsewhere NO ROUTE
datagram NO ROUTE
lookup unknown name
alpha unknown name
localhost ok
";

fn finds_nothing(args: &[&str], network: &Value) {
    let world = World::new();
    world.know(&["127.0.0.11 alpha"]);
    let bait = Server::http((Ipv4Addr::UNSPECIFIED, 0), "bait");
    let name = format!("cw-bait-{}", token());
    let _abstract = UnixListener::bind_addr(&UnixAddress::from_abstract_name(&name).unwrap()).unwrap();
    let outer = outer_address();
    let mut arguments = vec![name, bait.port().to_string()];
    arguments.extend(outer.map(|address| address.to_string()));
    let mut expected = SEEN.replace("NO ROUTE", no_route());
    if outer.is_some() {
        expected += &format!("outer {}\n", no_route());
    }
    let _worker = world.worker(args);
    let spec = json!({"run": {"kind": "python", "code": TRY}, "args": arguments, "network": network});
    let lease = world.peer.task(spec);
    assert_eq!(world.peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}), "{}", world.peer.stderr(&lease));
    assert_eq!(world.peer.stdout(&lease), expected);
    assert_eq!(bait.accepted(), 0);
    // The bait does answer, and so does what is abstract: here, outside.
    drop(TcpStream::connect((Ipv4Addr::LOCALHOST, bait.port())).unwrap());
}

#[test]
fn a_task_without_a_network_reaches_nothing_but_its_own_loopback() {
    finds_nothing(&["--allow", "alpha:80"], &json!("none"));
}

#[test]
fn code_has_no_network_unless_it_asks() {
    finds_nothing(&["--allow", "alpha:80"], &Value::Null);
}

#[test]
fn a_restricted_network_with_nothing_allowed_equals_none() {
    finds_nothing(&[], &json!("restricted"));
}

#[test]
fn a_network_that_the_worker_does_not_know_is_given_back() {
    let world = World::new();
    world.know(&[]);
    let _worker = world.worker(&[]);
    let lease = world.peer.task(json!({"run": {"kind": "shell", "code": "true"}, "network": "open"}));
    let began = Instant::now();
    let reason = world.peer.release(&lease)["reason"].to_string();
    assert!(reason.contains("network") && reason.contains("`none` or `restricted`"), "{reason}");
    assert!(began.elapsed() < Duration::from_secs(20));
}
