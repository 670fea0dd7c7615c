use super::*;

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn repo(queued: u64, paused: bool) -> RepoView {
    RepoView { repo: "rhizome".parse().unwrap(), agent: None, max_running: None, paused, queued, running: 0 }
}

fn worker(state: WorkerState, repo: &str) -> WorkerView {
    WorkerView {
        id: protocol::WorkerId::new(1, 1),
        repos: vec![repo.parse().unwrap()],
        version: "0.1.0".to_owned(),
        slots: 1,
        running: 0,
        runs: vec![],
        confinement: vec![],
        last_seen_at: Timestamp::from_ms(0),
        state,
        why: None,
    }
}

fn verdicts(workers: &[WorkerView], repos: &[RepoView]) -> Vec<Verdict> {
    let waiting = Waiting { blocked: BTreeMap::new(), key_file: Path::new("key") };
    judge_workers(workers, repos, &waiting).iter().map(|check| check.verdict).collect()
}

#[test]
fn clocks_that_differ_are_wrong() {
    let theirs = Timestamp::from_ms(784_111_777_000);
    assert_eq!(check_clock(Some(DATE), theirs.plus_ms(900)).verdict, Verdict::Ok);
    assert_eq!(check_clock(Some(DATE), theirs.plus_s(60)).verdict, Verdict::Wrong);
    assert_eq!(check_clock(Some(DATE), theirs.plus_ms(-60_000)).verdict, Verdict::Wrong);
    assert_eq!(check_clock(Some("yesterday"), theirs).verdict, Verdict::Note);
    assert_eq!(check_clock(None, theirs).verdict, Verdict::Note);
}

#[test]
fn tasks_that_wait_for_nobody_are_wrong() {
    let elsewhere = [worker(WorkerState::Ready, "other")];
    assert_eq!(verdicts(&elsewhere, &[repo(3, false)]), [Verdict::Ok, Verdict::Wrong]);
    assert_eq!(verdicts(&elsewhere, &[repo(0, false)]), [Verdict::Ok, Verdict::Note]);
    assert_eq!(verdicts(&elsewhere, &[repo(3, true)]), [Verdict::Ok, Verdict::Note]);
    assert_eq!(verdicts(&[worker(WorkerState::Ready, "rhizome")], &[repo(3, false)]), [Verdict::Ok, Verdict::Ok]);
    assert_eq!(verdicts(&[worker(WorkerState::Gone, "rhizome")], &[repo(3, false)]), [Verdict::Wrong]);
}
