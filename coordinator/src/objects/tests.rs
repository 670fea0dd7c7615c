//! Claims about blobs.

use super::{Incoming, Objects};

fn names(dir: &std::path::Path, part: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join(part)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

async fn received(objects: &Objects, pieces: &[&'static str]) -> Incoming {
    let mut incoming = objects.begin();
    for piece in pieces {
        incoming.write(piece.as_bytes()).await.unwrap();
    }
    incoming
}

#[tokio::test]
async fn a_blob_is_named_after_its_bytes_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::open_directory(dir.path()).unwrap();
    let kept = received(&objects, &["a", "bc"]).await.keep().await.unwrap();
    assert_eq!(kept.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert!(kept.name.starts_with(&kept.sha256) && kept.size == 3);
    let name = kept.name.clone();
    kept.is_named();
    assert_eq!(objects.bytes(&name, 3).await.unwrap(), "abc");
    assert_eq!(objects.read(&name, 1..2).await.unwrap().next().await.unwrap().unwrap(), "b");
    assert!(objects.bytes(&name, 4).await.is_err(), "a blob that is too short is no blob");
    assert!(names(dir.path(), "incoming").is_empty());
}

#[tokio::test]
async fn what_is_not_kept_or_not_named_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::open_directory(dir.path()).unwrap();
    drop(received(&objects, &["x"]).await);
    drop(received(&objects, &["y"]).await.keep().await.unwrap());
    assert!(names(dir.path(), "incoming").is_empty() && names(dir.path(), "blobs").is_empty());
}

#[tokio::test]
async fn a_blob_that_is_about_to_be_named_is_not_nobodys() {
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::open_directory(dir.path()).unwrap();
    let kept = received(&objects, &["x"]).await.keep().await.unwrap();
    assert!(objects.settled().await.unwrap().is_empty());
    let name = kept.name.clone();
    kept.is_named();
    assert_eq!(objects.settled().await.unwrap(), vec![name.clone()]);
    objects.remove(vec![name.clone(), name]).await.unwrap();
    assert!(objects.settled().await.unwrap().is_empty());
}

#[test]
fn half_a_blob_of_a_crash_is_gone_after_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    drop(Objects::open_directory(dir.path()).unwrap());
    std::fs::write(dir.path().join("incoming/half"), "x").unwrap();
    drop(Objects::open_directory(dir.path()).unwrap());
    assert!(names(dir.path(), "incoming").is_empty());
}

#[tokio::test]
async fn many_blobs_are_kept_at_once_and_large_ones_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::open_directory(dir.path()).unwrap();
    let mut all = Vec::new();
    for number in 0..20u8 {
        let mut incoming = objects.begin();
        for _ in 0..usize::from(number) {
            incoming.write(&vec![number; 100_000]).await.unwrap();
        }
        all.push(incoming);
    }
    let kept = Incoming::keep_all(all).await.unwrap();
    let last = &kept[19];
    assert_eq!(last.size, 1_900_000);
    assert_eq!(objects.bytes(&last.name, last.size).await.unwrap(), vec![19; 1_900_000]);
    assert!(names(dir.path(), "incoming").is_empty());
    drop(kept);
    assert!(names(dir.path(), "blobs").is_empty());
}
