//! What every store promises about sessions, their files and versions, and what reports publish.

use protocol::path::WorkspacePath;
use protocol::spec::{Commit, SessionMode, Spec};
use protocol::workspace::Published;
use protocol::{Outcome, Reason, Report, SessionName, StageId, TaskResult};

use super::promises::{holder, leased, renew, task};
use super::{KEY, at, every_store, new, rules, spec};
use crate::store::{
    Condition, Content, FileChange, Prune, SessionToMake, StagedRow, Store, StoreError, Tag, Tree, What, WorkspaceError,
};

const OK: Outcome = Outcome::Exited { code: 0 };

fn session() -> SessionName {
    "s".parse().unwrap()
}

fn path(text: &str) -> WorkspacePath {
    text.parse().unwrap()
}

fn file(content: &str) -> Content {
    let sha256 = format!("{content:0>64}");
    Content::File { blob: format!("{sha256}.1"), size: content.len() as u64, sha256, mode: 0o644 }
}

fn change(what: What) -> FileChange {
    FileChange { session: session(), repo: None, by: KEY, what }
}

async fn write(store: &Store, to: &str, content: &str) -> Result<u64, StoreError> {
    write_if(store, to, content, Condition::default()).await
}

async fn write_if(store: &Store, to: &str, content: &str, condition: Condition) -> Result<u64, StoreError> {
    let Content::File { blob, size, sha256, .. } = file(content) else { unreachable!() };
    let what = What::Write { path: path(to), blob, size, sha256, mode: None, condition };
    Ok(store.change_files(change(what), rules(), at(0)).await?.version)
}

async fn delete(store: &Store, what: &str) -> Result<u64, StoreError> {
    let what = What::Delete { path: path(what), condition: Condition::default() };
    Ok(store.change_files(change(what), rules(), at(0)).await?.version)
}

async fn newest(store: &Store) -> Tree {
    let found = store.session(session(), rules()).await.unwrap().unwrap();
    Tree { session: found.place, version: found.view.version }
}

/// `path=content` of every file at a version, directories with a slash.
async fn files_at(store: &Store, tree: Tree) -> Vec<String> {
    let all = store.walk(tree, String::new(), String::new(), 1000).await.unwrap();
    let shown = all.into_iter().map(|entry| match entry.content {
        Content::File { sha256, .. } => format!("{}={}", entry.path, sha256.trim_start_matches('0')),
        Content::Directory { .. } => format!("{}/", entry.path),
        Content::Symlink { target } => format!("{}>{target}", entry.path),
    });
    shown.collect()
}

async fn files(store: &Store) -> Vec<String> {
    files_at(store, newest(store).await).await
}

/// A task in the session that runs, by the number of its lease.
async fn running(store: &Store, number: u128, more: impl FnOnce(&mut Spec)) {
    let mut spec = Spec { session: Some(session()), ..spec("r", "x") };
    more(&mut spec);
    store.submit(new(number, spec), at(0)).await.unwrap();
    assert_eq!(leased(store, number, &["r"]).await, Some(task(number)));
    renew(store, number, 0).await.unwrap();
}

/// Checks the session out and stages rows on it: `path=content`, `path/`, `path>target`, `-path`.
async fn staged(store: &Store, number: u128, rows: &[&str]) -> Result<StageId, StoreError> {
    let checkout = store.check_out(holder(number), None, rules()).await?;
    staged_on(store, number, checkout.tree.version, rows).await
}

async fn staged_on(store: &Store, number: u128, base: u64, rows: &[&str]) -> Result<StageId, StoreError> {
    let stage = StageId::new(1, number);
    store.begin_stage(holder(number), stage, base, rules()).await?;
    let row = |text: &&str| {
        if let Some(gone) = text.strip_prefix('-') {
            return StagedRow { path: path(gone), content: None };
        }
        let (to, content) = match (text.split_once('='), text.split_once('>')) {
            (Some((to, content)), _) => (to, file(content)),
            (None, Some((to, target))) => (to, Content::Symlink { target: target.into() }),
            (None, None) => (text.trim_end_matches('/'), Content::Directory { mode: 0o755 }),
        };
        StagedRow { path: path(to), content: Some(content) }
    };
    store.add_to_stage(holder(number), stage, rows.iter().map(row).collect()).await?;
    store.seal_stage(holder(number), stage).await?;
    Ok(stage)
}

async fn report(store: &Store, number: u128, stage: StageId, outcome: Outcome) -> Result<Published, StoreError> {
    let report = Report { stage: Some(stage), ..Report::new(outcome) };
    store.report(holder(number), Box::new(report), rules(), at(5)).await?;
    Ok(published(store, number).await.unwrap_or_default())
}

async fn published(store: &Store, number: u128) -> Option<Published> {
    let done = store.task(task(number)).await.unwrap().unwrap();
    serde_json::from_str::<TaskResult>(done.result?.get()).unwrap().published
}

async fn reason(store: &Store, number: u128) -> Option<Reason> {
    store.task(task(number)).await.unwrap().unwrap().row.reason
}

fn refused(error: &StoreError) -> &WorkspaceError {
    let StoreError::Workspace(error) = error else { panic!("{error}") };
    error
}

every_store! {
    async fn a_file_that_is_written_is_there_with_its_directories_and_the_old_version_stays(opened) {
        let store = &opened.store;
        write(store, "a/b/c", "1").await.unwrap();
        let old = newest(store).await;
        write(store, "a/b/c", "22").await.unwrap();
        write(store, "z", "333").await.unwrap();
        assert_eq!(files(store).await, ["a/", "a/b/", "a/b/c=22", "z=333"]);
        assert_eq!(files_at(store, old).await, ["a/", "a/b/", "a/b/c=1"]);
        let view = store.session(session(), rules()).await.unwrap().unwrap().view;
        assert_eq!((view.version, view.used_bytes, view.entries), (3, 5, 4));
        let opened = opened.reopen().await;
        assert_eq!(files(&opened.store).await, ["a/", "a/b/", "a/b/c=22", "z=333"]);
    }

    async fn of_two_clients_that_edit_one_file_one_is_told(opened) {
        let store = &opened.store;
        write(store, "f", "1").await.unwrap();
        let is = |content: &str| Tag::Content(format!("{content:0>64}"));
        let if_first = || Condition { is_one_of: vec![is("1")], is_none_of: vec![] };
        write_if(store, "f", "2", if_first()).await.unwrap();
        let late = write_if(store, "f", "3", if_first()).await.unwrap_err();
        assert!(matches!(refused(&late), WorkspaceError::Precondition));
        let only_new = || Condition { is_one_of: vec![], is_none_of: vec![Tag::Any] };
        assert!(write_if(store, "f", "4", only_new()).await.is_err());
        write_if(store, "g", "4", only_new()).await.unwrap();
        assert_eq!(files(store).await, ["f=2", "g=4"]);
    }

    async fn a_directory_is_moved_and_deleted_with_all_that_is_in_it(opened) {
        let store = &opened.store;
        for (to, content) in [("d/x", "1"), ("d/e/y", "2"), ("d0", "3"), ("d.txt", "4")] {
            write(store, to, content).await.unwrap();
        }
        store.change_files(change(What::MakeDirectory(path("d/empty"))), rules(), at(0)).await.unwrap();
        let moving = What::Move { from: path("d"), to: path("n/d") };
        assert_eq!(store.change_files(change(moving), rules(), at(0)).await.unwrap().entries, 5);
        assert_eq!(files(store).await, ["d.txt=4", "d0=3", "n/", "n/d/", "n/d/e/", "n/d/e/y=2", "n/d/empty/", "n/d/x=1"]);
        let into_itself = store.change_files(change(What::Move { from: path("n"), to: path("n/m") }), rules(), at(0)).await;
        assert!(matches!(refused(&into_itself.err().unwrap()), WorkspaceError::IntoItself));
        let onto = store.change_files(change(What::Move { from: path("n"), to: path("d0") }), rules(), at(0)).await;
        assert!(matches!(refused(&onto.err().unwrap()), WorkspaceError::Exists(_)));
        delete(store, "n/d").await.unwrap();
        assert_eq!(files(store).await, ["d.txt=4", "d0=3", "n/"]);
        assert!(matches!(refused(&delete(store, "n/d").await.unwrap_err()), WorkspaceError::NoEntry(_)));
        let view = store.session(session(), rules()).await.unwrap().unwrap().view;
        assert_eq!((view.used_bytes, view.entries), (2, 3));
    }

    async fn a_file_is_no_directory_and_a_directory_no_file(opened) {
        let store = &opened.store;
        write(store, "f", "1").await.unwrap();
        write(store, "d/x", "1").await.unwrap();
        assert!(matches!(refused(&write(store, "f/x", "1").await.unwrap_err()), WorkspaceError::NotADirectory(_)));
        assert!(matches!(refused(&write(store, "d", "1").await.unwrap_err()), WorkspaceError::IsADirectory(_)));
        assert_eq!(newest(store).await.version, 2, "a refused change makes no version");
    }

    async fn a_session_has_at_most_its_quota_and_can_always_shrink(opened) {
        let store = &opened.store;
        write(store, "a", &"x".repeat(600)).await.unwrap();
        let over = write(store, "b", &"x".repeat(500)).await.unwrap_err();
        assert!(matches!(refused(&over), WorkspaceError::Quota { used: 1100, allowed: 1000 }), "{over}");
        write(store, "a", &"y".repeat(1000)).await.unwrap();
        delete(store, "a").await.unwrap();
        assert!(files(store).await.is_empty());
    }

    async fn a_snapshot_keeps_a_version_and_a_restore_is_a_new_one(opened) {
        let store = &opened.store;
        write(store, "a", "1").await.unwrap();
        write(store, "d/b", "2").await.unwrap();
        store.keep_snapshot(session(), "before".into(), at(0)).await.unwrap();
        write(store, "a", "9").await.unwrap();
        delete(store, "d").await.unwrap();
        write(store, "c", "3").await.unwrap();
        let asked = || ("key".to_owned(), rules(), at(0));
        let restored = store.restore(session(), "before".into(), asked()).await.unwrap();
        assert_eq!((restored.version, restored.changed), (6, 4));
        assert_eq!(files(store).await, ["a=1", "d/", "d/b=2"]);
        assert!(store.restore(session(), "never".into(), asked()).await.is_err());
        assert!(store.keep_snapshot(session(), "before".into(), at(0)).await.is_err(), "a name is one version");
        let fork = SessionToMake { name: "t".parse().unwrap(), repo: None, labels: Default::default(), quota_bytes: None };
        let forked = store.fork_session(session(), fork, Some("before".into()), asked()).await.unwrap();
        let tree = Tree { session: forked.place, version: forked.view.version };
        assert_eq!(files_at(store, tree).await, ["a=1", "d/", "d/b=2"]);
        write(store, "a", "8").await.unwrap();
        assert_eq!(files_at(store, tree).await, ["a=1", "d/", "d/b=2"], "a fork is its own");
    }

    async fn a_report_publishes_its_stage_in_one_version_and_a_repeat_changes_nothing(opened) {
        let store = &opened.store;
        write(store, "keep", "1").await.unwrap();
        write(store, "edit", "2").await.unwrap();
        write(store, "old/x", "3").await.unwrap();
        running(store, 1, |_| {}).await;
        let rows = ["edit=22", "new/deep/f=4", "empty/", "link>../../etc/passwd", "-old"];
        let stage = staged(store, 1, &rows).await.unwrap();
        assert_eq!(files(store).await, ["edit=2", "keep=1", "old/", "old/x=3"], "nothing before the report");
        let told = report(store, 1, stage, OK).await.unwrap();
        assert_eq!((told.version, told.added, told.changed, told.deleted, told.bytes), (Some(4), 5, 1, 2, 3));
        let expected = ["edit=22", "empty/", "keep=1", "link>../../etc/passwd", "new/", "new/deep/", "new/deep/f=4"];
        assert_eq!(files(store).await, expected);
        report(store, 1, stage, OK).await.unwrap();
        assert_eq!(newest(store).await.version, 4);
        assert_eq!(published(store, 1).await.unwrap(), told);
        let opened = opened.reopen().await;
        assert_eq!(files(&opened.store).await, expected);
    }

    async fn every_end_at_which_the_process_ran_publishes_unless_the_spec_says_less(opened) {
        let store = &opened.store;
        let mut number = 0;
        for (outcome, commit, is_published) in [
            (Outcome::Exited { code: 1 }, Commit::Always, true),
            (Outcome::Timeout, Commit::Always, true),
            (Outcome::Oom, Commit::Always, true),
            (Outcome::Exited { code: 1 }, Commit::OnSuccess, false),
            (Outcome::Timeout, Commit::OnSuccess, false),
            (OK, Commit::OnSuccess, true),
            (Outcome::Cancelled, Commit::Always, false),
            (Outcome::PushFailed { detail: String::new() }, Commit::Always, false),
        ] {
            number += 1;
            running(store, number, |spec| spec.commit = commit).await;
            let name = format!("f{number}");
            let stage = staged(store, number, &[&format!("{name}=1")]).await.unwrap();
            let told = report(store, number, stage, outcome.clone()).await.unwrap();
            assert_eq!(told.version.is_some(), is_published, "{outcome:?} {commit:?}");
            assert_eq!(files(store).await.contains(&format!("{name}=1")), is_published, "{outcome:?} {commit:?}");
        }
    }

    async fn a_cancelled_task_publishes_nothing(opened) {
        let store = &opened.store;
        running(store, 1, |_| {}).await;
        let stage = staged(store, 1, &["f=1"]).await.unwrap();
        let verb = |task: &mut crate::lifecycle::Task| task.cancel(at(1).at);
        store.update(crate::store::Target::Task(task(1)), crate::store::Durability::Power, at(1), verb).await.unwrap();
        assert_eq!(report(store, 1, stage, OK).await.unwrap(), Published::default());
        assert_eq!((reason(store, 1).await, files(store).await.len()), (Some(Reason::Cancelled), 0));
    }

    async fn a_late_stage_of_a_lapsed_lease_publishes_nothing_and_is_swept(opened) {
        let store = &opened.store;
        running(store, 1, |_| {}).await;
        let stage = staged(store, 1, &["f=1"]).await.unwrap();
        store.tend(at(30_000)).await.unwrap();
        let lost = |error: StoreError| assert!(matches!(error, StoreError::Rejected(_)), "{error}");
        lost(report(store, 1, stage, OK).await.unwrap_err());
        lost(store.check_out(holder(1), None, rules()).await.err().unwrap());
        lost(store.begin_stage(holder(1), stage, 0, rules()).await.err().unwrap());
        lost(store.add_to_stage(holder(1), stage, Vec::new()).await.unwrap_err());
        lost(store.seal_stage(holder(1), stage).await.unwrap_err());
        assert_eq!(store.named(vec![format!("{:0>64}.1", 1)]).await.unwrap().len(), 1);
        while store.has_dead_stages().await.unwrap() {
            store.drop_dead_stages().await.unwrap();
        }
        assert!(store.named(vec![format!("{:0>64}.1", 1)]).await.unwrap().is_empty());
        assert!(files(store).await.is_empty());
    }

    async fn a_stage_that_is_not_whole_or_not_the_lease_s_own_publishes_nothing(opened) {
        let store = &opened.store;
        running(store, 1, |_| {}).await;
        let checkout = store.check_out(holder(1), None, rules()).await.unwrap();
        let stage = StageId::new(1, 7);
        store.begin_stage(holder(1), stage, checkout.tree.version, rules()).await.unwrap();
        for wrong in [stage, StageId::new(9, 9)] {
            let error = report(store, 1, wrong, OK).await.unwrap_err();
            assert!(matches!(refused(&error), WorkspaceError::NoStage(_)), "{error}");
        }
        assert_eq!(store.task(task(1)).await.unwrap().unwrap().row.reason, None, "the report changed nothing");
        let stale = store.begin_stage(holder(1), stage, checkout.tree.version + 1, rules()).await.err().unwrap();
        assert!(matches!(refused(&stale), WorkspaceError::NoStage(_)));
    }

    async fn a_client_s_change_of_the_same_path_is_a_conflict_and_no_work_is_lost(opened) {
        let store = &opened.store;
        for (to, content) in [("f", "1"), ("g", "1"), ("d/x", "1"), ("gone", "1")] {
            write(store, to, content).await.unwrap();
        }
        running(store, 1, |_| {}).await;
        let stage = staged(store, 1, &["f=2", "g=2", "-d", "mine=5"]).await.unwrap();
        write(store, "f", "3").await.unwrap();
        write(store, "d/new", "4").await.unwrap();
        delete(store, "gone").await.unwrap();
        let told = report(store, 1, stage, OK).await.unwrap();
        assert_eq!(told.conflicts, ["d/new", "f"]);
        assert_eq!((told.version, told.snapshot.clone()), (None, Some(task(1).to_string())));
        assert_eq!(reason(store, 1).await, Some(Reason::Conflict));
        assert_eq!(files(store).await, ["d/", "d/new=4", "d/x=1", "f=3", "g=1"]);
        let kept = store.snapshot_tree(session(), told.snapshot.unwrap()).await.unwrap();
        assert_eq!(files_at(store, kept).await, ["f=2", "g=2", "gone=1", "mine=5"], "the base and the stage");
        running(store, 2, |_| {}).await;
        let stage = staged(store, 2, &["f=6"]).await.unwrap();
        assert!(report(store, 2, stage, OK).await.unwrap().version.is_some(), "the next one is not in its way");
    }

    async fn the_same_change_by_a_client_is_no_conflict(opened) {
        let store = &opened.store;
        write(store, "f", "1").await.unwrap();
        write(store, "g", "1").await.unwrap();
        running(store, 1, |_| {}).await;
        let stage = staged(store, 1, &["f=2", "-g", "h=3"]).await.unwrap();
        write(store, "f", "2").await.unwrap();
        delete(store, "g").await.unwrap();
        write(store, "other", "9").await.unwrap();
        let told = report(store, 1, stage, OK).await.unwrap();
        assert_eq!((told.added, told.changed, told.deleted), (1, 0, 0));
        assert_eq!(files(store).await, ["f=2", "h=3", "other=9"]);
    }

    async fn a_client_s_file_where_the_task_has_a_directory_is_a_conflict(opened) {
        let store = &opened.store;
        write(store, "start", "1").await.unwrap();
        running(store, 1, |_| {}).await;
        let stage = staged(store, 1, &["a/b/c=1", "p=1"]).await.unwrap();
        write(store, "a", "2").await.unwrap();
        write(store, "p/q", "2").await.unwrap();
        let told = report(store, 1, stage, OK).await.unwrap();
        assert_eq!(told.conflicts, ["a", "p", "p/q"]);
        let kept = store.snapshot_tree(session(), told.snapshot.unwrap()).await.unwrap();
        assert_eq!(files_at(store, kept).await, ["a/", "a/b/", "a/b/c=1", "p=1", "start=1"]);
        assert_eq!(files(store).await, ["a=2", "p/", "p/q=2", "start=1"]);
    }

    async fn what_is_over_the_quota_is_kept_as_a_snapshot(opened) {
        let store = &opened.store;
        write(store, "a", &"x".repeat(600)).await.unwrap();
        running(store, 1, |_| {}).await;
        let big = format!("b={}", "y".repeat(500));
        let stage = staged(store, 1, &[&big]).await.unwrap();
        let told = report(store, 1, stage, OK).await.unwrap();
        assert_eq!((told.used_bytes, told.allowed_bytes, told.version), (Some(1100), Some(1000), None));
        assert_eq!(reason(store, 1).await, Some(Reason::Quota));
        assert_eq!(files(store).await.len(), 1);
        let kept = store.snapshot_tree(session(), told.snapshot.unwrap()).await.unwrap();
        assert_eq!(files_at(store, kept).await.len(), 2);
    }

    async fn a_task_that_is_tried_again_publishes_only_its_last_attempt(opened) {
        let store = &opened.store;
        let retry = protocol::spec::Retry { on: [Reason::ExitNonzero].into(), backoff_s: 0 };
        running(store, 1, |spec| spec.retry = Some(retry)).await;
        let stage = staged(store, 1, &["half=1"]).await.unwrap();
        report(store, 1, stage, Outcome::Exited { code: 1 }).await.unwrap();
        assert!(files(store).await.is_empty());
    }

    async fn a_stage_with_a_file_below_a_file_or_a_path_twice_is_refused(opened) {
        let store = &opened.store;
        running(store, 1, |_| {}).await;
        for bad in [&["a=1", "a/b=2"], &["a/b/c=2", "a=1"], &["a=1", "a=2"], &["l>x", "l/y=1"], &["-d", "d/x=1"], &["d/x=1", "-d"]] {
            let error = staged(store, 1, bad).await.unwrap_err();
            assert!(matches!(refused(&error), WorkspaceError::BadStage(_)), "{bad:?}: {error}");
        }
        staged(store, 1, &["a/", "a/b=1", "A=1", "-c", "-c/d"]).await.unwrap();
    }

    async fn a_directory_becomes_a_file_and_a_file_a_directory(opened) {
        let store = &opened.store;
        write(store, "d/x", "1").await.unwrap();
        write(store, "f", "1").await.unwrap();
        running(store, 1, |_| {}).await;
        let stage = staged(store, 1, &["d=2", "f/", "f/y=3"]).await.unwrap();
        assert!(report(store, 1, stage, OK).await.unwrap().version.is_some());
        assert_eq!(files(store).await, ["d=2", "f/", "f/y=3"]);
    }

    async fn a_reader_reads_its_version_and_stages_nothing(opened) {
        let store = &opened.store;
        write(store, "f", "1").await.unwrap();
        running(store, 1, |spec| spec.session_mode = SessionMode::Read).await;
        let checkout = store.check_out(holder(1), None, rules()).await.unwrap();
        write(store, "f", "2").await.unwrap();
        sweep(store, 1_000_000).await;
        assert_eq!(files_at(store, checkout.tree).await, ["f=1"]);
        let found = store.contents(holder(1), vec![format!("{:0>64}", 1), format!("{:0>64}", 2)]).await.unwrap();
        assert!(found[0].is_some() && found[1].is_none(), "only what its manifest names");
        let refused = staged(store, 1, &["f=3"]).await.unwrap_err();
        assert!(matches!(self::refused(&refused), WorkspaceError::NoStage(_)));
    }

    async fn differences_are_told_as_long_as_the_old_version_is_known(opened) {
        let store = &opened.store;
        write(store, "a", "1").await.unwrap();
        write(store, "b", "1").await.unwrap();
        let old = newest(store).await.version;
        write(store, "a", "2").await.unwrap();
        write(store, "a", "1").await.unwrap();
        delete(store, "b").await.unwrap();
        write(store, "c", "3").await.unwrap();
        running(store, 1, |_| {}).await;
        let checkout = store.check_out(holder(1), Some(old), rules()).await.unwrap();
        assert!(checkout.is_since_known);
        let touched = store.touched(checkout.tree, old).await.unwrap();
        let differing = store.compare(checkout.tree, old, touched).await.unwrap();
        let told: Vec<_> = differing.iter().map(|(path, entry)| (path.as_str(), entry.is_some())).collect();
        assert_eq!(told, [("b", false), ("c", true)], "what is as it was is no difference");
        sweep(store, 1_000_000).await;
        assert!(!store.check_out(holder(1), Some(old), rules()).await.unwrap().is_since_known);
        assert!(!store.check_out(holder(1), Some(999), rules()).await.unwrap().is_since_known);
    }

    async fn rows_that_no_version_in_use_needs_are_swept_and_the_others_stay(opened) {
        let store = &opened.store;
        write(store, "a", "1").await.unwrap();
        store.keep_snapshot(session(), "one".into(), at(0)).await.unwrap();
        write(store, "a", "2").await.unwrap();
        write(store, "a", "3").await.unwrap();
        sweep(store, 1_000_000).await;
        let named = |content: u32| format!("{content:0>64}.1");
        let left = store.named(vec![named(1), named(2), named(3)]).await.unwrap();
        assert_eq!(left, [named(1), named(3)].into());
        store.forget_snapshot(session(), "one".into()).await.unwrap();
        sweep(store, 2_000_000).await;
        assert_eq!(store.named(vec![named(1), named(3)]).await.unwrap(), [named(3)].into());
        let nobodys = vec![named(1)];
        assert!(store.orphaned(nobodys.clone(), at(5).at, at(0).at).await.unwrap().is_empty(), "not at once");
        assert_eq!(store.orphaned(nobodys.clone(), at(20).at, at(10).at).await.unwrap(), nobodys);
        store.delete_session(session()).await.unwrap();
        sweep(store, 3_000_000).await;
        assert!(store.named(vec![named(3)]).await.unwrap().is_empty());
    }

    async fn a_session_is_one_repo_s_and_is_deleted_only_when_nobody_works_in_it(opened) {
        let store = &opened.store;
        write(store, "a", "1").await.unwrap();
        assert_eq!(store.session(session(), rules()).await.unwrap().unwrap().view.repo, None);
        running(store, 1, |_| {}).await;
        assert_eq!(store.session(session(), rules()).await.unwrap().unwrap().view.repo, Some("r".parse().unwrap()));
        let elsewhere = Spec { session: Some(session()), ..spec("other", "x") };
        let error = store.submit(new(2, elsewhere), at(0)).await.err().unwrap();
        assert!(matches!(refused(&error), WorkspaceError::AnotherRepo(_)));
        let error = store.delete_session(session()).await.unwrap_err();
        assert!(matches!(refused(&error), WorkspaceError::Busy { holder } if *holder == task(1)));
        assert!(store.unused_sessions(at(9_000_000).at).await.unwrap().is_empty());
        store.report(holder(1), Box::new(Report::new(OK)), rules(), at(5)).await.unwrap();
        assert_eq!(store.unused_sessions(at(9_000_000).at).await.unwrap(), [session()]);
        store.delete_session(session()).await.unwrap();
        assert!(store.session(session(), rules()).await.unwrap().is_none());
    }

    async fn a_command_is_refused_while_another_task_works_or_waits_in_its_session(opened) {
        let store = &opened.store;
        let only_if_free = |number| {
            let spec = Spec { session: Some(session()), ..spec("r", "x") };
            crate::store::NewTask { only_if_free: true, ..new(number, spec) }
        };
        store.submit(only_if_free(1), at(0)).await.unwrap();
        for _ in 0..2 {
            let error = store.submit(only_if_free(2), at(0)).await.err().unwrap();
            assert!(matches!(refused(&error), WorkspaceError::Busy { holder } if *holder == task(1)));
            leased(store, 1, &["r"]).await;
        }
        assert!(store.task(task(2)).await.unwrap().is_none());
    }

    async fn the_published_copy_is_told_what_changed_in_the_same_transaction(opened) {
        let store = &opened.store;
        write(store, "a/b", "1").await.unwrap();
        running(store, 1, |_| {}).await;
        let stage = staged(store, 1, &["c=1"]).await.unwrap();
        report(store, 1, stage, OK).await.unwrap();
        let db = rusqlite::Connection::open(opened.dir.path().join("queue.db")).unwrap();
        let mut statement = db.prepare("SELECT path, changed FROM mirror WHERE session = 's' ORDER BY path").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))).unwrap();
        let told: Vec<_> = rows.map(Result::unwrap).collect();
        assert_eq!(told, [("a".to_owned(), 1), ("a/b".to_owned(), 1), ("c".to_owned(), 2)]);
    }
}

async fn sweep(store: &Store, before_ms: i64) {
    let never = at(-1_000).at;
    let prune = Prune {
        tasks_before: never,
        output_before: never,
        idempotency_before: never,
        workers_before: never,
        history_before: at(before_ms).at,
    };
    while store.prune(prune).await.unwrap() > 0 {}
}
