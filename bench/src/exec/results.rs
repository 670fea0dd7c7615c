//! Submit to the result being readable over HTTP, with a worker that has nothing else to do. Bare programs take their turn
//! in each round, to tell what the task itself takes.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};

use super::starts::spawn;
use super::task::{Client, spec};
use crate::coordinator::{Coordinator, REPO};
use crate::percentile::Spread;

/// Where the worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// On this machine, as bare programs are.
    Here,
    /// Inside gVisor, where bare programs take their own time.
    InGvisor,
}

impl Where {
    /// How long the worker is left alone before each task, so that its walls stand again.
    const fn park(self) -> Duration {
        Duration::from_millis(if matches!(self, Self::Here) { 60 } else { 500 })
    }
}

/// Rounds before those that count.
const WARM_UP: usize = 2;

/// Every kind of task, and every bare program.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(super) rows: Vec<Row>,
}

/// One kind.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(super) name: &'static str,
    pub(super) took: Spread,
    /// What of it is the program's own: the median of this row.
    pub(super) bare: Option<&'static str>,
}

impl Results {
    /// The times of one row.
    pub(super) fn took(&self, name: &str) -> Option<Spread> {
        self.rows.iter().find(|row| row.name == name).map(|row| row.took)
    }
}

/// The rows whose times the others are compared with.
pub(super) const BARE_PYTHON: &str = "bare python3 -c pass";
const BARE_NODE: &str = "bare node -e 0";

struct Kind {
    name: &'static str,
    spec: Value,
    bare: Option<&'static str>,
    took: Vec<Duration>,
}

fn kinds() -> Vec<Kind> {
    let kind = |name, bare, spec| Kind { name, spec, bare, took: Vec::new() };
    let (python, javascript) = ("def handler(event):\n    return event", "exports.handler = event => event");
    let event = || Some(json!({"n": 1}));
    vec![
        kind("shell task", None, spec(REPO, "shell", ":", None)),
        kind("Python task", Some(BARE_PYTHON), spec(REPO, "python", "pass", None)),
        kind("Python handler(event)", Some(BARE_PYTHON), spec(REPO, "python", python, event())),
        kind("JavaScript handler(event)", Some(BARE_NODE), spec(REPO, "javascript", javascript, event())),
    ]
}

/// Runs a task of each kind in turn, so many times.
pub(super) async fn measure(coordinator: &Coordinator, place: Where, rounds: usize) -> Result<Results> {
    let bare = [(BARE_PYTHON, ["/usr/bin/python3", "-c", "pass"]), (BARE_NODE, ["/usr/bin/node", "-e", "0"])];
    let mut bare = bare.map(|(name, argv)| (name, argv.map(str::to_owned), Vec::new()));
    let (mut client, mut kinds) = (Client::open(coordinator).await?, kinds());
    for round in 0..WARM_UP + rounds {
        for kind in &mut kinds {
            tokio::time::sleep(place.park()).await;
            let took = client.run(&kind.spec).await?.took;
            kind.took.extend((round >= WARM_UP).then_some(took));
        }
        tokio::time::sleep(place.park()).await;
        for (_, argv, took) in bare.iter_mut().filter(|_| place == Where::Here) {
            let time = spawn(argv)?;
            took.extend((round >= WARM_UP).then_some(time));
        }
    }
    let kinds = kinds.into_iter().map(|kind| (kind.name, kind.bare, kind.took));
    let bare = bare.into_iter().map(|(name, _, took)| (name, None, took));
    let rows = kinds.chain(bare).filter_map(|(name, bare, took)| Some(Row { name, took: Spread::of(took)?, bare }));
    Ok(Results { rows: rows.collect() })
}
