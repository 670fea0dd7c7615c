//! Loads a task, lets the rules change it, and saves all that follows from it: the state's event, the result, the session's
//! next task, and whom to wake.

use protocol::lease::LeaseGrant;
use protocol::workspace::Published;
use protocol::{Reason, Report};
use rusqlite::Connection;
use serde_json::value::RawValue;

use super::row::{self, Stored};
use super::{events, publish, result, select, session};
use crate::clock::Now;
use crate::lifecycle::{Change, Files, Holder, Lease, Rejected, State, Task};
use crate::store::types::{Ask, Kept, Leased, Notice, SessionRules, StoreError, Target, Updated};

/// How the rules change a task.
pub(super) type Verb = Box<dyn FnOnce(&mut Task) -> Result<Change, Rejected> + Send>;

/// Rows that one pass of housekeeping touches at most, so that nobody waits long for it.
const PASS_ROWS: u32 = 500;

/// Lets a verb change the task that the target names.
pub(super) fn update(db: &Connection, target: &Target, verb: Verb, now: Now) -> Result<Updated, StoreError> {
    let mut stored = find(db, target)?;
    let before = stored.task.clone();
    let change = verb(&mut stored.task)?;
    let notices = if stored.task == before {
        Vec::new()
    } else if change == Change::None && stored.task.cancel_requested_at == before.cancel_requested_at {
        stored.save_renewal(db)?;
        Vec::new()
    } else {
        save(db, &mut stored, change, None, now)?
    };
    let has_changed = stored.task != before;
    Ok(Updated { id: stored.id, has_changed, notices, task: stored.task })
}

/// Ends an attempt, and publishes its files in the same breath.
pub(super) fn report(
    db: &Connection,
    holder: Holder,
    report: &Report,
    rules: &SessionRules,
    now: Now,
) -> Result<Updated, StoreError> {
    let mut stored = find(db, &Target::Lease(holder))?;
    if let Some(expected) = missing_event(&mut stored, holder, report) {
        return Err(StoreError::EventGap { expected });
    }
    let before = stored.task.clone();
    // Of a lease that is over nothing is published: the rules say whether this is a repeat or comes too late.
    let publishing = match stored.task.current(holder) {
        Ok(_) => publish::find(db, &stored, (holder, report), now)?,
        Err(_) => None,
    };
    db.prepare_cached("SAVEPOINT publish")?.execute([])?;
    let verdict = publishing.as_ref().map(|publishing| publishing.attempt(db, rules)).transpose()?;
    let files = verdict.as_ref().map_or(Files::Fine, publish::Verdict::files);
    let change = stored.task.report(now.at, holder, &report.outcome, files)?;
    let is_kept = matches!(change, Change::Done(reason) if reason != Reason::Cancelled);
    if !is_kept || files != Files::Fine {
        db.prepare_cached("ROLLBACK TO publish")?.execute([])?;
    }
    db.prepare_cached("RELEASE publish")?.execute([])?;
    let published = match (publishing, verdict) {
        (Some(_), Some(publish::Verdict::Fits(published))) if is_kept => Some(published),
        (Some(publishing), Some(verdict)) if is_kept => Some(publishing.keep_as_snapshot(db, verdict, now)?),
        _ => None,
    };
    let has_changed = stored.task != before;
    let said = Said { report, published };
    let notices = if has_changed { save(db, &mut stored, change, Some(said), now)? } else { Vec::new() };
    Ok(Updated { id: stored.id, has_changed, notices, task: stored.task })
}

/// What a worker reported, and what became of its files.
pub(super) struct Said<'report> {
    pub(super) report: &'report Report,
    pub(super) published: Option<Published>,
}

fn find(db: &Connection, target: &Target) -> Result<Stored, StoreError> {
    match target {
        Target::Task(id) => row::by_id(db, *id)?.ok_or(StoreError::NotFound),
        Target::Lease(holder) => row::by_lease(db, holder.lease)?.ok_or(StoreError::Rejected(Rejected::LeaseLost)),
    }
}

/// The event that must come before this report, if it is its holder's and the lease still lives.
fn missing_event(stored: &mut Stored, holder: Holder, report: &Report) -> Option<u64> {
    let is_current = stored.task.current(holder).is_ok();
    (is_current && report.last_event? > stored.lease_events).then_some(stored.lease_events + 1)
}

/// Saves a changed task and everything that follows from the change.
fn save(
    db: &Connection,
    stored: &mut Stored,
    change: Change,
    said: Option<Said<'_>>,
    now: Now,
) -> Result<Vec<Notice>, StoreError> {
    events::add_state(db, stored, change, now.at)?;
    stored.save(db)?;
    if let Change::Done(_) = change {
        result::save(db, stored, said)?;
    }
    let freed = session::settle(db, stored)?;
    let back = match change {
        // The settled session may hold the task that just went back.
        Change::Queued(_) => row::by_seq(db, stored.seq)?,
        Change::None | Change::Running | Change::Done(_) => None,
    };
    let back = back.map(|stored| session::notice_if_ready(db, &stored)).transpose()?.flatten();
    let room = room(db, stored, change)?;
    Ok(freed.into_iter().chain(back).chain(room).collect())
}

/// A repo that may have been full has room again, for any kind of its tasks.
fn room(db: &Connection, stored: &Stored, change: Change) -> Result<Vec<Notice>, StoreError> {
    let has_left = matches!(change, Change::Done(_) | Change::Queued(_));
    let is_limited =
        || db.prepare_cached("SELECT 1 FROM repos WHERE id = ?1 AND max_running IS NOT NULL")?.exists([stored.repo]);
    if !has_left || !is_limited()? {
        return Ok(Vec::new());
    }
    let repo = session::repo_name(db, stored.repo)?;
    select::ready(db, &[repo])
}

/// Gives a worker the task that is next for it.
pub(super) fn lease(db: &Connection, ask: &Ask, now: Now) -> Result<Option<Leased>, StoreError> {
    let Some(seq) = select::next(db, &ask.repos, &ask.worker)? else { return Ok(None) };
    let mut stored = row::by_seq(db, seq)?.ok_or(StoreError::NotFound)?;
    let lease = Lease {
        id: ask.lease,
        key: ask.key,
        worker: ask.worker.id,
        expires_at: now.at.plus_s(ask.ttls.first_s.into()),
        is_renewed: false,
    };
    let change = stored.task.lease(now.at, lease)?;
    stored.lease_events = 0;
    stored.lease_event_bytes = 0;
    events::add_state(db, &mut stored, change, now.at)?;
    stored.save(db)?;
    session::settle(db, &stored)?;
    Ok(Some(Leased { grant: grant(db, &stored, ask)? }))
}

fn grant(db: &Connection, stored: &Stored, ask: &Ask) -> Result<LeaseGrant, StoreError> {
    let spec: String =
        db.prepare_cached("SELECT full FROM specs WHERE task = ?1")?.query_row([stored.seq], |row| row.get(0))?;
    Ok(LeaseGrant {
        lease: ask.lease,
        task: stored.id,
        repo: session::repo_name(db, stored.repo)?,
        attempt: stored.task.attempt,
        ttl_s: ask.ttls.first_s,
        spec: RawValue::from_string(spec).map_err(|error| StoreError::Corrupt(error.to_string()))?,
    })
}

/// Lapses leases whose time is over and lets go of holds whose time has come.
pub(super) fn tend(db: &Connection, now: Now) -> Result<Kept, StoreError> {
    let mut kept = Kept::default();
    let expired =
        places(db, "SELECT seq FROM tasks WHERE state = 1 AND lease_expires_at <= ?1 LIMIT ?2", now.at.as_ms())?;
    let due_wall = places(db, DUE.0, now.wall.as_ms())?;
    let due_timeline = places(db, DUE.1, now.at.as_ms())?;
    kept.is_partial = [&expired, &due_wall, &due_timeline].iter().any(|found| found.len() >= PASS_ROWS as usize);
    for seq in expired {
        lapse(db, seq, now, &mut kept)?;
    }
    for seq in due_wall.into_iter().chain(due_timeline) {
        let_go(db, seq, &mut kept)?;
    }
    Ok(kept)
}

const DUE: (&str, &str) = (
    "SELECT seq FROM tasks WHERE state = 0 AND hold_until IS NOT NULL AND hold = 0 AND hold_until <= ?1 LIMIT ?2",
    "SELECT seq FROM tasks WHERE state = 0 AND hold_until IS NOT NULL AND hold = 1 AND hold_until <= ?1 LIMIT ?2",
);

fn places(db: &Connection, sql: &str, at_ms: i64) -> Result<Vec<i64>, StoreError> {
    Ok(db.prepare_cached(sql)?.query_map((at_ms, PASS_ROWS), |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn lapse(db: &Connection, seq: i64, now: Now, kept: &mut Kept) -> Result<(), StoreError> {
    let Some(mut stored) = row::by_seq(db, seq)? else { return Ok(()) };
    let change = stored.task.lapse(now.at)?;
    if change != Change::None {
        kept.notices.extend(save(db, &mut stored, change, None, now)?);
        kept.changed.push(stored.id);
    }
    Ok(())
}

fn let_go(db: &Connection, seq: i64, kept: &mut Kept) -> Result<(), StoreError> {
    let Some(mut stored) = row::by_seq(db, seq)? else { return Ok(()) };
    stored.task.state = State::Queued { hold: session::starts_held(&stored) };
    stored.save(db)?;
    let freed = session::settle(db, &stored)?;
    kept.notices.extend(freed.into_iter().chain(session::notice_if_ready(db, &stored)?));
    Ok(())
}

/// Gives every live lease its full time from now, whatever the clock said when it was renewed.
pub(super) fn rearm(db: &Connection, now: Now, ttls: crate::store::types::Ttls) -> Result<usize, StoreError> {
    let until = |seconds: u32| now.at.plus_s(seconds.into()).as_ms();
    Ok(db
        .prepare_cached(
            "UPDATE tasks SET lease_expires_at = CASE WHEN NOT lease_renewed THEN ?1 WHEN is_agent THEN ?2 ELSE ?3 END \
             WHERE state = 1",
        )?
        .execute((until(ttls.first_s), until(ttls.agent_s), until(ttls.code_s)))?)
}

/// The live leases' workers, once for each lease.
pub(super) fn running_workers(db: &Connection) -> Result<Vec<protocol::WorkerId>, StoreError> {
    let read = |row: &rusqlite::Row<'_>| row.get(0).map(protocol::WorkerId::from_bytes);
    Ok(db.prepare_cached("SELECT worker FROM tasks WHERE state = 1")?.query_map([], read)?.collect::<Result<_, _>>()?)
}
