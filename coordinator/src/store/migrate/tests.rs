//! Claims about the migrate.

use rusqlite::Connection;

use super::migrate;

const ONE: &str = "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (7);";
const TWO: &str = "CREATE TABLE b (y INTEGER) STRICT;";

#[test]
fn a_database_is_copied_before_it_is_migrated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.db");
    let mut db = Connection::open(&path).unwrap();
    assert_eq!(migrate(&mut db, &path, &[ONE]).unwrap(), None, "nothing to lose yet");
    let copy = migrate(&mut db, &path, &[ONE, TWO]).unwrap().unwrap();
    assert_eq!(migrate(&mut db, &path, &[ONE, TWO]).unwrap(), None, "nothing to do");
    let before = Connection::open(copy).unwrap();
    assert_eq!(before.query_row("SELECT x FROM a", [], |row| row.get::<_, i64>(0)).unwrap(), 7);
    assert!(before.prepare("SELECT y FROM b").is_err());
    assert!(db.prepare("SELECT y FROM b").is_ok());
}

#[test]
fn a_failed_step_leaves_the_schema_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.db");
    let mut db = Connection::open(&path).unwrap();
    migrate(&mut db, &path, &[ONE]).unwrap();
    let broken = "CREATE TABLE b (y INTEGER) STRICT; CREATE TABLE a (x INTEGER);";
    assert!(migrate(&mut db, &path, &[ONE, broken]).is_err());
    assert!(db.prepare("SELECT y FROM b").is_err());
    assert!(migrate(&mut db, &path, &[ONE, TWO]).is_ok());
}

#[test]
fn a_database_of_a_newer_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.db");
    let mut db = Connection::open(&path).unwrap();
    migrate(&mut db, &path, &[ONE, TWO]).unwrap();
    let error = migrate(&mut db, &path, &[ONE]).unwrap_err().to_string();
    assert!(error.contains("schema 2") && error.contains("newer cw-coordinator"), "{error}");
}

#[tokio::test]
async fn a_queue_of_the_first_schema_is_still_read_and_takes_files() {
    use protocol::TaskId;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.db");
    let mut db = Connection::open(&path).unwrap();
    migrate(&mut db, &path, &super::STEPS[..1]).unwrap();
    let id = TaskId::new(1, 1);
    db.execute("INSERT INTO repos (id, name) VALUES (1, 'a')", []).unwrap();
    db.execute(
        "INSERT INTO tasks (id, repo, priority, needs, is_agent, writes, max_attempts, event_budget, state, created_at, \
         finished_at, reason) VALUES (?1, 1, 2, 'python', 0, 0, 3, 1000, 2, 5, 6, 'ok')",
        [id.to_bytes()],
    )
    .unwrap();
    let spec = r#"{"repo": "a", "run": {"kind": "python", "code": "x"}}"#;
    db.execute("INSERT INTO specs (task, brief, full) VALUES (1, ?1, ?1)", [spec]).unwrap();
    db.execute("INSERT INTO results (task, json) VALUES (1, '{\"artifacts\": []}')", []).unwrap();
    drop(db);
    let store = crate::store::sqlite::Sqlite::open(&path).unwrap();
    let store = crate::store::Store::Sqlite(store);
    let task = store.task(id).await.unwrap().unwrap();
    assert_eq!(task.result.unwrap().get(), "{\"artifacts\": []}");
    assert!(store.artifact(id, "x".parse().unwrap()).await.unwrap().is_none());
    assert!(!store.has_dead_uploads().await.unwrap());
    assert!(dir.path().join("queue.before-3.db").exists());
    store.close().await;
}

#[tokio::test]
async fn sessions_that_tasks_named_before_belong_to_the_repo_that_named_them_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.db");
    let mut db = Connection::open(&path).unwrap();
    migrate(&mut db, &path, &super::STEPS[..2]).unwrap();
    db.execute("INSERT INTO repos (id, name) VALUES (1, 'a'), (2, 'b')", []).unwrap();
    for (id, repo) in [(1u8, 2), (2, 1), (3, 2)] {
        let insert = "INSERT INTO tasks (id, repo, priority, needs, is_agent, session, writes, max_attempts, event_budget, \
            state, created_at) VALUES (?1, ?2, 2, 'python', 0, 's', 1, 3, 1000, 0, 5)";
        db.execute(insert, ([id; 16], repo)).unwrap();
    }
    drop(db);
    let store = crate::store::Store::Sqlite(crate::store::sqlite::Sqlite::open(&path).unwrap());
    let rules = std::sync::Arc::new(crate::store::SessionRules { quota_bytes: 7, layout: Vec::new() });
    let view = store.session("s".parse().unwrap(), rules).await.unwrap().unwrap().view;
    assert_eq!((view.repo, view.version, view.allowed_bytes), (Some("b".parse().unwrap()), 0, 7));
    store.close().await;
}
