//! Claims about a task's life.

use std::collections::BTreeSet;

use protocol::lease::Stop;
use protocol::spec::Retry;
use protocol::{KeyId, LeaseId, Outcome, Reason, Timestamp, WorkerId};

use super::{Change, Files, Hold, Holder, Lease, MAX_FREE_RELEASES, Rejected, State, Task};

const OK: Outcome = Outcome::Exited { code: 0 };
const KEY: KeyId = KeyId::new(0, 1);

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn queued() -> Task {
    Task::new(false, 3, None)
}

fn lease(number: u128, expires_ms: i64) -> Lease {
    Lease {
        id: LeaseId::new(0, number),
        key: KEY,
        worker: WorkerId::new(0, number),
        expires_at: at(expires_ms),
        is_renewed: false,
    }
}

fn holder(number: u128) -> Holder {
    Holder { lease: LeaseId::new(0, number), key: KEY }
}

/// A task whose lease 1 was renewed until 100.
fn running() -> Task {
    let mut task = queued();
    task.lease(at(0), lease(1, 10)).unwrap();
    task.renew(holder(1), at(100)).unwrap();
    task
}

fn retrying(backoff_s: u32) -> Task {
    Task { retry: Some(Retry { on: BTreeSet::from([Reason::ExitNonzero]), backoff_s }), ..running() }
}

#[test]
fn a_leased_task_cannot_be_leased_again() {
    let mut task = running();
    let before = task.clone();
    assert_eq!(task.lease(at(1), lease(2, 10)), Err(Rejected::NotQueued));
    assert_eq!(task, before);
}

#[test]
fn a_held_task_is_not_leased() {
    let mut task = queued();
    task.state = State::Queued { hold: Some(Hold::Session) };
    assert_eq!(task.lease(at(1), lease(1, 10)), Err(Rejected::NotQueued));
}

#[test]
fn done_is_for_ever() {
    let mut task = running();
    assert_eq!(task.report(at(5), holder(1), &OK, Files::Fine), Ok(Change::Done(Reason::Ok)));
    let done = task.clone();
    assert_eq!(task.lapse(at(1_000)), Ok(Change::None));
    assert_eq!(task.release(at(6), holder(1)), Err(Rejected::LeaseLost));
    assert_eq!(task.renew(holder(1), at(200)), Err(Rejected::LeaseLost));
    assert_eq!(task.cancel(at(6)), Err(Rejected::AlreadyDone(protocol::TaskState::Completed)));
    assert_eq!(task.lease(at(6), lease(2, 10)), Err(Rejected::NotQueued));
    assert_eq!(task, done);
}

#[test]
fn a_repeated_report_is_accepted_and_changes_nothing() {
    let mut task = running();
    task.report(at(5), holder(1), &OK, Files::Fine).unwrap();
    let done = task.clone();
    assert_eq!(task.report(at(9), holder(1), &Outcome::Exited { code: 1 }, Files::Fine), Ok(Change::None));
    assert_eq!(task, done);
}

#[test]
fn a_repeated_report_of_a_retried_attempt_is_accepted_and_changes_nothing() {
    let mut task = retrying(0);
    let failed = Outcome::Exited { code: 1 };
    assert_eq!(task.report(at(5), holder(1), &failed, Files::Fine), Ok(Change::Queued(Some(Reason::ExitNonzero))));
    let queued = task.clone();
    assert_eq!(task.report(at(6), holder(1), &failed, Files::Fine), Ok(Change::None));
    assert_eq!(task, queued);
}

#[test]
fn late_report_of_lapsed_lease_changes_nothing() {
    let mut task = running();
    assert_eq!(task.lapse(at(100)), Ok(Change::Queued(Some(Reason::LeaseLost))));
    let lapsed = task.clone();
    assert_eq!(task.report(at(101), holder(1), &OK, Files::Fine), Err(Rejected::LeaseLost));
    assert_eq!(task.renew(holder(1), at(200)), Err(Rejected::LeaseLost));
    assert_eq!(task.release(at(101), holder(1)), Err(Rejected::LeaseLost));
    assert_eq!(task, lapsed);
}

#[test]
fn a_lease_belongs_to_the_key_that_took_it() {
    let mut task = running();
    let before = task.clone();
    let thief = Holder { key: KeyId::new(0, 2), ..holder(1) };
    assert_eq!(task.renew(thief, at(500)), Err(Rejected::LeaseLost));
    assert_eq!(task.report(at(5), thief, &OK, Files::Fine), Err(Rejected::LeaseLost));
    assert_eq!(task.release(at(5), thief), Err(Rejected::LeaseLost));
    assert_eq!(task, before);
    task.report(at(5), holder(1), &OK, Files::Fine).unwrap();
    assert_eq!(task.report(at(6), thief, &OK, Files::Fine), Err(Rejected::LeaseLost), "not even a repeat");
}

#[test]
fn a_lapse_before_the_first_renewal_is_not_counted() {
    let mut task = queued();
    for attempt in 1..20 {
        task.lease(at(0), lease(attempt, 10)).unwrap();
        assert_eq!(task.lapse(at(10)), Ok(Change::Queued(Some(Reason::LeaseLost))));
    }
    assert_eq!((task.counted, task.attempt), (0, 19));
}

#[test]
fn a_lapse_after_the_first_renewal_is_counted_until_none_is_left() {
    let mut task = running();
    assert_eq!(task.lapse(at(99)), Ok(Change::None), "the lease still lives");
    for attempt in 2..4 {
        assert_eq!(task.lapse(at(100)), Ok(Change::Queued(Some(Reason::LeaseLost))));
        task.lease(at(0), lease(attempt, 10)).unwrap();
        task.renew(holder(attempt), at(100)).unwrap();
    }
    assert_eq!(task.lapse(at(100)), Ok(Change::Done(Reason::LeaseLost)));
}

#[test]
fn a_release_costs_no_attempt_ten_times() {
    let mut task = queued();
    for attempt in 1..=u128::from(MAX_FREE_RELEASES) {
        task.lease(at(0), lease(attempt, 10)).unwrap();
        assert_eq!(task.release(at(1), holder(attempt)), Ok(Change::Queued(None)));
        assert_eq!(task.release(at(1), holder(attempt)), Ok(Change::None), "a repeat");
    }
    assert_eq!(task.counted, 0);
    for attempt in 11..13 {
        task.lease(at(0), lease(attempt, 10)).unwrap();
        assert_eq!(task.release(at(1), holder(attempt)), Ok(Change::Queued(Some(Reason::LeaseLost))));
    }
    task.lease(at(0), lease(13, 10)).unwrap();
    assert_eq!(task.release(at(1), holder(13)), Ok(Change::Done(Reason::LeaseLost)));
}

#[test]
fn a_queued_task_is_cancelled_at_once_and_again() {
    let mut task = queued();
    assert_eq!(task.cancel(at(3)), Ok(Change::Done(Reason::Cancelled)));
    assert_eq!(task.cancel(at(4)), Ok(Change::None));
}

#[test]
fn a_cancelled_running_task_stays_running_and_then_never_queues_again() {
    let asked = || {
        let mut task = running();
        assert_eq!(task.cancel(at(3)), Ok(Change::None));
        assert_eq!(task.cancel(at(4)), Ok(Change::None));
        assert_eq!(task.cancel_requested_at, Some(at(3)));
        assert_eq!(task.stop(), Some(Stop::Cancel));
        task
    };
    assert_eq!(asked().report(at(5), holder(1), &OK, Files::Fine), Ok(Change::Done(Reason::Cancelled)));
    assert_eq!(asked().release(at(5), holder(1)), Ok(Change::Done(Reason::Cancelled)));
    assert_eq!(asked().lapse(at(100)), Ok(Change::Done(Reason::Cancelled)));
    let mut retried = retrying(5);
    retried.cancel(at(3)).unwrap();
    assert_eq!(
        retried.report(at(5), holder(1), &Outcome::Exited { code: 1 }, Files::Fine),
        Ok(Change::Done(Reason::Cancelled))
    );
}

#[test]
fn a_cancel_before_the_first_renewal_ends_with_the_lapse() {
    let mut task = queued();
    task.lease(at(0), lease(1, 10)).unwrap();
    task.cancel(at(1)).unwrap();
    assert_eq!(task.lapse(at(10)), Ok(Change::Done(Reason::Cancelled)));
}

#[test]
fn a_task_that_ran_and_failed_is_not_retried_unless_its_spec_says_so() {
    assert_eq!(
        running().report(at(5), holder(1), &Outcome::Exited { code: 1 }, Files::Fine),
        Ok(Change::Done(Reason::ExitNonzero))
    );
    let mut task = retrying(7);
    assert_eq!(
        task.report(at(5), holder(1), &Outcome::Exited { code: 1 }, Files::Fine),
        Ok(Change::Queued(Some(Reason::ExitNonzero)))
    );
    assert_eq!(task.state, State::Queued { hold: Some(Hold::Backoff(at(7_005))) });
    assert_eq!(retrying(7).report(at(5), holder(1), &Outcome::Timeout, Files::Fine), Ok(Change::Done(Reason::Timeout)));
}

#[test]
fn a_task_that_could_not_be_set_up_is_retried_until_its_attempts_are_used_up() {
    let setup_failed = Outcome::SetupFailed { detail: "no python3".into() };
    let mut task = running();
    for attempt in 2..4 {
        let ended = task.report(at(5), holder(attempt - 1), &setup_failed, Files::Fine);
        assert_eq!(ended, Ok(Change::Queued(Some(Reason::SetupFailed))));
        task.lease(at(0), lease(attempt, 10)).unwrap();
    }
    assert_eq!(task.report(at(5), holder(3), &setup_failed, Files::Fine), Ok(Change::Done(Reason::SetupFailed)));
}

#[test]
fn a_renewal_never_shortens_a_lease() {
    let mut task = running();
    task.renew(holder(1), at(50)).unwrap();
    assert_eq!(task.lapse(at(60)), Ok(Change::None));
}
