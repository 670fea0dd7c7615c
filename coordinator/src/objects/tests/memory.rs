//! The claim that memory is bounded whatever the sizes: a test of its own process, as the runner gives it.

use super::servers::Server;
use super::{Opened, bytes, open_s3};
use crate::objects::Objects;

const PIECE_BYTES: usize = 1 << 20;
const PIECES: u64 = 120;

/// What this process took at most so far.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

async fn there_and_back(objects: &Objects, piece: &[u8]) {
    let mut incoming = objects.begin();
    for _ in 0..PIECES {
        incoming.write(piece).await.unwrap();
    }
    let kept = incoming.keep().await.unwrap();
    let mut reading = objects.read(&kept.name, 0..kept.size).await.unwrap();
    let mut read = 0;
    while let Some(piece) = reading.next().await.unwrap() {
        read += piece.len() as u64;
    }
    assert_eq!(read, PIECES * piece.len() as u64);
}

#[tokio::test]
async fn large_blobs_side_by_side_take_little_memory() {
    let Opened { objects, _dir, _server } = open_s3(Server::rclone()).await;
    let piece = bytes(PIECE_BYTES);
    let before = peak_bytes();
    tokio::join!(there_and_back(&objects, &piece), there_and_back(&objects, &piece), there_and_back(&objects, &piece));
    let grown = peak_bytes() - before;
    assert!(grown < 100 << 20, "360 MiB took {} MiB of memory", grown >> 20);
}
