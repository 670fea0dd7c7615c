//! Much at once, in memory that does not grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shim::{BUFFER_BYTES, Carried, End, Limits, relay};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::route::{PATIENCE, Route, pattern, reaches, soon};

const MUCH: usize = 64 << 20;

/// Sends one pattern and expects another, both at once.
async fn exchange(stream: TcpStream, sent: u8, expected: u8) {
    let (mut reader, mut writer) = stream.into_split();
    let write = tokio::spawn(async move {
        writer.write_all(&pattern(MUCH, sent)).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    let mut received = Vec::with_capacity(MUCH);
    reader.read_to_end(&mut received).await.unwrap();
    assert!(received == pattern(MUCH, expected), "{} bytes, or others, came", received.len());
    write.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_goes_both_ways_at_once_unchanged() {
    let (route, far) = Route::to_listener(Limits::default()).await;
    let (near, far) = route.pair(&far).await;
    let (near, far) = (tokio::spawn(exchange(near, 1, 2)), tokio::spawn(exchange(far, 2, 1)));
    soon(near).await.unwrap();
    soon(far).await.unwrap();
    let counters = &route.gate.counters;
    reaches(&counters.open, 0).await;
    reaches(&counters.bytes_out, MUCH as u64).await;
    reaches(&counters.bytes_back, MUCH as u64).await;
}

#[tokio::test]
async fn what_a_slow_reader_does_not_take_stays_with_the_sender() {
    let ((mut sender, mut near), (mut far, reader)) = (tokio::io::duplex(64), tokio::io::duplex(64));
    let (out, back) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let counted = Arc::clone(&out);
    let relayed =
        tokio::spawn(async move { relay(&mut near, &mut far, PATIENCE, Carried { out: &counted, back: &back }).await });
    // More than both pipes and the buffer take: the last byte must not get in.
    let room = BUFFER_BYTES + 2 * 64;
    let mut taken = 0;
    while let Ok(Ok(length)) = tokio::time::timeout(Duration::from_millis(200), sender.write(&[7; 64])).await {
        taken += length;
        assert!(taken <= room, "{taken} bytes were taken, and there is room for {room}");
    }
    assert_eq!(out.load(Ordering::Relaxed), 64, "no more was handed on than the reader's pipe holds");
    drop(reader);
    drop(sender);
    assert_eq!(soon(relayed).await.unwrap(), End::Broken);
}

#[tokio::test]
async fn a_slow_reader_over_tcp_stops_the_sender_and_then_gets_everything() {
    let (route, far) = Route::to_listener(Limits::default()).await;
    let (mut near, mut far) = route.pair(&far).await;
    let mut sent = 0;
    let chunk = vec![3; 1 << 16];
    while let Ok(Ok(length)) = tokio::time::timeout(Duration::from_millis(300), near.write(&chunk)).await {
        sent += length;
        assert!(sent < 256 << 20, "nobody reads, and {sent} bytes were taken");
    }
    near.shutdown().await.unwrap();
    let mut received = Vec::new();
    soon(far.read_to_end(&mut received)).await.unwrap();
    assert_eq!(received.len(), sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_connections_at_once_do_not_mix() {
    let (route, far) = Route::to_listener(Limits::default()).await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = far.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                drop(tokio::io::copy(&mut reader, &mut writer).await);
            });
        }
    });
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(route.connect().await);
    }
    reaches(&route.gate.counters.open, 200).await;
    let mut clients = JoinSet::new();
    for (seed, mut stream) in (0_u8..200).zip(streams) {
        clients.spawn(async move {
            let sent = pattern(10_000, seed);
            stream.write_all(&sent).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut echo = Vec::new();
            stream.read_to_end(&mut echo).await.unwrap();
            assert!(echo == sent, "connection {seed}");
        });
    }
    while let Some(done) = soon(clients.join_next()).await {
        done.unwrap();
    }
    reaches(&route.gate.counters.open, 0).await;
    assert_eq!(route.gate.counters.accepted.load(Ordering::Relaxed), 200);
}
