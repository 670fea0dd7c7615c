//! Random sequences of verbs, on which the rules, the model and the store must agree after every step.

use std::collections::BTreeSet;

use proptest::prelude::*;
use protocol::spec::{Priority, Retry, Run, Spec};
use protocol::{KeyId, LeaseId, Outcome, Reason, Report, TaskId, TaskState};

use super::model::{Entry, Model, Place, Said};
use super::{Opened, ask, at, new, open_sqlite};
use crate::lifecycle::{Change, Files, Holder, Lease, Rejected, State, Task};
use crate::store::{Durability, StoreError, Target};

#[derive(Debug, Clone)]
enum Step {
    Submit { repo: usize, priority: usize, is_shell: bool, session: Option<usize>, retries: bool, max_attempts: u32 },
    Lease { both_repos: bool, runs_shell: bool },
    Renew { lease: usize },
    Report { lease: usize, outcome: usize },
    Release { lease: usize },
    Steal { lease: usize },
    Cancel { task: usize },
    Wait { ms: i64 },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let submit = (0..2usize, 0..4usize, any::<bool>(), prop::option::of(0..2usize), any::<bool>(), 1..3u32).prop_map(
        |(repo, priority, is_shell, session, retries, max_attempts)| Step::Submit {
            repo,
            priority,
            is_shell,
            session,
            retries,
            max_attempts,
        },
    );
    let lease =
        (any::<bool>(), any::<bool>()).prop_map(|(both_repos, runs_shell)| Step::Lease { both_repos, runs_shell });
    prop_oneof![
        4 => submit,
        6 => lease,
        4 => (0..40usize).prop_map(|lease| Step::Renew { lease }),
        4 => (0..40usize, 0..4usize).prop_map(|(lease, outcome)| Step::Report { lease, outcome }),
        3 => (0..40usize).prop_map(|lease| Step::Release { lease }),
        1 => (0..40usize).prop_map(|lease| Step::Steal { lease }),
        2 => (0..40usize).prop_map(|task| Step::Cancel { task }),
        3 => (0..40_000i64).prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::Restart),
    ]
}

/// The three that must agree.
struct Parties {
    opened: Opened,
    model: Model,
    rules: Vec<Task>,
    leases: Vec<(u128, usize)>,
}

const REPOS: [&str; 2] = ["a", "b"];

fn outcome(number: usize) -> Outcome {
    match number {
        0 => Outcome::Exited { code: 0 },
        1 => Outcome::Exited { code: 1 },
        2 => Outcome::SetupFailed { detail: "no disk".into() },
        _ => Outcome::Timeout,
    }
}

fn said(result: &Result<Change, Rejected>) -> Said {
    match result {
        Ok(_) => Said::Accepted,
        Err(Rejected::AlreadyDone(_)) => Said::TooLate,
        Err(Rejected::LeaseLost | Rejected::NotQueued) => Said::Lost,
    }
}

impl Parties {
    /// A lease that was given at some time, whether it lives or not; one that was never given when there is none.
    fn pick(&self, lease: usize) -> (u128, Option<usize>, KeyId) {
        match self.leases.len() {
            0 => (999, None, super::KEY),
            count => {
                let (number, task) = self.leases[lease % count];
                (number, Some(task), super::KEY)
            }
        }
    }

    /// Lets the store and the rules do the same to the task of a lease, and compares what they say.
    async fn say(
        &mut self,
        (number, task, key): (u128, Option<usize>, KeyId),
        expected: Said,
        verb: impl Fn(&mut Task, Holder) -> Result<Change, Rejected> + Clone + Send + 'static,
        report: Option<Outcome>,
    ) {
        let holder = Holder { lease: LeaseId::new(0, number), key };
        let now = at(self.model.now);
        let store = &self.opened.store;
        let by_store = match report {
            Some(outcome) => store.report(holder, Box::new(Report::new(outcome)), super::rules(), now).await,
            None => {
                let verb = verb.clone();
                store.update(Target::Lease(holder), Durability::Process, now, move |task| verb(task, holder)).await
            }
        };
        let by_rules = task.map_or(Err(Rejected::LeaseLost), |task| verb(&mut self.rules[task], holder));
        assert_eq!(said(&by_rules), expected, "the rules and the model");
        assert_eq!(by_store.is_ok(), expected == Said::Accepted, "the store and the model");
    }

    async fn take(&mut self, step: Step) {
        let now = at(self.model.now).at;
        match step {
            Step::Submit { .. } => self.submit(step).await,
            Step::Lease { both_repos, runs_shell } => self.lease(both_repos, runs_shell).await,
            Step::Renew { lease } => {
                let picked = self.pick(lease);
                let expected = self.model.renew(picked.0);
                self.say(picked, expected, move |task, holder| task.renew(holder, now.plus_s(30)), None).await;
            }
            Step::Report { lease, outcome: number } => {
                let picked = self.pick(lease);
                let expected = self.model.report(picked.0, &outcome(number));
                let verb = move |task: &mut Task, holder| task.report(now, holder, &outcome(number), Files::Fine);
                self.say(picked, expected, verb, Some(outcome(number))).await;
            }
            Step::Release { lease } => {
                let picked = self.pick(lease);
                let expected = self.model.release(picked.0);
                self.say(picked, expected, move |task, holder| task.release(now, holder), None).await;
            }
            Step::Steal { lease } => {
                let (number, task, _) = self.pick(lease);
                let verb = move |task: &mut Task, holder| task.report(now, holder, &outcome(0), Files::Fine);
                self.say((number, task, KeyId::new(0, 2)), Said::Lost, verb, Some(outcome(0))).await;
            }
            Step::Cancel { task } => self.cancel(task).await,
            Step::Wait { ms } => self.wait(ms).await,
            Step::Restart => {
                let Self { opened, model, rules, leases } = std::mem::replace(self, Self::new());
                *self = Self { opened: opened.reopen().await, model, rules, leases };
            }
        }
    }

    fn new() -> Self {
        Self { opened: open_sqlite(), model: Model::new(), rules: Vec::new(), leases: Vec::new() }
    }

    async fn submit(&mut self, step: Step) {
        let Step::Submit { repo, priority, is_shell, session, retries, max_attempts } = step else { return };
        let code = String::from("x");
        let run = if is_shell { Run::Shell { code } } else { Run::Python { code } };
        let retry = retries.then(|| Retry { on: BTreeSet::from([Reason::ExitNonzero]), backoff_s: 7 });
        let spec = Spec {
            priority: Priority::ALL[priority],
            session: session.map(|session| format!("{}{session}", REPOS[repo]).parse().unwrap()),
            retry: retry.clone(),
            max_attempts: Some(max_attempts),
            ..Spec::new(REPOS[repo].parse().unwrap(), run)
        };
        let number = self.rules.len() as u128;
        self.opened.store.submit(new(number, spec), at(self.model.now)).await.unwrap();
        self.rules.push(Task::new(false, max_attempts, retry));
        self.model.tasks.push(Entry {
            repo,
            priority: Priority::ALL[priority],
            is_shell,
            session,
            retries,
            max_attempts,
            place: Place::Waiting { until: None, ended: None },
            attempt: 0,
            counted: 0,
            releases: 0,
            is_cancelled: false,
        });
    }

    async fn lease(&mut self, both_repos: bool, runs_shell: bool) {
        let number = self.leases.len() as u128;
        let repos: &[usize] = if both_repos { &[0, 1] } else { &[1] };
        let names: Vec<_> = repos.iter().map(|repo| REPOS[*repo]).collect();
        let runs: &[&str] = if runs_shell { &["python", "session", "shell"] } else { &["python", "session"] };
        let expected = self.model.lease(number, repos, runs_shell);
        let now = at(self.model.now);
        let leased = self.opened.store.lease(ask(number, &names, runs), now).await.unwrap();
        let got = leased.map(|leased| leased.grant.task);
        assert_eq!(got, expected.map(|place| TaskId::new(0, place as u128)), "which task is next");
        if let Some(place) = expected {
            let lease = Lease {
                id: LeaseId::new(0, number),
                key: super::KEY,
                worker: super::worker(&[]).id,
                expires_at: now.at.plus_s(10),
                is_renewed: false,
            };
            // Holds of sessions are the store's; of instants, the rules' own.
            self.rules[place].state = State::Queued { hold: None };
            self.rules[place].lease(now.at, lease).unwrap();
            self.leases.push((number, place));
        }
    }

    async fn cancel(&mut self, task: usize) {
        if self.rules.is_empty() {
            return;
        }
        let place = task % self.rules.len();
        let expected = self.model.cancel(place);
        let now = at(self.model.now);
        let verb = move |task: &mut Task| task.cancel(now.at);
        let id = TaskId::new(0, place as u128);
        let by_store = self.opened.store.update(Target::Task(id), Durability::Process, now, verb).await;
        assert_eq!(said(&verb(&mut self.rules[place])), expected);
        let is_late = matches!(by_store, Err(StoreError::Rejected(Rejected::AlreadyDone(_))));
        assert_eq!((by_store.is_ok(), is_late), (expected == Said::Accepted, expected == Said::TooLate));
    }

    async fn wait(&mut self, ms: i64) {
        self.model.now += ms;
        let now = at(self.model.now);
        self.model.tend();
        self.opened.store.tend(now).await.unwrap();
        for task in &mut self.rules {
            task.lapse(now.at).unwrap();
        }
    }

    async fn compare(&self) {
        for (place, entry) in self.model.tasks.iter().enumerate() {
            let row = self.opened.store.task(TaskId::new(0, place as u128)).await.unwrap().unwrap().row;
            let (state, reason) = match entry.place {
                Place::Waiting { .. } => (TaskState::Queued, None),
                Place::Leased { .. } => (TaskState::Running, None),
                Place::Over { reason, .. } => (reason.state(), Some(reason)),
            };
            assert_eq!((row.state, row.reason, row.attempt), (state, reason, entry.attempt), "the store, task {place}");
            let rules = &self.rules[place];
            let by_rules = (rules.visible(), rules.attempt, rules.counted, rules.releases);
            assert_eq!(by_rules, (state, entry.attempt, entry.counted, entry.releases), "the rules, task {place}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_a_model_and_the_store_agree_on_every_sequence_of_verbs(steps in prop::collection::vec(step(), 1..60)) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let mut parties = Parties::new();
            for step in steps {
                parties.take(step).await;
                parties.compare().await;
            }
        });
    }
}
