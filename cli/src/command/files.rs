//! `cw files`: what a session holds, looked at, fetched and changed. Paths are virtual: `x`, `/x` and `/workspace/x` are
//! one file.

mod change;
mod content;
mod get;
mod put;
mod show;
mod transfer;

use std::path::PathBuf;

use protocol::SessionName;
use tokio::signal::unix::{SignalKind, signal};

use super::Context;
use crate::client::{Condition, Source};
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// What `files` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List a directory
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Print a file
    Cat {
        #[command(flatten)]
        of: Of,
        /// The file
        path: String,
    },
    /// Send a file, or with -r a directory with all that is in it
    Put(Put),
    /// Fetch a file, or with -r a directory with all that is in it
    Get(Get),
    /// Write what comes on stdin to a file
    Write(Write),
    /// Replace text in a file
    Edit(Edit),
    /// Move or rename a file or a directory
    Mv {
        /// The session
        session: SessionName,
        /// What to move
        from: String,
        /// Where to; nothing may be there
        to: String,
    },
    /// Delete a file, or with -r a directory with all that is in it
    Rm(Rm),
    /// Make a directory and those above it
    Mkdir {
        /// The session
        session: SessionName,
        /// The directory
        path: String,
    },
    /// Show what is known about a file, a directory or a link
    Stat {
        #[command(flatten)]
        of: Of,
        /// The file
        path: String,
    },
    /// Find paths that fit a pattern: `*` and `?` stay within a name, `**` does not
    Glob {
        #[command(flatten)]
        of: Of,
        /// The pattern, such as `**/*.rs`
        pattern: String,
        /// Where to look
        #[arg(default_value = "", hide_default_value = true)]
        path: String,
    },
    /// Find lines that fit a regular expression
    Grep(Grep),
    /// Show how much of its quota a session uses
    Usage {
        /// The session
        session: SessionName,
    },
    /// Fetch a directory as a .tar.gz
    Archive {
        #[command(flatten)]
        of: Of,
        /// The directory
        #[arg(default_value = "", hide_default_value = true)]
        path: String,
        /// Where to save it; `-` for stdout
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Replace a file that is there already
        #[arg(long)]
        force: bool,
    },
}

/// What is read.
#[derive(Debug, clap::Args)]
struct Of {
    /// The session
    session: SessionName,
    /// As this snapshot has it
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
}

impl From<Of> for Source {
    fn from(of: Of) -> Self {
        Self { session: of.session, snapshot: of.snapshot }
    }
}

#[derive(Debug, clap::Args)]
struct Ls {
    #[command(flatten)]
    of: Of,
    /// The directory
    #[arg(default_value = "", hide_default_value = true)]
    path: String,
    /// Permissions, size and time too
    #[arg(short, long)]
    long: bool,
}

#[derive(Debug, clap::Args)]
struct Put {
    /// The session; it is made if it is not there
    session: SessionName,
    /// What to send
    local: PathBuf,
    /// Where to, whole or into a directory that ends with `/` [default: its own name; with -r too]
    path: Option<String>,
    /// A directory with all that is in it, which then is in PATH
    #[arg(short, long, conflicts_with = "if_match")]
    recursive: bool,
    /// Replace files that are there already
    #[arg(long, conflicts_with = "if_match")]
    force: bool,
    /// Replace the file only if it is still this one, by its etag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Get {
    #[command(flatten)]
    of: Of,
    /// What to fetch
    path: String,
    /// Where to; `-` for stdout [default: its own name, in the current directory]
    local: Option<PathBuf>,
    /// A directory with all that is in it, which then is in LOCAL
    #[arg(short, long)]
    recursive: bool,
    /// Replace files that are there already
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct Write {
    /// The session; it is made if it is not there
    session: SessionName,
    /// The file
    path: String,
    /// Only if nothing is there yet
    #[arg(long, conflicts_with = "if_match")]
    new: bool,
    /// Only if it is still this one, by its etag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Edit {
    /// The session
    session: SessionName,
    /// The file
    path: String,
    /// What to replace; it must be there exactly once unless --all
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    old: String,
    /// What to put in its place
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    new: String,
    /// Replace it wherever it is
    #[arg(long)]
    all: bool,
    /// Only if the file is still this one, by its etag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Rm {
    /// The session
    session: SessionName,
    /// What to delete
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Directories too
    #[arg(short, long)]
    recursive: bool,
    /// Only if the file is still this one, by its etag
    #[arg(long, value_name = "ETAG", conflicts_with = "recursive")]
    if_match: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Grep {
    #[command(flatten)]
    of: Of,
    /// What to look for
    #[arg(allow_hyphen_values = true)]
    pattern: String,
    /// Where to look
    #[arg(default_value = "", hide_default_value = true)]
    path: String,
    /// The pattern is text, no regular expression
    #[arg(short = 'F', long)]
    literal: bool,
    /// Large and small letters are the same
    #[arg(short, long)]
    ignore_case: bool,
    /// Only files whose path fits this pattern, such as `*.py`
    #[arg(long, value_name = "GLOB")]
    include: Option<String>,
}

/// The condition that was typed.
fn condition(is_new: bool, tag: Option<String>) -> Condition {
    match tag {
        Some(tag) => Condition::Tag(tag),
        None if is_new => Condition::Absent,
        None => Condition::Any,
    }
}

/// Looks at files, fetches or changes them. A signal lets go of what is under way, so that nothing half fetched stays.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let left = |exit, word| Err(Failure::new(exit, word, format!("{word}: what was sent or fetched whole is there")));
    tokio::select! {
        ended = work(args, context) => ended,
        _ = interrupt.recv() => left(Exit::INTERRUPTED, "interrupted"),
        _ = terminate.recv() => left(Exit::TERMINATED, "terminated"),
    }
}

async fn work(args: Args, context: &mut Context) -> Result<Exit> {
    let client = context.connect()?;
    let out = &mut context.out;
    match args.verb {
        Verb::Ls(args) => show::list(&client, out, args).await?,
        Verb::Stat { of, path } => show::stat(&client, out, &of.into(), &path).await?,
        Verb::Usage { session } => show::usage(&client, out, &session).await?,
        Verb::Glob { of, pattern, path } => show::glob(&client, out, &of.into(), (&pattern, &path)).await?,
        Verb::Grep(args) => show::grep(&client, out, args).await?,
        Verb::Cat { of, path } => content::cat(&client, out, &of.into(), &path).await?,
        Verb::Write(args) => content::write(&client, out, args).await?,
        Verb::Edit(args) => content::edit(&client, out, args).await?,
        Verb::Archive { of, path, output, force } => {
            content::archive(&client, out, (&of.into(), &path), (&output, force)).await?
        }
        Verb::Mv { session, from, to } => change::rename(&client, out, &session, (from, to)).await?,
        Verb::Mkdir { session, path } => change::make_directory(&client, out, &session, &path).await?,
        Verb::Rm(args) => return change::remove(&client, out, args).await,
        Verb::Put(args) => return put::run(&client, out, args).await,
        Verb::Get(args) => return get::run(&client, out, args).await,
    }
    Ok(Exit::DONE)
}
