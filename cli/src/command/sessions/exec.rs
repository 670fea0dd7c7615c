//! `cw sessions exec`: a command in a session, waited for; what it wrote goes to where it wrote it.

use protocol::workspace::{Exec, ExecDone};
use protocol::{Reason, RepoName, SessionName, Stream};

use crate::client::Client;
use crate::command::seconds;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::Output;
use crate::terminal::{Harmless, harmless_line};

/// What `exec` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session
    session: SessionName,
    /// A line for the shell
    #[arg(long, value_name = "CODE", allow_hyphen_values = true)]
    shell: Option<String>,
    /// A program and its arguments, with no shell
    #[arg(last = true, value_name = "ARGV", required_unless_present = "shell", conflicts_with = "shell")]
    argv: Vec<String>,
    /// The deadline, counted from its start, at most 5m [default: 2m]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    timeout: Option<u32>,
    /// The directory of the session to run in
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// The repo whose workers run it, when the session belongs to none yet
    #[arg(long)]
    repo: Option<RepoName>,
    /// End with the command's own exit code
    #[arg(long)]
    exit_code: bool,
}

/// Runs a command. Whoever interrupts it cancels it.
pub(super) async fn run(client: &Client, out: &mut Output, args: Args) -> Result<Exit> {
    let Args { session, shell, argv, timeout, cwd, repo, exit_code } = args;
    let exec = Exec { command: shell, argv, cwd, timeout_s: timeout, repo };
    out.live(&format!("running in {session}"));
    let done = client.exec(&session, &exec).await?;
    if out.json() {
        out.value(&done)?;
    } else {
        print(out, &done)?;
    }
    Ok(exit_of(&done, exit_code))
}

fn print(out: &mut Output, done: &ExecDone) -> Result<()> {
    out.task_output(Stream::Stdout, done.stdout.as_bytes(), &mut Harmless::default())?;
    out.task_output(Stream::Stderr, done.stderr.as_bytes(), &mut Harmless::default())?;
    let task = done.task;
    if done.truncated {
        out.notice(&format!("the output was longer than what is kept; cw logs {task} has what there is"));
    }
    if let Some(reason) = done.reason.filter(|reason| *reason != Reason::Ok) {
        let code = done.exit_code.map(|code| format!("exit code {code}"));
        let more = done.detail.clone().or(code).map(|more| format!(": {more}")).unwrap_or_default();
        out.talk(&harmless_line(&format!("{task} {reason}{more}")));
    }
    Ok(())
}

fn exit_of(done: &ExecDone, own: bool) -> Exit {
    match done.exit_code.and_then(|code| u8::try_from(code & 0xff).ok()) {
        Some(code) if own => Exit(code),
        _ => done.reason.map_or(Exit::FAILED, |reason| Exit::of_outcome(reason.state(), Some(reason))),
    }
}
