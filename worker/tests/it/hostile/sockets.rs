//! Sockets that lead to parts of the kernel which no program needs, and those that must go on working.

use super::*;

#[test]
fn a_task_cannot_open_sockets_of_odd_families_or_protocols() {
    let seen = Ground::new(&[]).tries(
        r#"
tries = {f"family {family}": (family, kind, 0) for family in range(3, 46) if family not in (10, 16) for kind in (1, 2, 3, 5)}
for protocol in range(1, 32):
    tries[f"netlink {protocol}"] = (16, 3, protocol)
for family in (2, 10):
    for protocol in (1, 2, 33, 58, 88, 103, 108, 115, 132, 136, 255, 256, 262):
        for kind in (1, 2, 3, 5):
            tries[f"internet {family} {kind} {protocol}"] = (family, kind, protocol)
    for kind in (3, 4, 5, 6, 10):
        tries[f"internet {family} {kind}"] = (family, kind, 0)
        tries[f"internet {family} {kind} at once"] = (family, kind | 0o2004000, 0)
def opened(family, kind, protocol):
    made = libc.socket(family, kind, protocol)
    if made < 0:
        raise OSError(ctypes.get_errno(), "")
for what, arguments in tries.items():
    attempt(what, lambda: opened(*arguments))
pair = (ctypes.c_int * 2)()
def paired(family):
    if libc.socketpair(family, 1, 0, pair) < 0:
        raise OSError(ctypes.get_errno(), "")
for family in (2, 10, 16, 30, 40):
    attempt(f"pair {family}", lambda: paired(family))
tcp = socket.socket()
attempt("protocol above TCP", lambda: tcp.setsockopt(6, 31, b"tls"))
"#,
        &[],
    );
    all_are(&seen, "EPERM", 200);
}

#[test]
fn ordinary_sockets_names_and_loops_of_events_go_on_working() {
    let seen = Ground::new(&[]).tries(
        r#"
import asyncio, multiprocessing
attempt("tcp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 6).close())
attempt("udp", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, 17).close())
attempt("unix", lambda: socket.socketpair()[0].close())
attempt("routes", lambda: socket.socket(16, 3, 0).close())
attempt("interfaces", lambda: socket.if_nameindex())
attempt("localhost", lambda: socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM))
async def talk():
    async def answer(reader, writer):
        writer.write(await reader.readexactly(2))
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hi")
    assert await reader.readexactly(2) == b"hi"
    child = await asyncio.create_subprocess_exec("true")
    assert await child.wait() == 0
attempt("asyncio", lambda: asyncio.run(talk()))
def pooled():
    with multiprocessing.Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
attempt("a pool", pooled)
"#,
        &[],
    );
    assert!(seen.values().all(|came| came.starts_with("ok")), "{seen:?}");
    assert_eq!(seen.len(), 8);
}
