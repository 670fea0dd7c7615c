//! `cw list`: the newest tasks, by page or all of them.

use protocol::task::Page;
use protocol::{RepoName, SessionName, TaskState, TaskView, Timestamp, WorkerId};

use super::{Context, pair};
use crate::client::{Client, PageQuery, Received};
use crate::clock;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::{Mark, Output};
use crate::table::{Table, age};

const LARGEST_PAGE: u32 = 500;
const STATE_COLUMN: usize = 2;

/// What `list` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only tasks of this repo
    #[arg(long)]
    repo: Option<RepoName>,
    /// Only tasks in this state: queued, running, completed, timed_out, cancelled or failed
    #[arg(long, value_parser = state)]
    state: Option<TaskState>,
    /// Only tasks of this session
    #[arg(long)]
    session: Option<SessionName>,
    /// Only tasks with this label
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    label: Option<(String, String)>,
    /// Only tasks whose newest attempt this worker has or had
    #[arg(long)]
    worker: Option<WorkerId>,
    /// How many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_PAGE)))]
    limit: u32,
    /// Go on where the last page ended
    #[arg(long, conflicts_with = "all")]
    cursor: Option<String>,
    /// All of them, page after page (with --json a line for each page)
    #[arg(short, long, conflicts_with = "limit")]
    all: bool,
}

fn state(word: &str) -> std::result::Result<TaskState, String> {
    TaskState::from_word(word).ok_or_else(|| {
        let words: Vec<&str> = TaskState::ALL.iter().map(|state| state.as_str()).collect();
        format!("expected one of {}", words.join(", "))
    })
}

impl Args {
    fn query(&self) -> PageQuery {
        let filters = [
            ("repo", self.repo.as_ref().map(ToString::to_string)),
            ("state", self.state.map(|state| state.as_str().to_owned())),
            ("session", self.session.as_ref().map(ToString::to_string)),
            ("label", self.label.as_ref().map(|(name, value)| format!("{name}={value}"))),
            ("worker", self.worker.map(|worker| worker.to_string())),
        ];
        PageQuery {
            filters: filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            limit: if self.all { LARGEST_PAGE } else { self.limit },
            cursor: self.cursor.clone(),
        }
    }
}

/// Lists tasks.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let client = context.connect()?;
    let mut query = args.query();
    let mut is_first = true;
    loop {
        let page = show_page(&client, &mut context.out, &query, is_first).await?;
        is_first = false;
        match &page.next_cursor {
            Some(cursor) if args.all => query.cursor = Some(cursor.clone()),
            Some(cursor) => {
                context.out.chat(&format!("there are more: --all, or --cursor {cursor}"));
                return Ok(Exit::DONE);
            }
            None => return Ok(Exit::DONE),
        }
    }
}

async fn show_page(
    client: &Client,
    out: &mut Output,
    query: &PageQuery,
    is_first: bool,
) -> Result<Received<Page<TaskView>>> {
    let page = client.tasks(query).await?;
    if out.json() {
        out.value(&page)?;
    } else if out.quiet() {
        let ids: String = page.items.iter().map(|task| format!("{}\n", task.row.id)).collect();
        out.bytes(ids.as_bytes())?;
    } else if page.items.is_empty() {
        out.talk(match (is_first, query.filters.is_empty()) {
            (true, true) => "no tasks; send one with `cw send REPO --shell 'echo hello'`",
            (true, false) => "no tasks match",
            (false, _) => "no more tasks",
        });
    } else {
        let text = table(&page.items, clock::now()).render(out.width(), |column, cell| paint(out, column, cell));
        out.bytes(text.as_bytes())?;
    }
    Ok(page)
}

fn table(tasks: &[TaskView], now: Timestamp) -> Table {
    let mut table = Table::new(&["TASK", "REPO", "STATE", "AGE", "TRY", "LABELS", "RUN"]);
    for task in tasks {
        let row = &task.row;
        let state = match row.reason.map(|reason| reason.as_str()) {
            Some(reason) if reason != "ok" && reason != row.state.as_str() => format!("{} {reason}", row.state),
            _ => row.state.to_string(),
        };
        table.row([
            row.id.to_string(),
            row.repo.to_string(),
            state,
            age(now, row.created_at),
            row.attempt.to_string(),
            super::get::labels(&row.labels),
            super::get::summary(&task.spec.run),
        ]);
    }
    table
}

fn paint(out: &Output, column: usize, cell: &str) -> Option<String> {
    let mark = match cell.split(' ').next() {
        Some("completed") => Mark::Good,
        Some("failed" | "timed_out") => Mark::Bad,
        Some("running") => Mark::Busy,
        _ => return None,
    };
    (column == STATE_COLUMN).then(|| out.mark(mark, cell))
}
