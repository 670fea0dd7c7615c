//! Which task a worker gets: the most urgent first, among equally urgent ones repos in turn, within a repo the oldest that
//! the worker can run.
//!
//! The index `tasks_ready` is sorted so that each (priority, needs) of a repo is one step away from the one before: the cost
//! depends on how many kinds of tasks wait, never on how many tasks. A paused or full repo is skipped whole, and held
//! tasks are not in the index at all.

use protocol::{RepoName, WorkerInfo};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::session::repo_name;
use crate::store::types::{Notice, StoreError};

/// The step from one kind of waiting task to the next that is as urgent.
pub const NEXT_NEEDS: &str = "SELECT priority, needs, seq FROM tasks WHERE repo = ?1 AND state = 0 AND hold IS NULL \
     AND priority = ?2 AND needs > ?3 ORDER BY needs, seq LIMIT 1";

/// The step to the next that is less urgent. One statement for both steps, `(priority, needs) > (?2, ?3)`, would begin at the
/// kind itself and pass over every task of it.
pub const NEXT_PRIORITY: &str = "SELECT priority, needs, seq FROM tasks WHERE repo = ?1 AND state = 0 AND hold IS NULL \
     AND priority > ?2 ORDER BY priority, needs, seq LIMIT 1";

/// The running tasks of a repo, counted no further than its limit.
pub const COUNT_RUNNING: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks WHERE repo = ?1 AND state = 1 LIMIT ?2)";

/// Kinds of tasks of one repo that are looked at. A client may invent any number of them; what lies beyond waits until the
/// first ones are gone, and no other repo waits for it.
const MAX_KINDS: usize = 256;

struct Repo {
    id: i64,
    turn: i64,
}

/// The first task of a repo that a worker can run.
struct Candidate {
    priority: i64,
    turn: i64,
    seq: i64,
    repo: i64,
}

impl Candidate {
    /// The smallest goes first; of two repos that were never served, the one whose task is older.
    const fn rank(&self) -> (i64, i64, i64) {
        (self.priority, self.turn, self.seq)
    }
}

/// The place of the task that is next for this worker.
pub(super) fn next(db: &Connection, repos: &[RepoName], worker: &WorkerInfo) -> Result<Option<i64>, StoreError> {
    let mut best: Option<Candidate> = None;
    for name in repos {
        let Some(repo) = open_repo(db, name)? else { continue };
        let Some(found) = first_fitting(db, &repo, worker)? else { continue };
        if best.as_ref().is_none_or(|best| found.rank() < best.rank()) {
            best = Some(found);
        }
    }
    let Some(best) = best else { return Ok(None) };
    db.prepare_cached("UPDATE repos SET turn = (SELECT max(turn) + 1 FROM repos) WHERE id = ?1")?
        .execute([best.repo])?;
    Ok(Some(best.seq))
}

/// A repo that is neither paused nor full.
fn open_repo(db: &Connection, name: &RepoName) -> Result<Option<Repo>, StoreError> {
    let found = db
        .prepare_cached("SELECT id, turn, max_running FROM repos WHERE name = ?1 AND paused = 0")?
        .query_row([name.as_str()], |row| {
            Ok((Repo { id: row.get(0)?, turn: row.get(1)? }, row.get::<_, Option<i64>>(2)?))
        })
        .optional()?;
    match found {
        Some((repo, Some(most))) if running(db, repo.id, most)? >= most => Ok(None),
        Some((repo, _)) => Ok(Some(repo)),
        None => Ok(None),
    }
}

fn running(db: &Connection, repo: i64, most: i64) -> Result<i64, StoreError> {
    Ok(db.prepare_cached(COUNT_RUNNING)?.query_row((repo, most), |row| row.get(0))?)
}

fn first_fitting(db: &Connection, repo: &Repo, worker: &WorkerInfo) -> Result<Option<Candidate>, StoreError> {
    let mut best: Option<Candidate> = None;
    let mut kinds = Kinds::of(repo.id);
    for _ in 0..MAX_KINDS {
        let Some((priority, needs, seq)) = kinds.next(db)? else { break };
        if best.as_ref().is_some_and(|best| priority > best.priority) {
            break;
        }
        if worker.fits(&needs) && best.as_ref().is_none_or(|best| seq < best.seq) {
            best = Some(Candidate { priority, turn: repo.turn, seq, repo: repo.id });
        }
    }
    Ok(best)
}

/// Walks over the kinds of tasks that wait in a repo, from the most urgent one on.
struct Kinds {
    repo: i64,
    priority: i64,
    needs: String,
}

impl Kinds {
    const fn of(repo: i64) -> Self {
        Self { repo, priority: -1, needs: String::new() }
    }

    /// The oldest task of the next kind.
    fn next(&mut self, db: &Connection) -> Result<Option<(i64, String, i64)>, StoreError> {
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let as_urgent = if self.needs.is_empty() {
            None
        } else {
            db.prepare_cached(NEXT_NEEDS)?.query_row((self.repo, self.priority, &self.needs), read).optional()?
        };
        let found: Option<(i64, String, i64)> = match as_urgent {
            Some(found) => Some(found),
            None => db.prepare_cached(NEXT_PRIORITY)?.query_row((self.repo, self.priority), read).optional()?,
        };
        if let Some((priority, needs, _)) = &found {
            self.priority = *priority;
            self.needs.clone_from(needs);
        }
        Ok(found)
    }
}

/// A notice for each kind of task that waits in these repos, the most urgent first.
pub(super) fn ready(db: &Connection, repos: &[RepoName]) -> Result<Vec<Notice>, StoreError> {
    let mut notices = Vec::new();
    for name in repos {
        let Some(repo) = open_repo(db, name)? else { continue };
        let mut kinds = Kinds::of(repo.id);
        for _ in 0..MAX_KINDS {
            let Some((_, needs, seq)) = kinds.next(db)? else { break };
            let task = super::row::by_seq(db, seq)?.map(|stored| stored.id);
            notices.push(Notice { task, repo: repo_name(db, repo.id)?, needs });
        }
    }
    Ok(notices)
}
