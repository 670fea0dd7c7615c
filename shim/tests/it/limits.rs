//! Places, the queue, refusal, and limits in time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use shim::{Endpoint, Limits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::route::{PATIENCE, Route, reaches, soon, tcp};

fn few() -> Limits {
    Limits { max_connections: 2, max_waiting: 1, connect: PATIENCE, ..Limits::default() }
}

#[tokio::test]
async fn beyond_the_places_one_waits_and_beyond_the_queue_one_is_refused() {
    let (route, far) = Route::to_listener(few()).await;
    let (first, _first) = route.pair(&far).await;
    let (_second, _far) = route.pair(&far).await;
    let mut third = route.connect().await;
    reaches(&route.gate.counters.accepted, 3).await;
    let mut fourth = route.connect().await;
    let refused = soon(fourth.read_u8()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionReset);
    let counters = &route.gate.counters;
    reaches(&counters.refused, 1).await;
    assert_eq!(counters.open.load(Ordering::Relaxed), 2, "the third waits");

    drop((first, _first));
    third.write_all(b"x").await.unwrap();
    let (mut third_far, _) = soon(far.accept()).await.unwrap();
    assert_eq!(soon(third_far.read_u8()).await.unwrap(), b'x', "what was sent while waiting is delivered");
    assert_eq!(counters.refused.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_wait_for_a_place_has_its_limit() {
    let limits = Limits { max_connections: 1, connect: Duration::from_millis(50), ..Limits::default() };
    let (route, far) = Route::to_listener(limits).await;
    let _first = route.pair(&far).await;
    let mut second = route.connect().await;
    soon(second.read_u8()).await.unwrap_err();
    reaches(&route.gate.counters.refused, 1).await;
}

#[tokio::test]
async fn a_far_side_that_is_not_there_closes_the_connection_and_is_counted() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for target in [tcp(gone), Endpoint::Unix("/nowhere/far.sock".into())] {
        let route = Route::to(target, Limits::default()).await;
        let mut near = route.connect().await;
        soon(near.read_u8()).await.unwrap_err();
        reaches(&route.gate.counters.unreachable, 1).await;
        reaches(&route.gate.counters.open, 0).await;
    }
}

#[tokio::test]
async fn a_far_side_that_comes_back_is_reached() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("far.sock");
    let route = Route::to(Endpoint::Unix(path.clone()), Limits::default()).await;
    soon(route.connect().await.read_u8()).await.unwrap_err();
    let far = tokio::net::UnixListener::bind(&path).unwrap();
    let mut near = route.connect().await;
    soon(far.accept()).await.unwrap().0.write_all(b"y").await.unwrap();
    assert_eq!(soon(near.read_u8()).await.unwrap(), b'y');
}

#[tokio::test]
async fn names_are_looked_up() {
    let far = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("tcp:localhost:{}", far.local_addr().unwrap().port()).parse().unwrap();
    let route = Route::to(target, Limits::default()).await;
    route.pair(&far).await;
}

#[tokio::test]
async fn a_connection_on_which_nothing_moves_is_ended() {
    let limits = Limits { idle: Duration::from_millis(80), ..Limits::default() };
    let (route, far) = Route::to_listener(limits).await;
    let (mut near, mut far) = route.pair(&far).await;
    soon(near.read_u8()).await.unwrap_err();
    soon(far.read_u8()).await.unwrap_err();
    reaches(&route.gate.counters.idle, 1).await;
}

/// For longer than the limit, a byte each quarter of it.
#[tokio::test]
async fn a_connection_on_which_little_moves_stays() {
    let idle = Duration::from_secs(1);
    let (route, far) = Route::to_listener(Limits { idle, ..Limits::default() }).await;
    let (mut near, mut far) = route.pair(&far).await;
    let mut ticks = tokio::time::interval(idle / 4);
    for _ in 0..7 {
        ticks.tick().await;
        near.write_all(b"x").await.unwrap();
        soon(far.read_u8()).await.unwrap();
    }
    assert_eq!(route.gate.counters.idle.load(Ordering::Relaxed), 0);
}
