//! Claims about the published copy, with the real database; the object stores' own suite has the rest.

use std::sync::Arc;
use std::time::Duration;

use protocol::{KeyId, SessionName};

use super::{Copying, Mirror};
use crate::clock::Clock;
use crate::objects::Objects;
use crate::objects::tests::servers::{Server, settings};
use crate::store::sqlite::Sqlite;
use crate::store::{Condition, FileChange, SessionRules, Store, What};

/// A coordinator's store, its objects and its outbox.
struct Place {
    dir: tempfile::TempDir,
    store: Store,
    objects: Objects,
    mirror: Mirror,
    rules: Arc<SessionRules>,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let objects = Objects::open_directory(&dir.path().join("objects")).unwrap();
        Self::with(dir, objects)
    }

    async fn before(server: &Server) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let objects = Objects::open_s3(settings(&server.url), &dir.path().join("objects")).await.unwrap();
        Self::with(dir, objects)
    }

    fn with(dir: tempfile::TempDir, objects: Objects) -> Self {
        let store = Store::Sqlite(Sqlite::open(&dir.path().join("queue.db")).unwrap());
        let rules = Arc::new(SessionRules { quota_bytes: 1 << 30, layout: Vec::new() });
        Self { dir, store, objects, mirror: Mirror::default(), rules }
    }

    async fn write(&self, path: &str, text: &str) {
        let mut incoming = self.objects.begin();
        incoming.write(text.as_bytes()).await.unwrap();
        let kept = incoming.keep().await.unwrap();
        self.name(path, kept.name.clone(), &kept.sha256).await;
        kept.is_named();
    }

    async fn name(&self, path: &str, blob: String, sha256: &str) {
        let (path, sha256) = (path.parse().unwrap(), sha256.to_owned());
        self.change(What::Write { path, blob, size: 1, sha256, mode: None, condition: Condition::default() }).await;
    }

    async fn remove(&self, path: &str) {
        self.change(What::Delete { path: path.parse().unwrap(), condition: Condition::default() }).await;
    }

    async fn change(&self, what: What) {
        let change = FileChange { session: session(), repo: None, by: KeyId::new(0, 1), what };
        self.store.change_files(change, self.rules.clone(), Clock::start(None).now()).await.unwrap();
    }

    fn copying(&self) -> Copying<'_> {
        Copying { mirror: &self.mirror, store: &self.store, objects: &self.objects }
    }

    async fn pass(&self) {
        assert!(self.copying().one_pass().await.unwrap().is_none());
        assert_eq!(self.store.mirror_pending().await.unwrap(), 0);
    }

    /// Names and texts of all plain objects.
    async fn copies(&self) -> Vec<(String, String)> {
        let mut copies = Vec::new();
        for plain in self.objects.published("s").await.unwrap() {
            let text = self.objects.read_plain(&plain).await.unwrap().bytes().await.unwrap();
            copies.push((plain.name, String::from_utf8(text.to_vec()).unwrap()));
        }
        copies
    }
}

fn session() -> SessionName {
    "s".parse().unwrap()
}

fn named(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn what_changed_is_copied_and_what_is_gone_is_removed() {
    let place = Place::new();
    place.write("a", "one").await;
    place.write("dir/b", "two").await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/a", "one"), ("s/dir/b", "two")]));
    place.write("a", "three").await;
    place.remove("dir/b").await;
    place.pass().await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/a", "three")]));
}

#[tokio::test]
async fn a_file_and_a_folder_may_change_places() {
    let place = Place::new();
    place.write("a", "file").await;
    place.pass().await;
    place.remove("a").await;
    place.write("a/b", "below").await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/a/b", "below")]));
    place.remove("a").await;
    place.write("a", "file").await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/a", "file")]));
}

#[tokio::test]
async fn more_than_one_batch_is_copied() {
    let place = Place::new();
    for number in 0..150 {
        place.write(&format!("f{number}"), "x").await;
    }
    place.pass().await;
    assert_eq!(place.copies().await.len(), 150);
}

#[tokio::test]
async fn a_row_that_changed_while_it_was_copied_stays() {
    let place = Place::new();
    place.write("a", "old").await;
    let rows = place.store.to_mirror(crate::store::MirrorPart::After(String::new(), String::new())).await.unwrap();
    place.write("a", "new").await;
    place.copying().copy(rows).await.unwrap();
    assert_eq!(place.store.mirror_pending().await.unwrap(), 1);
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/a", "new")]));
}

#[tokio::test]
async fn a_session_that_is_gone_leaves_no_copy_and_one_of_its_name_begins_anew() {
    let place = Place::new();
    place.write("a", "old").await;
    place.pass().await;
    place.store.delete_session(session()).await.unwrap();
    place.write("b", "new").await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/b", "new")]));
    assert_eq!(place.store.copies(session()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn who_writes_waits_for_its_own_copy_and_no_longer_than_it_wants() {
    let place = Place::new();
    place.write("a", "one").await;
    let copying = place.copying();
    assert!(!copying.mirrored_within(&session(), "a", Duration::from_millis(1)).await.unwrap());
    let consumer = async {
        while copying.one_pass().await.unwrap().is_none() {
            tokio::task::yield_now().await
        }
    };
    let session = session();
    let waiting = copying.mirrored_within(&session, "a", Duration::from_secs(60));
    tokio::select! { () = consumer => unreachable!(), is_copied = waiting => assert!(is_copied.unwrap()) }
    assert_eq!(place.copies().await, named(&[("s/a", "one")]));
}

#[tokio::test]
async fn what_others_write_is_found_and_taken_in() {
    let place = Place::new();
    place.write("a", "ours").await;
    place.write("b", "ours").await;
    place.pass().await;
    assert!(place.copying().imports(&session()).await.unwrap().is_empty());
    let plain = place.dir.path().join("objects/plain/s");
    std::fs::write(plain.join("a"), "theirs!").unwrap();
    std::fs::write(plain.join("new.txt"), "fresh").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", plain.join("link")).unwrap();
    place.write("b", "again").await; // about to be overwritten
    std::fs::write(plain.join("b"), "lost").unwrap();
    let found = place.copying().imports(&session()).await.unwrap();
    let names: Vec<_> = found.iter().map(|import| (import.path.as_str(), import.is_changed)).collect();
    assert_eq!(names, [("a", true), ("new.txt", false)]);
    let kept = place.copying().take_in(&found[0]).await.unwrap().keep().await.unwrap();
    assert_eq!(place.objects.bytes(&kept.name, kept.size).await.unwrap(), "theirs!");
}

#[tokio::test]
async fn a_copy_that_fails_is_tried_again_and_keeps_nobody_else() {
    let place = Place::new();
    place.name("a", "nothing".into(), &"0".repeat(64)).await;
    place.write("b", "fine").await;
    assert!(place.copying().one_pass().await.unwrap().is_some());
    assert_eq!(place.copies().await, named(&[("s/b", "fine")]));
    assert_eq!(place.store.mirror_pending().await.unwrap(), 1);
}

#[tokio::test]
async fn in_a_bucket_others_see_the_tree_below_the_prefix() {
    let server = Server::rclone();
    let place = Place::before(&server).await;
    place.write("a", "file").await;
    place.write("dir/b c.txt", "below").await;
    place.pass().await;
    let seen = |path: &str| std::fs::read_to_string(server.dir.path().join("bucket/some/where/s").join(path)).ok();
    assert_eq!((seen("a").as_deref(), seen("dir/b c.txt").as_deref()), (Some("file"), Some("below")));
    assert!(place.copying().imports(&session()).await.unwrap().is_empty());
    place.remove("a").await;
    place.write("a/now", "a folder").await;
    place.remove("dir/b c.txt").await;
    place.pass().await;
    assert_eq!((seen("a/now").as_deref(), seen("dir/b c.txt")), (Some("a folder"), None));
}

#[tokio::test]
async fn what_another_client_puts_into_the_bucket_is_found_and_taken_in() {
    let server = Server::moto().await;
    let place = Place::before(&server).await;
    place.write("a", "ours").await;
    place.write("b", "ours").await;
    place.pass().await;
    let theirs = |path: &str| format!("{}/bucket/some/where/s/{path}", server.url);
    let them = reqwest::Client::new();
    // Who reads must say who it is; what it says is believed.
    let said = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
    let read = them.get(theirs("a")).header("authorization", said).send().await.unwrap();
    assert_eq!(read.text().await.unwrap(), "ours");
    for path in ["a", "dir/new ü.txt"] {
        let put = them.put(theirs(path)).header("authorization", said).body("theirs").send().await.unwrap();
        assert!(put.status().is_success());
    }
    let found = place.copying().imports(&session()).await.unwrap();
    let names: Vec<_> = found.iter().map(|import| (import.path.as_str(), import.is_changed)).collect();
    assert_eq!(names, [("a", true), ("dir/new ü.txt", false)]);
    let kept = place.copying().take_in(&found[1]).await.unwrap().keep().await.unwrap();
    assert_eq!(place.objects.bytes(&kept.name, kept.size).await.unwrap(), "theirs");
}

#[tokio::test]
async fn a_store_that_dies_and_comes_back_gets_what_it_missed() {
    let server = Server::rclone();
    let place = Place::before(&server).await;
    place.write("a", "one").await;
    place.write("b", "two").await;
    let (dir, url) = server.kill();
    let failed = place.copying().one_pass().await.unwrap().unwrap();
    assert_eq!(failed.kind(), std::io::ErrorKind::HostUnreachable);
    assert_eq!(place.store.mirror_pending().await.unwrap(), 2);
    let _server = Server::rclone_in(dir, url.trim_start_matches("http://"));
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/a", "one"), ("s/b", "two")]));
}

#[tokio::test]
async fn a_name_that_s3_cannot_take_is_listed_and_hinders_nobody() {
    let server = Server::rclone();
    let place = Place::before(&server).await;
    let long = ["x".repeat(254), "y".repeat(254), "z".repeat(254), "w".repeat(254)].join("/");
    place.write(&long, "x").await;
    place.write("fine", "y").await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/fine", "y")]));
    let copies = place.store.copies(session()).await.unwrap();
    let refused: Vec<_> = copies.iter().filter(|copy| copy.problem.is_some()).map(|copy| copy.path.as_str()).collect();
    assert_eq!(refused, [long.as_str()]);
    place.remove(&long).await;
    place.pass().await;
    assert_eq!(place.store.copies(session()).await.unwrap().len(), 1);
}
