//! Claims about the published copy, with the real database; the object stores' own suite has the rest.

use std::time::Duration;

use protocol::SessionName;

use super::{Copying, Mirror};
use crate::objects::Objects;
use crate::objects::tests::servers::{Server, settings};
use crate::store::Store;
use crate::store::sqlite::Sqlite;

/// A coordinator's store, its objects and its outbox; sessions are made by hand.
struct Place {
    dir: tempfile::TempDir,
    store: Store,
    objects: Objects,
    mirror: Mirror,
}

const SESSION: &str = "INSERT INTO sessions (id, name, labels, created_at, used_at) VALUES (1, 's', '{}', 0, 0)";

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
        let place = Self { dir, store, objects, mirror: Mirror::default() };
        place.sql(SESSION);
        place
    }

    fn sql(&self, sql: &str) {
        let db = rusqlite::Connection::open(self.dir.path().join("queue.db")).unwrap();
        db.busy_timeout(Duration::from_secs(10)).unwrap();
        db.execute_batch(sql).unwrap();
    }

    /// What a commit does: the entry, and its row in the outbox.
    async fn write(&self, path: &str, text: &str, version: u32) {
        let mut incoming = self.objects.begin();
        incoming.write(text.as_bytes()).await.unwrap();
        let kept = incoming.keep().await.unwrap();
        self.remove(path, version);
        self.sql(&format!(
            "INSERT INTO entries (session, path, from_version, parent, kind, blob, size, sha256, mode, modified_at)
             VALUES (1, '{path}', {version}, '', 0, '{}', {}, '{}', 420, 0)",
            kept.name, kept.size, kept.sha256
        ));
        kept.is_named();
    }

    fn remove(&self, path: &str, version: u32) {
        self.sql(&format!("UPDATE entries SET to_version = {version} WHERE path = '{path}' AND to_version IS NULL"));
        self.sql(&format!("INSERT OR REPLACE INTO mirror (session, path, changed) VALUES ('s', '{path}', {version})"));
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
    place.write("a", "one", 1).await;
    place.write("dir/b", "two", 1).await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/a", "one"), ("s/dir/b", "two")]));
    place.write("a", "three", 2).await;
    place.remove("dir/b", 2);
    place.pass().await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/a", "three")]));
}

#[tokio::test]
async fn a_file_and_a_folder_may_change_places() {
    let place = Place::new();
    place.write("a", "file", 1).await;
    place.pass().await;
    place.remove("a", 2);
    place.write("a/b", "below", 2).await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/a/b", "below")]));
    place.remove("a/b", 3);
    place.write("a", "file", 3).await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/a", "file")]));
}

#[tokio::test]
async fn more_than_one_batch_is_copied() {
    let place = Place::new();
    for number in 0..150 {
        place.write(&format!("f{number}"), "x", 1).await;
    }
    place.pass().await;
    assert_eq!(place.copies().await.len(), 150);
}

#[tokio::test]
async fn a_row_that_changed_while_it_was_copied_stays() {
    let place = Place::new();
    place.write("a", "old", 1).await;
    let rows = place.store.to_mirror(crate::store::MirrorPart::After(String::new(), String::new())).await.unwrap();
    place.sql("DELETE FROM entries"); // the same number, as in a session that was made anew
    place.write("a", "new", 1).await;
    place.copying().copy(rows).await.unwrap();
    assert_eq!(place.store.mirror_pending().await.unwrap(), 1);
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/a", "new")]));
}

#[tokio::test]
async fn a_session_that_is_gone_leaves_no_copy_and_one_of_its_name_begins_anew() {
    let place = Place::new();
    place.write("a", "old", 1).await;
    place.pass().await;
    place.sql("DELETE FROM sessions; DELETE FROM entries; INSERT INTO mirror VALUES ('s', '', 1)");
    place.sql(SESSION);
    place.write("b", "new", 1).await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/b", "new")]));
    assert_eq!(place.store.copies(session()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn who_writes_waits_for_its_own_copy_and_no_longer_than_it_wants() {
    let place = Place::new();
    place.write("a", "one", 1).await;
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
    place.write("a", "ours", 1).await;
    place.write("b", "ours", 1).await;
    place.pass().await;
    assert!(place.copying().imports(&session()).await.unwrap().is_empty());
    let plain = place.dir.path().join("objects/plain/s");
    std::fs::write(plain.join("a"), "theirs!").unwrap();
    std::fs::write(plain.join("new.txt"), "fresh").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", plain.join("link")).unwrap();
    place.write("b", "again", 2).await; // about to be overwritten
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
    place.write("a", "lost", 1).await;
    place.write("b", "fine", 1).await;
    place.sql("UPDATE entries SET blob = 'nothing' WHERE path = 'a'");
    assert!(place.copying().one_pass().await.unwrap().is_some());
    assert_eq!(place.copies().await, named(&[("s/b", "fine")]));
    assert_eq!(place.store.mirror_pending().await.unwrap(), 1);
}

#[tokio::test]
async fn in_a_bucket_others_see_the_tree_below_the_prefix() {
    let server = Server::rclone();
    let place = Place::before(&server).await;
    place.write("a", "file", 1).await;
    place.write("dir/b c.txt", "below", 1).await;
    place.pass().await;
    let seen = |path: &str| std::fs::read_to_string(server.dir.path().join("bucket/some/where/s").join(path)).ok();
    assert_eq!((seen("a").as_deref(), seen("dir/b c.txt").as_deref()), (Some("file"), Some("below")));
    assert!(place.copying().imports(&session()).await.unwrap().is_empty());
    place.remove("a", 2);
    place.write("a/now", "a folder", 2).await;
    place.remove("dir/b c.txt", 2);
    place.pass().await;
    assert_eq!((seen("a/now").as_deref(), seen("dir/b c.txt")), (Some("a folder"), None));
}

#[tokio::test]
async fn what_another_client_puts_into_the_bucket_is_found_and_taken_in() {
    let server = Server::moto().await;
    let place = Place::before(&server).await;
    place.write("a", "ours", 1).await;
    place.write("b", "ours", 1).await;
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
    place.write("a", "one", 1).await;
    place.write("b", "two", 1).await;
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
    place.write("line\nbreak", "x", 1).await;
    place.write("fine", "y", 1).await;
    place.pass().await;
    assert_eq!(place.copies().await, named(&[("s/fine", "y")]));
    let copies = place.store.copies(session()).await.unwrap();
    let refused: Vec<_> = copies.iter().filter(|copy| copy.problem.is_some()).map(|copy| copy.path.as_str()).collect();
    assert_eq!(refused, ["line\nbreak"]);
    place.remove("line\nbreak", 2);
    place.pass().await;
    assert_eq!(place.store.copies(session()).await.unwrap().len(), 1);
}
