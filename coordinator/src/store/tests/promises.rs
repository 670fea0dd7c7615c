//! What every store promises.

use protocol::event::{EventBody, OutputBytes, Stream, WorkerEvent};
use protocol::spec::{Priority, SessionMode, Spec};
use protocol::{LeaseId, Outcome, Reason, Report, TaskId, TaskState};

use super::{ask, at, every_store, new, spec, urgent};
use crate::lifecycle::{Holder, Rejected};
use crate::store::{Durability, Filter, OutputPart, Prune, Store, StoreError, Target, WorkspaceError};

pub(super) fn holder(number: u128) -> Holder {
    Holder { lease: LeaseId::new(0, number), key: super::KEY }
}

/// The task that a lease got, by the number that it was made with.
pub(super) async fn leased(store: &Store, number: u128, repos: &[&str]) -> Option<TaskId> {
    store.lease(ask(number, repos, &["python", "session"]), at(0)).await.unwrap().map(|leased| leased.grant.task)
}

async fn report(store: &Store, number: u128, outcome: Outcome, now_ms: i64) -> Result<TaskState, StoreError> {
    let updated = store.report(holder(number), Box::new(Report::new(outcome)), super::rules(), at(now_ms)).await?;
    Ok(updated.task.visible())
}

pub(super) async fn renew(store: &Store, number: u128, now_ms: i64) -> Result<(), StoreError> {
    let now = at(now_ms);
    let until = now.at.plus_s(30);
    let verb = move |task: &mut crate::lifecycle::Task| task.renew(holder(number), until);
    store.update(Target::Lease(holder(number)), Durability::Process, now, verb).await.map(drop)
}

fn output(number: u64, text: &str) -> WorkerEvent {
    let bytes = OutputBytes::Text(text.into());
    WorkerEvent { number, body: EventBody::Output { stream: Stream::Stdout, bytes } }
}

pub(super) fn task(number: u128) -> TaskId {
    TaskId::new(0, number)
}

every_store! {
    async fn the_most_urgent_goes_first_then_the_oldest(opened) {
        let store = &opened.store;
        for (number, priority) in [(1, Priority::Low), (2, Priority::Normal), (3, Priority::Normal), (4, Priority::Critical)] {
            store.submit(new(number, urgent(priority, spec("r", "x"))), at(0)).await.unwrap();
        }
        let mut order = Vec::new();
        for lease in 1..=5 {
            order.push(leased(store, lease, &["r"]).await);
        }
        assert_eq!(order, [Some(task(4)), Some(task(2)), Some(task(3)), Some(task(1)), None]);
    }

    async fn equally_urgent_repos_take_turns(opened) {
        let store = &opened.store;
        for number in 1..=3 {
            store.submit(new(number, spec("a", "x")), at(0)).await.unwrap();
        }
        for number in 4..=5 {
            store.submit(new(number, spec("b", "x")), at(0)).await.unwrap();
        }
        let mut order = Vec::new();
        for lease in 1..=5 {
            order.push(leased(store, lease, &["a", "b"]).await.unwrap());
        }
        assert_eq!(order, [task(1), task(4), task(2), task(5), task(3)]);
    }

    async fn a_task_goes_only_to_a_worker_that_can_run_it(opened) {
        let store = &opened.store;
        store.submit(new(1, spec("r", "x")), at(0)).await.unwrap();
        assert!(store.lease(ask(1, &["r"], &["shell"]), at(0)).await.unwrap().is_none());
        assert!(store.lease(ask(2, &["other"], &["python"]), at(0)).await.unwrap().is_none());
        assert!(store.lease(ask(3, &["r"], &["shell", "python"]), at(0)).await.unwrap().is_some());
    }

    async fn a_paused_or_full_repo_is_skipped_whole(opened) {
        let store = &opened.store;
        let change = |json: &str| serde_json::from_str(json).unwrap();
        for number in 1..=3 {
            store.submit(new(number, spec("r", "x")), at(0)).await.unwrap();
        }
        store.change_repo("r".parse().unwrap(), change(r#"{"max_running": 2}"#)).await.unwrap();
        assert!(leased(store, 1, &["r"]).await.is_some());
        assert!(leased(store, 2, &["r"]).await.is_some());
        assert_eq!(leased(store, 3, &["r"]).await, None, "full");
        report(store, 1, Outcome::Exited { code: 0 }, 1).await.unwrap();
        store.change_repo("r".parse().unwrap(), change(r#"{"paused": true}"#)).await.unwrap();
        assert_eq!(leased(store, 4, &["r"]).await, None, "paused");
        store.change_repo("r".parse().unwrap(), change(r#"{"paused": false, "max_running": null}"#)).await.unwrap();
        assert!(leased(store, 5, &["r"]).await.is_some());
    }

    async fn one_task_writes_in_a_session_and_readers_run_beside_it(opened) {
        let store = &opened.store;
        let in_session = |mode, priority| Spec {
            session: Some("s".parse().unwrap()), session_mode: mode, priority, ..spec("r", "x")
        };
        store.submit(new(1, in_session(SessionMode::Write, Priority::Low)), at(0)).await.unwrap();
        store.submit(new(2, in_session(SessionMode::Write, Priority::High)), at(0)).await.unwrap();
        store.submit(new(3, in_session(SessionMode::Read, Priority::Low)), at(0)).await.unwrap();
        assert_eq!(leased(store, 1, &["r"]).await, Some(task(2)), "the urgent writer overtakes");
        assert_eq!(leased(store, 2, &["r"]).await, Some(task(3)), "a reader does not wait");
        assert_eq!(leased(store, 3, &["r"]).await, None, "the other writer does");
        assert_eq!(store.waiting(task(1)).await.unwrap().session_holder, Some(task(2)));
        let elsewhere = Spec { session: Some("s".parse().unwrap()), ..spec("other", "x") };
        let refused = store.submit(new(4, elsewhere), at(0)).await.err().unwrap();
        assert!(matches!(refused, StoreError::Workspace(WorkspaceError::AnotherRepo(_))), "a session is one repo's: {refused}");
        report(store, 1, Outcome::Exited { code: 0 }, 1).await.unwrap();
        assert_eq!(leased(store, 4, &["r"]).await, Some(task(1)));
    }

    async fn a_task_waits_for_its_instant(opened) {
        let store = &opened.store;
        let later = Spec { not_before: Some(at(5_000).wall), ..spec("r", "x") };
        store.submit(new(1, later), at(0)).await.unwrap();
        assert!(store.tend(at(4_999)).await.unwrap().notices.is_empty());
        assert_eq!(leased(store, 1, &["r"]).await, None);
        assert_eq!(store.tend(at(5_000)).await.unwrap().notices.len(), 1);
        assert_eq!(leased(store, 2, &["r"]).await, Some(task(1)));
    }

    async fn a_lapsed_lease_publishes_nothing(opened) {
        let store = &opened.store;
        store.submit(new(1, spec("r", "x")), at(0)).await.unwrap();
        leased(store, 1, &["r"]).await.unwrap();
        renew(store, 1, 0).await.unwrap();
        assert!(store.tend(at(29_999)).await.unwrap().changed.is_empty());
        assert_eq!(store.tend(at(30_000)).await.unwrap().changed, [task(1)]);
        let lost = |error| assert!(matches!(error, StoreError::Rejected(Rejected::LeaseLost)), "{error}");
        lost(report(store, 1, Outcome::Exited { code: 0 }, 30_001).await.unwrap_err());
        lost(renew(store, 1, 30_001).await.unwrap_err());
        lost(store.append(holder(1), vec![output(1, "zombie")], at(30_001)).await.err().unwrap());
        assert_eq!(store.task(task(1)).await.unwrap().unwrap().row.state, TaskState::Queued);
    }

    async fn events_are_numbered_without_gaps_and_repeats_change_nothing(opened) {
        let store = &opened.store;
        store.submit(new(1, spec("r", "x")), at(0)).await.unwrap();
        leased(store, 1, &["r"]).await.unwrap();
        let batch = vec![output(1, "a"), output(2, "b")];
        assert_eq!(store.append(holder(1), batch.clone(), at(1)).await.unwrap().accepted, 2);
        assert_eq!(store.append(holder(1), batch, at(2)).await.unwrap().accepted, 2);
        let gap = store.append(holder(1), vec![output(3, "c"), output(5, "e")], at(3)).await.err().unwrap();
        assert!(matches!(gap, StoreError::EventGap { expected: 4 }));
        report(store, 1, Outcome::Exited { code: 0 }, 4).await.unwrap();
        let told = store.events(task(1), 0, 100).await.unwrap();
        let seen: Vec<_> = told.events.iter().map(|event| (event.number, event.kind)).collect();
        assert_eq!(seen, [(1, "state"), (2, "state"), (3, "output"), (4, "output"), (5, "state")]);
        assert!(told.is_over && !store.events(task(1), 0, 4).await.unwrap().is_over);
    }

    async fn a_report_waits_for_its_events(opened) {
        let store = &opened.store;
        store.submit(new(1, spec("r", "x")), at(0)).await.unwrap();
        leased(store, 1, &["r"]).await.unwrap();
        let report = Report { last_event: Some(1), ..Report::new(Outcome::Exited { code: 0 }) };
        let early = store.report(holder(1), Box::new(report.clone()), super::super::rules(), at(1)).await;
        assert!(matches!(early.err().unwrap(), StoreError::EventGap { expected: 1 }));
        store.append(holder(1), vec![output(1, "all of it")], at(1)).await.unwrap();
        store.report(holder(1), Box::new(report), super::super::rules(), at(1)).await.unwrap();
        let result = store.task(task(1)).await.unwrap().unwrap().result.unwrap();
        assert!(result.get().contains("all of it"), "{result}");
    }

    async fn everything_outlives_a_restart(opened) {
        let store = &opened.store;
        for number in 1..=3 {
            store.submit(new(number, spec("r", "x")), at(0)).await.unwrap();
        }
        leased(store, 1, &["r"]).await.unwrap();
        report(store, 1, Outcome::Exited { code: 3 }, 5).await.unwrap();
        leased(store, 2, &["r"]).await.unwrap();
        let opened = opened.reopen().await;
        let store = &opened.store;
        assert_eq!(store.newest_instant(), Some(at(5).at));
        assert_eq!(store.rearm(at(100_000), super::super::TTLS).await.unwrap(), 1);
        assert!(store.tend(at(109_999)).await.unwrap().changed.is_empty(), "a live lease has its full time again");
        let row = store.task(task(1)).await.unwrap().unwrap().row;
        assert_eq!((row.state, row.reason), (TaskState::Failed, Some(Reason::ExitNonzero)));
        assert_eq!(leased(store, 3, &["r"]).await, Some(task(3)));
        assert_eq!(store.tend(at(110_000)).await.unwrap().changed.len(), 2);
    }

    async fn what_is_old_goes_and_the_rest_stays(opened) {
        let store = &opened.store;
        for number in 1..=3 {
            let labelled = Spec { labels: [("k".into(), "v".into())].into(), ..spec("r", "x") };
            store.submit(new(number, labelled), at(0)).await.unwrap();
        }
        for (lease, end_ms) in [(1, 1_000), (2, 5_000)] {
            leased(store, lease, &["r"]).await.unwrap();
            store.append(holder(lease), vec![output(1, "text")], at(0)).await.unwrap();
            report(store, lease, Outcome::Exited { code: 0 }, end_ms).await.unwrap();
        }
        let old = Prune {
            tasks_before: at(2_000).at, output_before: at(6_000).at, idempotency_before: at(0).at, workers_before: at(0).at,
            history_before: at(0).at,
        };
        while store.prune(old).await.unwrap() > 0 {}
        assert!(store.task(task(1)).await.unwrap().is_none());
        let kept = store.task(task(2)).await.unwrap().unwrap();
        assert!(kept.result.unwrap().get().contains("text"), "the result stays");
        let part = OutputPart { id: task(2), stream: Stream::Stdout, after: 0 };
        assert!(store.output(part).await.unwrap().is_empty(), "its output is gone");
        let label = Filter { label: Some(("k".into(), "v".into())), limit: 10, ..Filter::default() };
        assert_eq!(store.list(label).await.unwrap().0.len(), 2);
    }

    async fn a_clock_that_went_back_keeps_no_dead_lease_alive(opened) {
        let store = &opened.store;
        store.submit(new(1, spec("r", "x")), at(0)).await.unwrap();
        leased(store, 1, &["r"]).await.unwrap();
        renew(store, 1, 3_600_000).await.unwrap();
        store.rearm(at(1_000), super::super::TTLS).await.unwrap();
        assert_eq!(store.tend(at(31_000)).await.unwrap().changed, [task(1)]);
    }

    async fn invented_kinds_of_tasks_keep_nobody_from_a_repo_s_first_ones(opened) {
        let store = &opened.store;
        for number in 1..=300 {
            let odd = Spec { requires: [format!("k{number}")].into(), ..spec("r", "x") };
            store.submit(new(number, odd), at(0)).await.unwrap();
        }
        store.submit(new(301, urgent(Priority::High, spec("r", "x"))), at(0)).await.unwrap();
        assert_eq!(leased(store, 1, &["r"]).await, Some(task(301)));
        assert!(store.ready(vec!["r".parse().unwrap()]).await.unwrap().len() <= 256, "a bounded look");
    }

    async fn a_number_of_the_feed_is_never_given_twice(opened) {
        let store = &opened.store;
        store.submit(new(1, spec("r", "x")), at(0)).await.unwrap();
        let verb = |task: &mut crate::lifecycle::Task| task.cancel(at(1).at);
        store.update(Target::Task(task(1)), Durability::Power, at(1), verb).await.unwrap();
        let all = at(10).at;
        let old = Prune { tasks_before: all, output_before: all, idempotency_before: all, workers_before: all, history_before: all };
        while store.prune(old).await.unwrap() > 0 {}
        assert_eq!(store.newest_feed().await.unwrap(), 2);
        store.submit(new(2, spec("r", "x")), at(20)).await.unwrap();
        let after: Vec<_> = store.feed(Vec::new(), 2, 10).await.unwrap().iter().map(|event| event.number).collect();
        assert_eq!(after, [3]);
    }
}
