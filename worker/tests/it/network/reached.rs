//! What an allowed name leads to, and that nothing else answers.

use std::sync::Mutex;

use super::*;
use crate::run::eventually;

/// Prints what each `name:port` of its arguments says, or why it does not.
const ASK: &str = r#"
import errno, socket, sys, urllib.request

for place in sys.argv[1:]:
    try:
        said = urllib.request.urlopen(f"http://{place}/", timeout=5).read().decode()
    except urllib.error.URLError as error:
        why = error.reason
        said = "unknown name" if isinstance(why, socket.gaierror) else errno.errorcode[why.errno]
    print(said)
"#;

fn ask(world: &World, places: &[String]) -> Vec<String> {
    let run = json!({"kind": "python", "code": ASK});
    let lease = world.peer.task(json!({"run": run, "args": places, "network": "restricted"}));
    let report = world.peer.report(&lease);
    assert_eq!(report["outcome"], json!({"exited": {"code": 0}}), "{}", world.peer.stderr(&lease));
    world.peer.stdout(&lease).lines().map(str::to_owned).collect()
}

#[test]
fn two_names_on_one_port_are_two_servers_and_a_name_may_have_two_ports() {
    let world = World::new();
    world.know(&["127.0.0.11 alpha", "127.0.0.12 beta.example"]);
    let first = Server::http((ALPHA, 0), "first");
    let port = first.port();
    let _second = Server::http((BETA, port), "second");
    let third = Server::http((ALPHA, 0), "third").port();
    let allow = format!("alpha:{port},Beta.Example:{port}");
    let _worker = world.worker(&["--allow", &allow, "--allow", &format!("alpha:{third}")]);
    let places = [format!("alpha:{port}"), format!("beta.example:{port}"), format!("alpha:{third}")];
    let [one, two, three] = &places;
    let expected = [
        format!("first was asked for {one}"),
        format!("second was asked for {two}"),
        format!("third was asked for {three}"),
    ];
    assert_eq!(ask(&world, &places), expected);
}

#[test]
fn nothing_but_the_allowed_name_on_its_port_answers() {
    let world = World::new();
    world.know(&["127.0.0.11 alpha", "127.0.0.12 beta", "127.0.0.11 alias"]);
    let allowed = Server::http((ALPHA, 0), "allowed");
    let port = allowed.port();
    // They stand on the host's loopback, at the same port of another name, and at another port of the same name.
    let baits = [
        Server::http((Ipv4Addr::LOCALHOST, port), "bait"),
        Server::http((BETA, port), "bait"),
        Server::http((ALPHA, 0), "bait"),
    ];
    let _worker = world.worker(&["--allow", &format!("alpha:{port}")]);
    let other = baits[2].port();
    let mut places = vec![
        (format!("alpha:{port}"), format!("allowed was asked for alpha:{port}")),
        (format!("alpha:{other}"), "ECONNREFUSED".to_owned()),
        (format!("beta:{port}"), "unknown name".to_owned()),
        (format!("alias:{port}"), "unknown name".to_owned()),
    ];
    for address in ["127.0.0.1", "127.0.0.3", "127.0.0.11", "127.0.0.12"] {
        places.push((format!("{address}:{port}"), "ECONNREFUSED".to_owned()));
    }
    places.extend(outer_address().map(|address| (format!("{address}:{port}"), no_route().to_owned())));
    let (asked, expected): (Vec<String>, Vec<String>) = places.into_iter().unzip();
    assert_eq!(ask(&world, &asked), expected);
    assert_eq!((allowed.accepted(), baits.map(|bait| bait.accepted())), (1, [0, 0, 0]));
}

#[test]
fn a_task_beside_it_without_a_network_reaches_nothing() {
    let world = World::new();
    world.know(&["127.0.0.11 alpha"]);
    let server = Server::http((ALPHA, 0), "server");
    let place = format!("alpha:{}", server.port());
    let _worker = world.worker(&["--allow", &place]);
    let gate = world.bench.gate();
    let code =
        format!("import os, time\nprint('up')\nwhile not os.path.exists('{}'): time.sleep(0.01)", gate.display());
    let lease = world.peer.task(json!({"run": {"kind": "python", "code": code}, "network": "restricted"}));
    world.peer.wait_for_output(&lease, "up");
    let run = json!({"kind": "python", "code": ASK});
    let closed = world.peer.task(json!({"run": run, "args": [format!("127.0.0.2:{}", server.port())]}));
    world.peer.report(&closed);
    assert_eq!(world.peer.stdout(&closed), "ECONNREFUSED\n");
    std::fs::write(gate, "").unwrap();
    world.peer.report(&lease);
    assert_eq!(server.accepted(), 0);
}

#[test]
fn names_are_looked_up_outside_for_each_connection() {
    let world = World::new();
    world.know(&["127.0.0.11 alpha"]);
    let first = Server::http((ALPHA, 0), "first");
    let _second = Server::http((BETA, first.port()), "second");
    let place = format!("alpha:{}", first.port());
    let _worker = world.worker(&["--allow", &place]);
    assert_eq!(ask(&world, std::slice::from_ref(&place)), [format!("first was asked for {place}")]);
    world.know(&["127.0.0.12 alpha"]);
    assert_eq!(ask(&world, std::slice::from_ref(&place)), [format!("second was asked for {place}")]);
}

#[test]
fn the_name_in_a_tls_greeting_arrives_intact() {
    let world = World::new();
    world.know(&["127.0.0.11 alpha.example"]);
    let greeting = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&greeting);
    let server = Server::start((ALPHA, 0), move |mut stream| {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            heard.lock().unwrap().extend_from_slice(&buffer[..length]);
        }
    });
    let port = server.port();
    let _worker = world.worker(&["--allow", &format!("alpha.example:{port}")]);
    let code = format!(
        "import socket, ssl
stream = socket.create_connection(('alpha.example', {port}), 5)
stream.settimeout(0.2)
try:
    ssl.create_default_context().wrap_socket(stream, server_hostname='alpha.example')
except TimeoutError:
    pass"
    );
    world.python(&json!("restricted"), &code);
    // The extension `server_name` (0), with its length, that of its list, the kind of name (0), and the name.
    let name = b"alpha.example";
    let length = u8::try_from(name.len()).unwrap();
    let extension = [&[0, 0, 0, length + 5, 0, length + 3, 0, 0, length][..], name].concat();
    let arrived = || greeting.lock().unwrap().windows(extension.len()).any(|window| window == extension);
    eventually("the name in the greeting", arrived);
    assert_eq!(greeting.lock().unwrap()[..2], [22, 3], "a handshake record comes first");
}
