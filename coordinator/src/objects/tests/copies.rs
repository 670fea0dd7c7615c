//! Claims about plain objects.

use super::{blob, bytes, every_objects};

/// Names that are awkward in a URL, in XML or in a shell.
const AWKWARD: [&str; 8] = [
    "s/a b+c%20&=#?é.txt",
    "s/%41",
    "s/<tag>&amp;",
    "s/~/$HOME",
    "s/日本/語",
    "s/-rf",
    "s/a'b\"c",
    "s/x;y,z@w=v!(1)*[2]{3}|",
];

every_objects! {
    async fn a_copy_has_the_name_that_people_know(objects: &Objects) {
        let name = blob(objects, b"hello").await;
        let copy = objects.publish(&name, "one/dir/hello.txt").await.unwrap();
        assert_eq!((copy.name.as_str(), copy.size), ("one/dir/hello.txt", 5));
        assert_eq!(objects.published("one").await.unwrap(), vec![copy.clone()]);
        assert_eq!(objects.read_plain(&copy).await.unwrap().bytes().await.unwrap(), "hello");
    }

    async fn awkward_names_are_kept_as_they_are(objects: &Objects) {
        let name = blob(objects, b"x").await;
        for plain in AWKWARD {
            objects.publish(&name, plain).await.unwrap();
        }
        let found = objects.published("s").await.unwrap();
        for plain in &found {
            assert_eq!(objects.read_plain(plain).await.unwrap().bytes().await.unwrap(), "x");
        }
        let mut found: Vec<&str> = found.iter().map(|plain| plain.name.as_str()).collect();
        let mut wanted = AWKWARD.to_vec();
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
        objects.unpublish(AWKWARD.map(str::to_owned).to_vec()).await.unwrap();
        assert!(objects.published("s").await.unwrap().is_empty());
    }

    async fn the_last_copy_wins_and_has_another_tag(objects: &Objects) {
        let (old, new) = (blob(objects, b"old").await, blob(objects, b"new").await);
        let first = objects.publish(&old, "two/x").await.unwrap();
        let second = objects.publish(&new, "two/x").await.unwrap();
        assert_ne!(first.tag, second.tag);
        assert_eq!(objects.published("two").await.unwrap(), vec![second.clone()]);
        assert_eq!(objects.read_plain(&second).await.unwrap().bytes().await.unwrap(), "new");
    }

    async fn a_folder_is_not_the_folder_whose_name_begins_alike(objects: &Objects) {
        let name = blob(objects, b"x").await;
        let copy = objects.publish(&name, "three/x").await.unwrap();
        objects.publish(&name, "three3/x").await.unwrap();
        assert_eq!(objects.published("three").await.unwrap(), vec![copy]);
        assert!(objects.published("thre").await.unwrap().is_empty());
    }

    async fn copies_are_removed_and_twice_is_once(objects: &Objects) {
        let name = blob(objects, b"x").await;
        objects.publish(&name, "four/a/b").await.unwrap();
        for _ in 0..2 {
            objects.unpublish(vec!["four/a/b".into(), "four/never".into()]).await.unwrap();
        }
        assert!(objects.published("four").await.unwrap().is_empty());
        objects.publish(&name, "four/a").await.unwrap();
        objects.unpublish(vec!["four/a".into()]).await.unwrap();
        objects.publish(&name, "four/a/b").await.unwrap();
    }

    async fn a_large_copy_is_whole(objects: &Objects) {
        let whole = bytes(9_000_000);
        let name = blob(objects, &whole).await;
        let copy = objects.publish(&name, "five/large").await.unwrap();
        assert_eq!(objects.read_plain(&copy).await.unwrap().bytes().await.unwrap(), whole);
    }

    async fn no_copy_is_made_of_a_blob_that_is_not_there(objects: &Objects) {
        let error = objects.publish(&format!("{:064}.0", 0), "six/x").await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        assert!(objects.published("six").await.unwrap().is_empty());
    }

    async fn an_object_that_somebody_wrote_after_it_was_listed_is_not_taken_for_the_listed_one(objects: &Objects) {
        let (old, new) = (blob(objects, b"old").await, blob(objects, b"much newer").await);
        let listed = objects.publish(&old, "seven/x").await.unwrap();
        objects.publish(&new, "seven/x").await.unwrap();
        let read = match objects.read_plain(&listed).await {
            Ok(reading) => reading.bytes().await,
            Err(error) => Err(error),
        };
        assert!(read.is_err(), "{read:?}");
    }
}
