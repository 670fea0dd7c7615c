//! What tasks can reach, tried from inside by small programs, with real servers outside.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::peer::Peer;
use crate::run::{Bench, Running, is_gvisor, with_mounts};

mod carried;
mod closed;
mod ended;
mod reached;

/// Names are looked up in a file of the test's alone, and nobody is asked.
const WITH_HOSTS: &str = r#"
mount --bind "$1/hosts" /etc/hosts && mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf || exit 99
shift
exec "$@"
"#;

/// A worker that looks names up in a file of ours.
struct World {
    bench: Bench,
    peer: Peer,
}

impl World {
    fn new() -> Self {
        let world = Self { bench: Bench::new(), peer: Peer::start() };
        std::fs::write(world.bench.home.path().join("nsswitch.conf"), "hosts: files\n").unwrap();
        world
    }

    /// Names that the worker knows from now on, each as `address name`.
    fn know(&self, names: &[&str]) {
        // Written in place: it is mounted where the worker looks.
        let hosts = format!("127.0.0.1 localhost\n{}\n", names.join("\n"));
        std::fs::write(self.bench.home.path().join("hosts"), hosts).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let worker = self.bench.command(&self.peer.url(), args);
        with_mounts(WITH_HOSTS, &[self.bench.home.path().as_os_str()], &worker)
    }

    fn worker(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// Runs Python behind a network policy; says what it printed.
    fn python(&self, network: &Value, code: &str) -> String {
        let lease = self.peer.task(json!({"run": {"kind": "python", "code": code}, "network": network}));
        let report = self.peer.report(&lease);
        let said = self.peer.stderr(&lease);
        assert_eq!(report["outcome"], json!({"exited": {"code": 0}}), "{said}");
        self.peer.stdout(&lease)
    }
}

/// Serves connections, each in a thread, for as long as the test runs.
struct Server {
    address: SocketAddr,
    /// How many came.
    accepted: Arc<AtomicUsize>,
}

impl Server {
    fn start(address: impl Into<SocketAddr>, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address.into()).unwrap();
        let (address, accepted) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let (count, serve) = (Arc::clone(&accepted), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { address, accepted }
    }

    /// Answers every HTTP request with its own name and the `Host` that was asked for.
    fn http(address: impl Into<SocketAddr>, name: &'static str) -> Self {
        Self::start(address, move |mut stream| {
            let mut request = String::new();
            let mut buffer = [0; 1024];
            while !request.contains("\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(length @ 1..) => request += &String::from_utf8_lossy(&buffer[..length]),
                    Ok(_) | Err(_) => return,
                }
            }
            let host = request.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap_or("no host");
            let body = format!("{name} was asked for {host}");
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        })
    }

    fn port(&self) -> u16 {
        self.address.port()
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

const ALPHA: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 11);
const BETA: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 12);

/// What a task is told of an address to which it has no route.
fn no_route() -> &'static str {
    if is_gvisor() { "EHOSTUNREACH" } else { "ENETUNREACH" }
}

/// The address by which this machine would reach others, if it has one. Nothing is sent.
fn outer_address() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    match socket.local_addr().ok()?.ip() {
        std::net::IpAddr::V4(address) => Some(address),
        std::net::IpAddr::V6(_) => None,
    }
}
