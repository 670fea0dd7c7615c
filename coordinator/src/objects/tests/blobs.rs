//! Claims about blobs.

use super::{Objects, blob, bytes, every_objects, incoming, is_absent, kept, until};
use crate::objects::Incoming;

every_objects! {
    async fn a_blob_is_named_after_its_bytes_and_read_back(objects: &Objects) {
        let kept = kept(objects, b"abc").await;
        assert_eq!(kept.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(kept.name.starts_with(&kept.sha256) && kept.size == 3);
        let name = kept.name.clone();
        kept.is_named();
        assert_eq!(objects.bytes(&name, 3).await.unwrap(), "abc");
        assert_eq!(objects.read(&name, 1..2).await.unwrap().next().await.unwrap().unwrap(), "b");
        assert!(objects.bytes(&name, 4).await.is_err(), "a blob that is too short is no blob");
    }

    async fn an_empty_blob_is_a_blob(objects: &Objects) {
        let kept = kept(objects, b"").await;
        assert_eq!(kept.size, 0);
        assert!(objects.bytes(&kept.name, 0).await.unwrap().is_empty());
    }

    async fn what_is_not_kept_or_not_named_leaves_nothing(objects: &Objects) {
        drop(incoming(objects, &bytes(700_000)).await);
        let kept = kept(objects, &bytes(700_000)).await;
        let name = kept.name.clone();
        drop(kept);
        until("the blob is gone", || is_absent(objects, &name)).await;
    }

    async fn many_blobs_are_kept_at_once_in_their_order(objects: &Objects) {
        let mut all = Vec::new();
        for number in 0..40 {
            all.push(incoming(objects, &bytes(number * 1000)).await);
        }
        let kept = Incoming::keep_all(all).await.unwrap();
        for (number, kept) in kept.into_iter().enumerate() {
            let name = kept.name.clone();
            kept.is_named();
            assert_eq!(objects.bytes(&name, number as u64 * 1000).await.unwrap(), bytes(number * 1000));
        }
    }

    async fn a_large_blob_goes_and_comes_in_pieces(objects: &Objects) {
        let whole = bytes(20_000_003);
        let name = blob(objects, &whole).await;
        assert_eq!(objects.bytes(&name, whole.len() as u64).await.unwrap(), whole);
        let mut part = objects.read(&name, 8_388_600..8_388_620).await.unwrap();
        assert_eq!(part.next().await.unwrap().unwrap(), whole.slice(8_388_600..8_388_620));
        assert!(part.next().await.unwrap().is_none());
    }

    async fn blobs_are_removed_together_and_twice_is_once(objects: &Objects) {
        let mut names = Vec::new();
        for number in 0..5u8 {
            names.push(blob(objects, &[number]).await);
        }
        objects.remove(names.clone()).await.unwrap();
        objects.remove(names.clone()).await.unwrap();
        for name in &names {
            assert!(is_absent(objects, name).await);
        }
    }
}

fn files(dir: &std::path::Path) -> usize {
    ["blobs", "incoming"].iter().map(|part| std::fs::read_dir(dir.join(part)).unwrap().count()).sum()
}

#[tokio::test]
async fn a_directory_has_nothing_but_what_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::open_directory(dir.path()).unwrap();
    drop(incoming(&objects, &bytes(700_000)).await);
    drop(kept(&objects, b"y").await);
    assert_eq!(files(dir.path()), 0);
    std::fs::write(dir.path().join("incoming/half"), "x").unwrap();
    drop(Objects::open_directory(dir.path()).unwrap());
    assert_eq!(files(dir.path()), 0, "half a blob of a crash is gone after the next start");
}

#[tokio::test]
async fn a_blob_that_is_about_to_be_named_is_not_nobodys() {
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::open_directory(dir.path()).unwrap();
    let settled = async || objects.settled(protocol::Timestamp::from_ms(0)).await.unwrap();
    let kept = kept(&objects, b"x").await;
    assert!(settled().await.is_empty());
    let name = kept.name.clone();
    kept.is_named();
    assert_eq!(settled().await, vec![name]);
}
