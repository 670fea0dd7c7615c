//! What is moved, made and deleted in a session.

use protocol::SessionName;
use protocol::workspace::{FileKind, Move};

use super::{Rm, condition};
use crate::client::{Client, Source};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::task_id::Failures;
use crate::terminal::harmless_line;

/// Moves a file or a directory.
pub(super) async fn rename(
    client: &Client,
    out: &mut Output,
    session: &SessionName,
    (from, to): (String, String),
) -> Result<()> {
    let moved = client.move_file(session, &Move { from, to }).await?;
    if out.json() {
        return out.value(&moved);
    }
    out.talk(&harmless_line(&format!("{} is now {} (version {})", moved.from, moved.to, moved.version)));
    Ok(())
}

/// Makes a directory.
pub(super) async fn make_directory(client: &Client, out: &mut Output, session: &SessionName, path: &str) -> Result<()> {
    let made = client.make_directory(session, path).await?;
    if out.json() {
        return out.value(&made);
    }
    let what = if made.created { "made" } else { "was there already" };
    out.talk(&harmless_line(&format!("{}: {what} (version {})", made.path, made.version)));
    Ok(())
}

/// Deletes all of them; a failure of one does not spare the others.
pub(super) async fn remove(client: &Client, out: &mut Output, args: Rm) -> Result<Exit> {
    let mut failures = Failures::default();
    for path in &args.paths {
        if let Err(failure) = remove_one(client, out, &args, path).await {
            failures.take(out, failure)?;
        }
    }
    Ok(failures.exit_or(Exit::DONE))
}

async fn remove_one(client: &Client, out: &mut Output, args: &Rm, path: &str) -> Result<()> {
    let condition = condition(false, args.if_match.clone());
    if !args.recursive {
        let of = Source { session: args.session.clone(), snapshot: None };
        if client.file_entry(&of, path).await?.kind == FileKind::Directory {
            return Err(Failure::usage(format!("{path} is a directory")).next("give -r to delete it with all in it"));
        }
    }
    let deleted = client.delete_file(&args.session, path, &condition).await?;
    if out.json() {
        return out.value(&deleted);
    }
    let count = if deleted.deleted == 1 { String::new() } else { format!(" ({} entries)", deleted.deleted) };
    out.talk(&harmless_line(&format!("deleted {}{count}, version {}", deleted.path, deleted.version)));
    Ok(())
}
