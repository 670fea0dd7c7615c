//! How a relay is stopped.

use shim::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use crate::route::{Route, reaches, soon};

#[tokio::test]
async fn shutdown_ends_every_connection_and_leaves_nothing_behind() {
    let before = Handle::current().metrics().num_alive_tasks();
    let limits = Limits { max_connections: 2, ..Limits::default() };
    let (route, far) = Route::to_listener(limits).await;
    let (mut near, mut far_end) = route.pair(&far).await;
    near.write_all(b"begun").await.unwrap();
    let _second = route.pair(&far).await;
    let mut waiting = route.connect().await;
    reaches(&route.gate.counters.accepted, 3).await;

    route.stop.send(()).unwrap();
    soon(route.served).await.unwrap();
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before, "no task is left");
    soon(near.read_u8()).await.unwrap_err();
    soon(waiting.read_u8()).await.unwrap_err();
    let mut rest = Vec::new();
    let ended = soon(far_end.read_to_end(&mut rest)).await;
    assert!(ended.is_err(), "a part does not look like the whole");
    reaches(&route.gate.counters.open, 0).await;
    TcpStream::connect(("127.0.0.1", route.port)).await.unwrap_err();
}

#[tokio::test]
async fn dropping_a_relay_ends_every_connection() {
    let (route, far) = Route::to_listener(Limits::default()).await;
    let (mut near, mut far) = route.pair(&far).await;
    route.served.abort();
    soon(near.read_u8()).await.unwrap_err();
    soon(far.read_u8()).await.unwrap_err();
    reaches(&route.gate.counters.open, 0).await;
}
