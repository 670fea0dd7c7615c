//! One suite for every kind of object store, against real servers: a directory, rclone, which checks signatures, and moto.
//! Then what only S3 has, and what a store may do wrong.

mod blobs;
mod broken;
mod copies;
mod memory;
mod proxy;
mod refused;
pub(crate) mod servers;
mod uploads;

use bytes::Bytes;

use super::s3::{Patience, Secret, Settings};
use super::{Incoming, Kept, Objects};
use servers::{Server, settings};

/// A store of some kind, and what must outlive it.
struct Opened {
    objects: Objects,
    _dir: tempfile::TempDir,
    _server: Option<Server>,
}

fn open_directory() -> Opened {
    let dir = tempfile::tempdir().unwrap();
    Opened { objects: Objects::open_directory(dir.path()).unwrap(), _dir: dir, _server: None }
}

async fn open_s3(server: Server) -> Opened {
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::open_s3(settings(&server.url), dir.path()).await.unwrap();
    Opened { objects, _dir: dir, _server: Some(server) }
}

/// Runs each claim against every kind of store. Moto takes seconds to start: there one test has them all.
macro_rules! every_objects {
    ($($(#[$meta:meta])* async fn $name:ident($objects:ident: &Objects) $body:block)+) => {
        $($(#[$meta])* async fn $name($objects: &super::Objects) $body)+
        mod directory {
            $(#[tokio::test] async fn $name() { super::$name(&super::super::open_directory().objects).await; })+
        }
        mod rclone {
            use super::super::{Server, open_s3};
            $(#[tokio::test] async fn $name() { super::$name(&open_s3(Server::rclone()).await.objects).await; })+
        }
        mod moto {
            #[tokio::test]
            async fn every_claim_holds() {
                let opened = super::super::open_s3(super::super::Server::moto().await).await;
                $(eprintln!(stringify!($name)); super::$name(&opened.objects).await;)+
            }
        }
    };
}
use every_objects;

async fn incoming(objects: &Objects, bytes: &[u8]) -> Incoming {
    let mut incoming = objects.begin();
    for piece in bytes.chunks(100_000) {
        incoming.write(piece).await.unwrap();
    }
    incoming
}

async fn kept(objects: &Objects, bytes: &[u8]) -> Kept {
    incoming(objects, bytes).await.keep().await.unwrap()
}

/// The name of a blob that stays.
async fn blob(objects: &Objects, bytes: &[u8]) -> String {
    let kept = kept(objects, bytes).await;
    let name = kept.name.clone();
    kept.is_named();
    name
}

/// Bytes that do not repeat themselves where parts begin.
fn bytes(length: usize) -> Bytes {
    (0..length).map(|place| ((place * 31) >> 7).to_le_bytes()[0]).collect()
}

async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let waiting = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn is_absent(objects: &Objects, name: &str) -> bool {
    objects.bytes(name, 1).await.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
