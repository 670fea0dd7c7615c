//! `cw why`: why a task waits, runs or ended as it did, and what to do about it.

use super::Context;
use crate::exit::Exit;
use crate::failure::Result;
use crate::task_id;
use crate::terminal::harmless_text;

/// What `why` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, by id or a part of one
    #[arg(value_name = "TASK")]
    task: String,
}

/// Says why.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let client = context.connect()?;
    let id = task_id::find(&client, &args.task).await?;
    let why = client.why(id).await?;
    if context.out.json() {
        context.out.value(&why)?;
        return Ok(Exit::DONE);
    }
    let mut text = format!("{}: {}\n", why.state, why.summary);
    if let Some(ahead) = why.ahead.filter(|ahead| *ahead > 0) {
        text.push_str(&format!("  ahead: {ahead}\n"));
    }
    if let Some(next) = &why.next {
        text.push_str(&format!("  next: {next}\n"));
    }
    context.out.data(&harmless_text(&text))?;
    Ok(Exit::DONE)
}
