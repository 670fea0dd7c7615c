//! Claims about who is woken.

use std::time::Duration;

use protocol::{TaskId, WorkerId, WorkerInfo, WorkerState};

use super::{Parked, Wakeup};
use crate::store::Notice;

fn worker(runs: &[&str]) -> WorkerInfo {
    WorkerInfo {
        id: WorkerId::new(0, 1),
        version: String::new(),
        runs: runs.iter().map(|&word| word.to_owned()).collect(),
        confinement: Vec::new(),
        slots: 1,
        state: WorkerState::Ready,
        why: None,
    }
}

fn notice(number: u128, repo: &str, needs: &str) -> Notice {
    Notice { task: Some(TaskId::new(0, number)), repo: repo.parse().unwrap(), needs: needs.into() }
}

fn park<'a>(wakeup: &'a Wakeup, repo: &str, runs: &[&str]) -> Parked<'a> {
    wakeup.park(&worker(runs), &[repo.parse().unwrap()])
}

async fn is_woken(parked: &Parked<'_>) -> bool {
    tokio::time::timeout(Duration::ZERO, parked.woken()).await.is_ok()
}

#[tokio::test]
async fn a_ready_task_wakes_one_fitting_waiter_the_longest_waiting() {
    let wakeup = Wakeup::default();
    let other_repo = park(&wakeup, "b", &["python"]);
    let unfit = park(&wakeup, "a", &["shell"]);
    let first = park(&wakeup, "a", &["python"]);
    let second = park(&wakeup, "a", &["python"]);
    wakeup.task_ready(&notice(1, "a", "python"));
    assert!(is_woken(&first).await);
    for quiet in [&other_repo, &unfit, &second] {
        assert!(!is_woken(quiet).await);
    }
    wakeup.task_ready(&notice(2, "a", "python"));
    assert!(is_woken(&second).await, "the first has not looked yet, so the second task is for the second");
}

#[tokio::test]
async fn a_waiter_that_leaves_passes_its_wake_up_on() {
    let wakeup = Wakeup::default();
    let first = park(&wakeup, "a", &["python"]);
    let second = park(&wakeup, "a", &["python"]);
    wakeup.task_ready(&notice(1, "a", "python"));
    drop(first);
    assert!(is_woken(&second).await);
}

#[tokio::test]
async fn a_waiter_that_looked_can_be_woken_again_and_passes_nothing_on() {
    let wakeup = Wakeup::default();
    let first = park(&wakeup, "a", &["python"]);
    let second = park(&wakeup, "a", &["python"]);
    wakeup.task_ready(&notice(1, "a", "python"));
    assert!(is_woken(&first).await);
    assert_eq!(first.look_again(), Some(notice(1, "a", "python")));
    wakeup.task_ready(&notice(2, "a", "python"));
    assert!(is_woken(&first).await);
    assert!(first.look_again().is_some());
    drop(first);
    assert!(!is_woken(&second).await);
}

#[tokio::test]
async fn nobody_stays_in_a_line_that_was_left() {
    let wakeup = Wakeup::default();
    drop(park(&wakeup, "a", &["python"]));
    assert_eq!((wakeup.parked(), wakeup.parked_repos()), (0, Vec::new()));
    wakeup.task_ready(&notice(1, "a", "python"));
}

#[tokio::test]
async fn a_change_between_registering_and_waiting_is_not_missed() {
    let wakeup = Wakeup::default();
    let task = TaskId::new(0, 7);
    let mut watch = wakeup.watch(task);
    wakeup.task_changed(task);
    tokio::time::timeout(Duration::from_secs(5), watch.changed()).await.expect("was told");
    let mut other = wakeup.watch(task);
    drop(watch);
    wakeup.task_changed(task);
    tokio::time::timeout(Duration::from_secs(5), other.changed()).await.expect("still listens");
    drop(other);
    assert!(wakeup.tasks.lock().unwrap().is_empty());
}

#[tokio::test]
async fn whoever_waits_for_a_state_is_not_woken_by_events() {
    let wakeup = Wakeup::default();
    let task = TaskId::new(0, 7);
    let mut watch = wakeup.watch(task);
    wakeup.task_told(task);
    assert!(tokio::time::timeout(Duration::ZERO, watch.state_changed()).await.is_err());
    wakeup.task_changed(task);
    tokio::time::timeout(Duration::from_secs(5), watch.state_changed()).await.expect("was told");
    assert!(tokio::time::timeout(Duration::ZERO, watch.state_changed()).await.is_err(), "once");
}
