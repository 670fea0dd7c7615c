//! Reads a file once, from one descriptor: each piece is summed up and, as long as somebody takes it, sent.

use std::fs;
use std::io::{self, Read as _};

use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::Way;
use super::changed::File;
use super::walk;
use crate::client::CallError;

const PIECE_BYTES: usize = 64 << 10;
/// Pieces that may wait for the network.
const PIECES: usize = 4;

type Piece = io::Result<Vec<u8>>;

/// What a file holds.
pub(super) struct Sum {
    pub(super) size: u64,
    pub(super) sha256: String,
}

/// What became of a file.
pub(super) struct Sent {
    pub(super) sum: io::Result<Sum>,
    pub(super) uploaded: Result<(), CallError>,
}

/// Sums up a file.
pub(super) async fn read_only(file: File, way: &Way) -> Sent {
    let sum = match open(file).await {
        Ok(opened) => read(opened, way.clone(), None).await,
        Err(error) => Err(error),
    };
    Sent { sum, uploaded: Ok(()) }
}

/// Sums up a file while it is uploaded. One that cannot be read is not begun: an upload that breaks off would pass for a
/// coordinator that cannot be reached.
pub(super) async fn read_and_send(file: File, way: &Way) -> Sent {
    let (path, size) = (file.path.clone(), file.size);
    let opened = match open(file).await {
        Ok(opened) => opened,
        Err(error) => return Sent { sum: Err(error), uploaded: Ok(()) },
    };
    let (pieces, body) = mpsc::channel(PIECES);
    let reading = read(opened, way.clone(), Some(pieces));
    let body = reqwest::Body::wrap_stream(ReceiverStream::new(body));
    let (sum, uploaded) = tokio::join!(reading, way.client.upload(way.lease, &path, size, body));
    Sent { sum, uploaded: uploaded.map(drop) }
}

/// A file as it was found.
struct Opened {
    file: fs::File,
    size: u64,
}

async fn open(file: File) -> io::Result<Opened> {
    let open = move || {
        let (opened, mark) = walk::open(&file.work, file.path.as_str())?;
        if mark != file.mark {
            return Err(io::Error::other("it changed while it was looked at"));
        }
        Ok(Opened { file: opened, size: mark.size })
    };
    tokio::task::spawn_blocking(open).await.map_err(io::Error::from).flatten()
}

async fn read(opened: Opened, way: Way, pieces: Option<mpsc::Sender<Piece>>) -> io::Result<Sum> {
    tokio::task::spawn_blocking(move || sum_up(opened, &way, pieces)).await.map_err(io::Error::from).flatten()
}

/// Reads exactly what the file had when it was found. An upload that lacks some of it breaks off over there.
fn sum_up(opened: Opened, way: &Way, mut pieces: Option<mpsc::Sender<Piece>>) -> io::Result<Sum> {
    let mut rest = opened.file.take(opened.size);
    let (mut sum, mut size) = (Sha256::new(), 0);
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        (&mut rest).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        if piece.is_empty() {
            break;
        }
        if !way.is_open() {
            return Err(io::Error::other("the lease is over"));
        }
        sum.update(&piece);
        size += piece.len() as u64;
        // Once nobody takes them, the sum still needs the rest.
        pieces = pieces.filter(|pieces| pieces.blocking_send(Ok(piece)).is_ok());
    }
    Ok(Sum { size, sha256: hexadecimal(&sum.finalize()) })
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // cannot fail: a text takes everything
        let _ = write!(text, "{byte:02x}");
    }
    text
}
