//! The queue as a naive program: lists that are searched from end to end. It shares no code with the rules or the store.

use protocol::spec::Priority;
use protocol::{Outcome, Reason};

pub(super) struct Model {
    pub(super) now: i64,
    pub(super) tasks: Vec<Entry>,
    turns: Vec<(usize, u64)>,
    next_turn: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) repo: usize,
    pub(super) priority: Priority,
    pub(super) is_shell: bool,
    pub(super) session: Option<usize>,
    pub(super) retries: bool,
    pub(super) max_attempts: u32,
    pub(super) place: Place,
    pub(super) attempt: u32,
    pub(super) counted: u32,
    pub(super) releases: u32,
    pub(super) is_cancelled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Waiting { until: Option<i64>, ended: Option<(u128, Ended)> },
    Leased { lease: u128, until: i64, renewed: bool },
    Over { reason: Reason, ended: Option<(u128, Ended)> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Reported,
    Released,
    Lapsed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Accepted,
    Lost,
    TooLate,
}

impl Model {
    pub(super) fn new() -> Self {
        Self { now: 0, tasks: Vec::new(), turns: Vec::new(), next_turn: 1 }
    }

    /// Which task a worker gets, if any; it is leased then.
    pub(super) fn lease(&mut self, lease: u128, repos: &[usize], runs_shell: bool) -> Option<usize> {
        let turn = |repo: usize| self.turns.iter().find(|(known, _)| *known == repo).map_or(0, |(_, turn)| *turn);
        let fits = |place: &usize| {
            let task = &self.tasks[*place];
            repos.contains(&task.repo) && (runs_shell || !task.is_shell) && self.is_ready(*place)
        };
        let best = (0..self.tasks.len()).filter(fits).min_by_key(|place| {
            let task = &self.tasks[*place];
            (task.priority, turn(task.repo), *place)
        })?;
        let repo = self.tasks[best].repo;
        self.turns.retain(|(known, _)| *known != repo);
        self.turns.push((repo, self.next_turn));
        self.next_turn += 1;
        let task = &mut self.tasks[best];
        task.attempt += 1;
        task.place = Place::Leased { lease, until: self.now + 10_000, renewed: false };
        Some(best)
    }

    fn is_ready(&self, place: usize) -> bool {
        let task = &self.tasks[place];
        let waits_freely = |task: &Entry| matches!(task.place, Place::Waiting { until: None, .. });
        if !waits_freely(task) {
            return false;
        }
        let Some(session) = task.session else { return true };
        let rivals = self
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, rival)| (rival.repo, rival.session) == (task.repo, Some(session)));
        let is_first = |(other, rival): (usize, &Entry)| match rival.place {
            Place::Leased { .. } => false,
            Place::Waiting { until: None, .. } => (task.priority, place) <= (rival.priority, other),
            Place::Waiting { until: Some(_), .. } | Place::Over { .. } => true,
        };
        rivals.into_iter().all(is_first)
    }

    fn of_lease(&self, lease: u128) -> Option<usize> {
        self.tasks.iter().position(|task| match task.place {
            Place::Leased { lease: known, .. } => known == lease,
            Place::Waiting { ended, .. } | Place::Over { ended, .. } => ended.is_some_and(|(known, _)| known == lease),
        })
    }

    pub(super) fn renew(&mut self, lease: u128) -> Said {
        let now = self.now;
        let Some(place) = self.of_lease(lease) else { return Said::Lost };
        let Place::Leased { until, .. } = self.tasks[place].place else { return Said::Lost };
        self.tasks[place].place = Place::Leased { lease, until: until.max(now + 30_000), renewed: true };
        Said::Accepted
    }

    pub(super) fn report(&mut self, lease: u128, outcome: &Outcome) -> Said {
        let now = self.now;
        let Some(place) = self.of_lease(lease) else { return Said::Lost };
        let task = &mut self.tasks[place];
        match task.place {
            Place::Leased { .. } => {}
            Place::Waiting { ended, .. } | Place::Over { ended, .. } => {
                return if ended == Some((lease, Ended::Reported)) { Said::Accepted } else { Said::Lost };
            }
        }
        let reason = outcome.reason();
        let is_retried = reason == Reason::SetupFailed || (task.retries && reason == Reason::ExitNonzero);
        if is_retried {
            task.counted += 1;
        }
        let backoff = (task.retries && reason == Reason::ExitNonzero).then_some(now + 7_000);
        let ended = Some((lease, Ended::Reported));
        task.place = if task.is_cancelled {
            Place::Over { reason: Reason::Cancelled, ended }
        } else if is_retried && task.counted < task.max_attempts {
            Place::Waiting { until: backoff, ended }
        } else {
            Place::Over { reason, ended }
        };
        Said::Accepted
    }

    pub(super) fn release(&mut self, lease: u128) -> Said {
        let Some(place) = self.of_lease(lease) else { return Said::Lost };
        let task = &mut self.tasks[place];
        match task.place {
            Place::Leased { .. } => {}
            Place::Waiting { ended, .. } | Place::Over { ended, .. } => {
                return if ended == Some((lease, Ended::Released)) { Said::Accepted } else { Said::Lost };
            }
        }
        task.releases += 1;
        let costs = task.releases > 10;
        give_back(task, lease, Ended::Released, costs);
        Said::Accepted
    }

    pub(super) fn cancel(&mut self, place: usize) -> Said {
        let task = &mut self.tasks[place];
        match task.place {
            Place::Waiting { ended, .. } => {
                task.is_cancelled = true;
                task.place = Place::Over { reason: Reason::Cancelled, ended };
                Said::Accepted
            }
            Place::Leased { .. } => {
                task.is_cancelled = true;
                Said::Accepted
            }
            Place::Over { reason: Reason::Cancelled, .. } => Said::Accepted,
            Place::Over { .. } => Said::TooLate,
        }
    }

    pub(super) fn tend(&mut self) {
        for task in &mut self.tasks {
            match task.place {
                Place::Leased { lease, until, renewed } if until <= self.now => {
                    give_back(task, lease, Ended::Lapsed, renewed);
                }
                Place::Waiting { until: Some(until), ended } if until <= self.now => {
                    task.place = Place::Waiting { until: None, ended };
                }
                Place::Waiting { .. } | Place::Leased { .. } | Place::Over { .. } => {}
            }
        }
    }
}

fn give_back(task: &mut Entry, lease: u128, how: Ended, costs: bool) {
    let ended = Some((lease, how));
    task.counted += u32::from(costs);
    task.place = if task.is_cancelled {
        Place::Over { reason: Reason::Cancelled, ended }
    } else if costs && task.counted >= task.max_attempts {
        Place::Over { reason: Reason::LeaseLost, ended }
    } else {
        Place::Waiting { until: None, ended }
    };
}
