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
