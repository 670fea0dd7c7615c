//! Claims about the workers.

use protocol::{KeyId, LeaseRequest, Timestamp, WorkerId, WorkerInfo, WorkerState};

use super::{MAX_OF_KEY, NotItsKey, Workers};

fn request(number: u128) -> LeaseRequest {
    let worker = WorkerInfo {
        id: WorkerId::new(0, number),
        version: String::new(),
        runs: Vec::new(),
        confinement: Vec::new(),
        slots: 1,
        state: WorkerState::Ready,
        why: None,
    };
    LeaseRequest { worker, repos: Vec::new(), wait_s: 0 }
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms)
}

#[test]
fn nobody_speaks_for_a_worker_but_with_its_key() {
    let workers = Workers::default();
    workers.seen(&request(1), KeyId::new(0, 1), at(0)).unwrap();
    let mut gone = request(1);
    gone.worker.state = WorkerState::Gone;
    assert_eq!(workers.seen(&gone, KeyId::new(0, 2), at(1)), Err(NotItsKey));
    assert_eq!(workers.views(&[], at(2))[0].state, WorkerState::Ready);
    workers.seen(&gone, KeyId::new(0, 1), at(3)).unwrap();
    assert_eq!(workers.views(&[], at(4))[0].state, WorkerState::Gone);
}

#[test]
fn one_key_fills_only_its_own_room() {
    let workers = Workers::default();
    workers.seen(&request(0), KeyId::new(0, 1), at(0)).unwrap();
    for number in 1..=2 * MAX_OF_KEY as u128 {
        workers.seen(&request(number), KeyId::new(0, 2), at(1)).unwrap();
    }
    let views = workers.views(&[], at(2));
    assert_eq!(views.len(), MAX_OF_KEY + 1);
    assert!(views.iter().any(|view| view.id == WorkerId::new(0, 0)), "another key's worker is still known");
}

#[test]
fn a_worker_that_was_not_heard_of_for_long_is_gone() {
    let workers = Workers::default();
    workers.seen(&request(1), KeyId::new(0, 1), at(0)).unwrap();
    assert_eq!(workers.views(&[], at(90_000))[0].state, WorkerState::Ready);
    assert_eq!(workers.views(&[], at(90_001))[0].state, WorkerState::Gone);
    workers.heard_of(WorkerId::new(0, 1), at(90_002));
    assert_eq!(workers.views(&[WorkerId::new(0, 1)], at(90_003))[0].running, 1);
}
