//! The end of one direction, and a break, as the other side sees them.

use std::sync::atomic::AtomicU64;

use shim::{Carried, End, Endpoint, Gate, Limits, Listener, relay, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::route::{PATIENCE, Route, pattern, reaches, soon};

#[tokio::test]
async fn a_client_that_said_everything_still_gets_its_answer() {
    let (route, far) = Route::to_listener(Limits::default()).await;
    let (mut near, mut far) = route.pair(&far).await;
    near.write_all(b"question").await.unwrap();
    near.shutdown().await.unwrap();
    let mut text = String::new();
    soon(far.read_to_string(&mut text)).await.unwrap();
    assert_eq!(text, "question");
    far.write_all(b"answer").await.unwrap();
    drop(far);
    text.clear();
    soon(near.read_to_string(&mut text)).await.unwrap();
    assert_eq!(text, "answer");
}

#[tokio::test]
async fn a_far_side_that_said_everything_still_hears_the_rest() {
    let (route, far) = Route::to_listener(Limits::default()).await;
    let (mut near, mut far) = route.pair(&far).await;
    far.write_all(b"enough").await.unwrap();
    far.shutdown().await.unwrap();
    let mut text = String::new();
    soon(near.read_to_string(&mut text)).await.unwrap();
    assert_eq!(text, "enough");
    near.write_all(b"one thing more").await.unwrap();
    drop(near);
    text.clear();
    soon(far.read_to_string(&mut text)).await.unwrap();
    assert_eq!(text, "one thing more");
    drop(far);
    reaches(&route.gate.counters.open, 0).await;
}

#[tokio::test]
async fn bytes_that_were_on_their_way_when_both_sides_ended_are_delivered() {
    let (route, far) = Route::to_listener(Limits::default()).await;
    let (mut near, mut far) = route.pair(&far).await;
    let sent = pattern(6 << 20, 5);
    let expected = sent.clone();
    near.shutdown().await.unwrap();
    let sender = tokio::spawn(async move {
        far.write_all(&sent).await.unwrap();
        far.shutdown().await.unwrap();
    });
    // Reads nothing until the relay has most of it in its hands, or in the kernel's.
    near.readable().await.unwrap();
    let mut received = Vec::new();
    soon(near.read_to_end(&mut received)).await.unwrap();
    assert!(received == expected, "{} bytes came", received.len());
    soon(sender).await.unwrap();
}

#[tokio::test]
async fn a_broken_connection_does_not_look_like_an_end() {
    let (route, far) = Route::to_listener(Limits::default()).await;
    let (mut near, far) = route.pair(&far).await;
    near.write_all(b"question").await.unwrap();
    far.set_zero_linger().unwrap();
    drop(far);
    let error = soon(near.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    reaches(&route.gate.counters.open, 0).await;
}

/// A failed write takes the error from the socket; what its read side then shows is only an end.
#[tokio::test]
async fn an_end_after_a_failed_write_is_not_passed_on() {
    let ((mut client, mut near), (mut far, server)) = (tokio::io::duplex(64), tokio::io::duplex(64));
    client.write_all(b"question").await.unwrap();
    drop(server);
    let (out, back) = (AtomicU64::new(0), AtomicU64::new(0));
    let end = soon(relay(&mut near, &mut far, PATIENCE, Carried { out: &out, back: &back })).await;
    assert_eq!(end, End::Broken);
    near.write_all(b"x").await.unwrap();
    assert_eq!(soon(client.read_u8()).await.unwrap(), b'x', "the client was not told that this was all");
}

#[tokio::test]
async fn half_close_passes_from_unix_to_tcp_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let (outer, inner) = (directory.path().join("outer"), directory.path().join("inner"));
    let far = UnixListener::bind(&inner).unwrap();
    // unix -> tcp -> unix
    let second = Route::to(Endpoint::Unix(inner), Limits::default()).await;
    let listener = Listener::Unix(UnixListener::bind(&outer).unwrap());
    let target = crate::route::tcp(second.port);
    tokio::spawn(serve(listener, target, Gate::new(Limits::default()), std::future::pending()));

    let mut near = UnixStream::connect(&outer).await.unwrap();
    let (mut far, _) = soon(far.accept()).await.unwrap();
    near.write_all(b"over unix and tcp").await.unwrap();
    near.shutdown().await.unwrap();
    let mut text = String::new();
    soon(far.read_to_string(&mut text)).await.unwrap();
    assert_eq!(text, "over unix and tcp");
    far.write_all(b"and back").await.unwrap();
    drop(far);
    text.clear();
    soon(near.read_to_string(&mut text)).await.unwrap();
    assert_eq!(text, "and back");
}
