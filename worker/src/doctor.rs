//! `cw-worker doctor`: builds the confinement that tasks would get and tries every wall of it. Needs no coordinator, takes
//! no task, and leaves nothing behind; a worker that runs meanwhile is not disturbed.

use std::fs;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use crate::config::{WallArgs, Walls};
use crate::confinement::advice::{self, Machine};
use crate::confinement::{Confinement, Level, probe};
use crate::language::Tools;
use crate::process::Family;
use crate::state::StateDir;
use crate::{directory, state};

mod languages;
mod table;

/// The flags of `cw-worker doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// What decides the confinement
    #[command(flatten)]
    pub walls: WallArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Leave out the languages: for a health check
    #[arg(long)]
    pub quick: bool,
}

/// One wall, and what to do when it does not stand.
#[derive(Debug, Clone, Serialize)]
struct Row {
    layer: String,
    holds: bool,
    /// Whether a worker refuses to start without it.
    required: bool,
    seen: String,
    fix: Option<String>,
}

impl Row {
    fn new(layer: &str, required: bool, result: Result<String, String>) -> Self {
        let fix = result.as_ref().err().map(|seen| advice::for_layer(layer, seen).to_owned());
        let holds = result.is_ok();
        Self { layer: layer.to_owned(), holds, required, seen: result.unwrap_or_else(|why| why), fix }
    }

    /// A wall of this level. For one that the level never has, the fix is another level.
    fn of(level: Level, layer: &str, result: Result<String, String>) -> Self {
        let row = Self::new(layer, level.required().contains(&layer), result);
        let fix = row.fix.map(|fix| level.way_to(layer).map_or(fix, str::to_owned));
        Self { fix, ..row }
    }

    /// The confinement could not even be built: the step that failed, and what to do about it.
    fn not_built(error: &anyhow::Error) -> Self {
        let seen = format!("{error:#}");
        let fix = Some(advice::for_failure(&seen, &Machine::look()));
        Self { layer: "confinement".into(), holds: false, required: true, seen, fix }
    }
}

/// Tries everything, prints what was found. 0: the minimum holds; 1: it does not.
///
/// # Errors
/// When a flag is wrong, or nothing can be printed.
pub async fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let walls = Walls::new(&args.walls)?;
    let level = Level::decide(walls.confinement, rustix::process::getuid().is_root())?;
    let tools = Tools::find(&walls)?;
    let rows = match examine(&walls, &tools, args.quick).await {
        Ok(rows) => rows,
        Err(error) => vec![Row::not_built(&error)],
    };
    let is_well = rows.iter().all(|row| row.holds || !row.required);
    let text = if args.json {
        serde_json::to_string_pretty(&serde_json::json!({"ok": is_well, "level": level.word(), "layers": rows}))? + "\n"
    } else {
        table::text(&rows, is_well, level)
    };
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).context("cannot print")?;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Works in a directory of its own below the worker's, so that it is on the same disk.
async fn examine(walls: &Walls, tools: &Tools, is_quick: bool) -> anyhow::Result<Vec<Row>> {
    state::sweep_doctors(&walls.state_dir);
    let place = state::place_of_doctor(&walls.state_dir)?;
    let examined = match StateDir::open(&place) {
        Ok(state) => look(walls, &state, tools, is_quick).await,
        Err(error) => Err(error),
    };
    if fs::exists(&place).unwrap_or(false) {
        directory::remove(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    examined
}

async fn look(walls: &Walls, state: &StateDir, tools: &Tools, is_quick: bool) -> anyhow::Result<Vec<Row>> {
    state.run_program()?;
    let family = Arc::new(Family::found().context("cannot become a reaper of processes")?);
    let confinement = Arc::new(Confinement::found(walls, state)?);
    let tried = probe::probe(&confinement, &family).await?;
    let mut rows: Vec<Row> = tried
        .into_iter()
        .map(|tried| {
            let result = if tried.holds { Ok(tried.seen) } else { Err(tried.seen) };
            Row::of(confinement.level(), &tried.layer, result)
        })
        .collect();
    if !is_quick {
        rows.extend(languages::try_all(&confinement, &family, tools).await);
    }
    Ok(rows)
}
