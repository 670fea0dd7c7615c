//! `cw send`: makes a task of what was typed, submits it, and waits for it or follows it when asked to.

mod source;
mod spec;

use std::time::Duration;

use protocol::spec::{Network, SessionMode};
use protocol::{Reason, RepoName, SessionName, TaskState, TaskView, Timestamp};

use super::{Context, duration, pair, seconds};
use crate::client::{Client, Received};
use crate::command::wait;
use crate::ending::conclude;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::task_id;
use crate::waiting;
use crate::watch::{Plan, Show, Watched, watch};
use spec::FileToLay;

const EXAMPLES: &str = "\
Examples:
  cw send --wait demo --shell 'echo hello'
  cw send --wait demo --python script.py -- one two
  cw send demo --timeout 10m -- cargo build
  echo 'print(1)' | cw send --follow demo --python -
  cw send --wait demo \"fix the login bug in auth.py\"

Exit codes are listed by `cw --help`.";

/// What `send` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "cw send [OPTIONS] <REPO> <PROMPT>
       cw send [OPTIONS] <REPO> --python <FILE> | --js <FILE> | --shell <CODE> [-- <ARG>...]
       cw send [OPTIONS] <REPO> -- <PROGRAM> [ARG]...")]
pub(crate) struct Args {
    /// The queue that the task waits in
    #[arg(value_parser = repo_name)]
    pub(crate) repo: RepoName,
    /// What the repo's agent is asked to do; `@FILE` reads it from a file, `-` from stdin
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,
    /// A program and its arguments, run without a shell; with --python, --js or --shell the arguments alone
    #[arg(last = true, value_name = "ARGV")]
    pub(crate) argv: Vec<String>,

    /// Run a Python file (`-`: from stdin)
    #[arg(long, value_name = "FILE", help_heading = "What to run")]
    pub(crate) python: Option<String>,
    /// Run a JavaScript file (`-`: from stdin)
    #[arg(long, value_name = "FILE", visible_alias = "javascript", help_heading = "What to run")]
    pub(crate) js: Option<String>,
    /// Run shell code (`@FILE`: from a file, `-`: from stdin)
    #[arg(long, value_name = "CODE", allow_hyphen_values = true, help_heading = "What to run")]
    pub(crate) shell: Option<String>,
    /// The agent for the prompt [default: the repo's]
    #[arg(long, value_name = "NAME", help_heading = "What to run")]
    pub(crate) agent: Option<String>,
    /// The model, in the agent's own spelling
    #[arg(long, help_heading = "What to run")]
    pub(crate) model: Option<String>,
    /// Go on with the conversation of that task
    #[arg(long = "continue", value_name = "TASK", help_heading = "What to run")]
    pub(crate) resume: Option<String>,
    /// An argument for the program; may be repeated
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true, help_heading = "What to run")]
    pub(crate) args: Vec<String>,
    /// Call `handler(event)` with this JSON (`@FILE`: from a file, `-`: from stdin)
    #[arg(long, value_name = "JSON", help_heading = "What to run")]
    pub(crate) event: Option<String>,
    /// What the process reads (`-`: what stdin holds)
    #[arg(long, value_name = "FILE", help_heading = "What to run")]
    pub(crate) stdin: Option<String>,
    /// A variable; without a value it is passed on from here; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]", help_heading = "What to run")]
    pub(crate) env: Vec<String>,
    /// A file that is laid out before the start, by default the local one of that name; may be repeated
    #[arg(long = "file", value_name = "PATH[=LOCAL]", help_heading = "What to run")]
    pub(crate) files: Vec<FileToLay>,
    /// The workspace that the task works in
    #[arg(long, value_name = "NAME", help_heading = "What to run")]
    pub(crate) session: Option<SessionName>,
    /// Whether the task may change that workspace
    #[arg(long, value_name = "MODE", value_parser = word(&["write", "read"], spec::session_mode), help_heading = "What to run")]
    pub(crate) session_mode: Option<SessionMode>,

    /// Wait until the task is done, then print what it wrote; on a terminal while it writes
    #[arg(short, long, help_heading = "Waiting")]
    pub(crate) wait: bool,
    /// Print what the task writes while it writes it (bytes that are no text are replaced)
    #[arg(short, long, help_heading = "Waiting")]
    pub(crate) follow: bool,
    /// Stop waiting after this time, with exit code 124; the task goes on
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Waiting")]
    pub(crate) wait_timeout: Option<Duration>,
    /// End with the task's own exit code
    #[arg(long, help_heading = "Waiting")]
    pub(crate) exit_code: bool,

    /// The deadline, counted from its start, at most 1h (agents 24h) [default: 30s, agents 1h]
    #[arg(
        long,
        value_name = "DURATION",
        env = "CW_TIMEOUT",
        hide_env_values = true,
        help_heading = "When and how often"
    )]
    pub(crate) timeout: Option<String>,
    /// End it when it writes nothing for this long [default: only the deadline counts]
    #[arg(long, value_name = "DURATION", help_heading = "When and how often")]
    pub(crate) idle_timeout: Option<String>,
    /// How urgent it is: critical, high, normal or low [default: normal]
    #[arg(long, env = "CW_PRIORITY", hide_env_values = true, help_heading = "When and how often")]
    pub(crate) priority: Option<String>,
    /// Start it only after this time
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "not_before", help_heading = "When and how often")]
    pub(crate) delay: Option<Duration>,
    /// Start it only after this instant, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", help_heading = "When and how often")]
    pub(crate) not_before: Option<Timestamp>,
    /// How many attempts it has [default: 3]
    #[arg(long, value_name = "N", help_heading = "When and how often")]
    pub(crate) max_attempts: Option<u32>,
    /// The reasons for which a failed task is tried again, such as exit_nonzero,timeout
    #[arg(long, value_name = "REASON,…", value_delimiter = ',', value_parser = spec::reason, help_heading = "When and how often")]
    pub(crate) retry_on: Vec<Reason>,
    /// How long to wait before it is tried again [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = seconds, requires = "retry_on", help_heading = "When and how often")]
    pub(crate) retry_backoff: Option<u32>,
    /// A label to find it by; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair, help_heading = "When and how often")]
    pub(crate) labels: Vec<(String, String)>,
    /// A repeat with the same key and content makes no second task [default: random]
    #[arg(long, value_name = "KEY", help_heading = "When and how often")]
    pub(crate) idempotency_key: Option<String>,

    /// What it may reach
    #[arg(long, value_parser = word(&["none", "restricted"], spec::network), help_heading = "Confinement and limits")]
    pub(crate) network: Option<Network>,
    /// Confinement levels that the worker must have
    #[arg(long, value_name = "LEVEL,…", value_delimiter = ',', help_heading = "Confinement and limits")]
    pub(crate) requires: Vec<String>,
    #[command(flatten)]
    pub(crate) limits: spec::LimitArgs,
}

/// A parser for a closed set of words.
fn word<T: Clone + Send + Sync + 'static>(
    words: &'static [&'static str],
    read: fn(&str) -> T,
) -> impl clap::builder::TypedValueParser<Value = T> {
    use clap::builder::TypedValueParser as _;
    clap::builder::PossibleValuesParser::new(words).map(move |word| read(&word))
}

fn repo_name(text: &str) -> std::result::Result<RepoName, String> {
    text.parse().map_err(|error| format!("{error} (the repo comes first: cw send REPO PROMPT)"))
}

/// Sends the task.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let settings = context.settings.clone()?;
    let (show, timeout, exit_code) = (show(&args, context), args.wait_timeout, args.exit_code);
    let idempotency_key = match &args.idempotency_key {
        Some(key) => key.clone(),
        None => random_key()?,
    };
    let resume = args.resume.clone();
    let mut spec = spec::build(args, &settings)?;
    let client = context.connect()?;
    if let Some(resume) = resume {
        spec::resume(&mut spec, task_id::find(&client, &resume).await?);
    }
    spec.check().map_err(|error| Failure { code: "invalid_field", ..Failure::usage(error.to_string()) })?;
    let task = client.submit(&spec, &idempotency_key).await?;
    match show {
        None => announce(&client, context, &task).await,
        Some(show) => attend(&client, context, &task, Attend { show, timeout, exit_code }).await,
    }
}

/// What is shown while the task runs; nothing at all when nobody waits for it.
fn show(args: &Args, context: &Context) -> Option<Show> {
    let follows = args.follow || (args.wait && context.out.stdout_is_terminal() && !context.out.json());
    match (follows, context.out.json()) {
        (true, true) => Some(Show::Events),
        (true, false) => Some(Show::Output),
        (false, _) => (args.wait || args.wait_timeout.is_some() || args.exit_code).then_some(Show::Nothing),
    }
}

/// 128 random bits, so that a submission that is sent twice is one task.
fn random_key() -> Result<String> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::from(std::io::Error::other(error.to_string())))?;
    Ok(format!("cw-{:032x}", u128::from_be_bytes(bytes)))
}

async fn announce(client: &Client, context: &mut Context, task: &Received<TaskView>) -> Result<Exit> {
    if context.out.json() {
        context.out.value(task)?;
        return Ok(Exit::DONE);
    }
    let id = task.row.id;
    context.out.data(&id.to_string())?;
    if context.out.stdout_is_terminal() {
        let repo = &task.row.repo;
        context.out.talk(&format!("sent to {repo}; follow it with `cw logs -f {id}`, wait for it with `cw wait {id}`"));
    }
    warn_of_waiting(client, context, task).await;
    Ok(Exit::DONE)
}

/// Says at once that nobody will run the task as things stand. Answers whether it said so.
async fn warn_of_waiting(client: &Client, context: &mut Context, task: &TaskView) -> bool {
    if context.out.json() || context.out.quiet() || task.row.state != TaskState::Queued {
        return false;
    }
    match waiting::ask(client, task.row.id).await {
        Some(why) if waiting::needs_a_person(&why) => {
            waiting::say(&mut context.out, "it", &why);
            true
        }
        _ => false,
    }
}

/// How the task is waited for.
struct Attend {
    show: Show,
    timeout: Option<Duration>,
    exit_code: bool,
}

async fn attend(client: &Client, context: &mut Context, task: &Received<TaskView>, how: Attend) -> Result<Exit> {
    context.out.chat(&format!("{} sent to {}", task.row.id, task.row.repo));
    let is_explained = warn_of_waiting(client, context, task).await;
    let tasks = vec![task.row.id];
    let plan = Plan { tasks, show: how.show, stream: None, lines: None, timeout: how.timeout, is_explained };
    let done = match watch(client, &mut context.out, plan).await? {
        Watched::Left(failure) => return Err(failure),
        Watched::Done(done) => done,
    };
    for task in &done {
        if context.out.json() {
            context.out.value(task)?;
        } else if how.show == Show::Nothing {
            super::logs::print_all(client, &mut context.out, task).await?;
        }
        conclude(&mut context.out, task);
    }
    Ok(wait::exit_of(&done, how.exit_code))
}
