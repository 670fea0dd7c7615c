//! Spawn to exit of a program: bare, behind the walls of others, and behind ours. All of them take turns in each round, so
//! that a busy moment hits all alike.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::trial::{Place, Trial};
use super::walls::Wall;
use crate::percentile::Spread;

/// The programs, by what they are called in the table.
const PROGRAMS: [(&str, &[&str]); 2] =
    [("/bin/true", &["/bin/true"]), ("python3 -c pass", &["/usr/bin/python3", "-c", "pass"])];

/// What the programs get of the environment.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Rounds before those that count.
const WARM_UP: usize = 2;

/// A breath between two starts. Whoever interrupts is heard here.
const BREATH: Duration = Duration::from_millis(2);

/// One program, started in every way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Starts {
    pub(super) program: String,
    pub(super) rows: Vec<Row>,
}

/// One way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(super) name: String,
    /// The walls that it belongs to.
    pub(super) of: String,
    /// None when it cannot be done here.
    pub(super) took: Option<Spread>,
    /// Why not, and how to get it.
    pub(super) missing: Option<String>,
}

impl Starts {
    /// The times of one way, when it was measured.
    pub(super) fn took(&self, name: &str) -> Option<Spread> {
        self.rows.iter().find(|row| row.name == name)?.took
    }
}

/// Starts every program in every way, so many times.
pub(super) async fn measure(worker: &Path, room: &Path, others: &[Wall], rounds: usize) -> Result<Vec<Starts>> {
    let mut programs = Vec::new();
    for (name, argv) in PROGRAMS {
        programs.push((name, contenders(worker, &room.join(argv.len().to_string()), others, argv)?));
    }
    for round in 0..WARM_UP + rounds {
        for contender in programs.iter_mut().flat_map(|(_, contenders)| contenders) {
            tokio::time::sleep(BREATH).await;
            contender.round(round >= WARM_UP)?;
        }
    }
    let rows = |contenders: Vec<Contender>| contenders.into_iter().flat_map(Contender::rows).collect();
    Ok(programs.into_iter().map(|(name, found)| Starts { program: name.to_owned(), rows: rows(found) }).collect())
}

/// One that takes its turn in each round, and the times of each of its rows.
struct Contender {
    of: &'static str,
    names: Vec<String>,
    way: Way,
    took: Vec<Vec<Duration>>,
}

enum Way {
    Spawn(Vec<String>),
    Ours(Trial),
    Missing(String),
}

fn contenders(worker: &Path, room: &Path, others: &[Wall], argv: &[&str]) -> Result<Vec<Contender>> {
    let argv: Vec<String> = argv.iter().map(|&word| word.to_owned()).collect();
    let behind = |wall: &Wall| {
        let way = match &wall.arguments {
            Ok(before) => Way::Spawn(before.iter().chain(&argv).cloned().collect()),
            Err(how_to_get) => Way::Missing(how_to_get.clone()),
        };
        Contender::new(wall.name, vec![wall.name.to_owned()], way)
    };
    let mut found: Vec<Contender> = others.iter().map(behind).collect();
    for (cgroup, name) in [("require", "ours"), ("off", "ours without cgroups")] {
        let names = ["walls ready", "cold", "whole"].map(|part| format!("{name}, {part}"));
        let state = room.join(cgroup);
        let mut trial = Trial::start(&Place { worker, state: &state, cgroup }, &argv)?;
        let way = match trial.round() {
            Ok(_) => Way::Ours(trial),
            Err(error) if cgroup == "require" => Way::Missing(format!("{error:#}")),
            Err(error) => return Err(error),
        };
        found.push(Contender::new(name, names.to_vec(), way));
    }
    Ok(found)
}

impl Contender {
    fn new(of: &'static str, names: Vec<String>, way: Way) -> Self {
        let took = names.iter().map(|_| Vec::new()).collect();
        Self { of, names, way, took }
    }

    fn round(&mut self, counts: bool) -> Result<()> {
        let times = match &mut self.way {
            Way::Spawn(argv) => vec![spawn(argv)?],
            Way::Ours(trial) => trial.round()?.times().to_vec(),
            Way::Missing(_) => return Ok(()),
        };
        if counts {
            self.took.iter_mut().zip(times).for_each(|(took, time)| took.push(time));
        }
        Ok(())
    }

    fn rows(self) -> Vec<Row> {
        let missing = if let Way::Missing(why) = &self.way { Some(why.clone()) } else { None };
        let rows = self.names.into_iter().zip(self.took);
        rows.map(|(name, took)| Row { name, of: self.of.to_owned(), took: Spread::of(took), missing: missing.clone() })
            .collect()
    }
}

/// How long a program takes from its spawn until it was waited for.
pub(super) fn spawn(argv: &[String]) -> Result<Duration> {
    let (program, arguments) = argv.split_first().context("no program")?;
    let mut command = Command::new(program);
    // What a person has set, such as certificates that node reads at its start, is no part of the figure.
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let began = Instant::now();
    let status = command.spawn().with_context(|| format!("starting {program}"))?.wait()?;
    let took = began.elapsed();
    ensure!(status.success(), "`{}` ended with {status}", argv.join(" "));
    Ok(took)
}
