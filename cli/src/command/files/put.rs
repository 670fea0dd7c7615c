//! `cw files put`: a file or a tree of this machine into a session. No local link is followed below what was named; what
//! a session cannot hold is left out and named.

use std::fs::{File, FileType};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::SessionName;
use protocol::path::{VirtualPath, WorkspacePath};
use protocol::workspace::{MODE_BITS, Written};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::transfer::{self, Tally};
use super::{Put, condition, content};
use crate::client::{Client, Condition, Content, Received};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::task_id::Failures;

/// Sends a file or a tree.
pub(super) async fn run(client: &Client, out: &mut Output, args: Put) -> Result<Exit> {
    let shown = args.local.display().to_string();
    let about = std::fs::metadata(&args.local).map_err(|error| Failure::file("read", &shown, &error))?;
    let to = destination(&args.local, args.path.as_deref(), args.recursive)?;
    if about.is_dir() && !args.recursive {
        return Err(Failure::usage(format!("{shown} is a directory")).next("give -r to send it with all in it"));
    }
    let condition = condition(!args.force, args.if_match);
    if about.is_dir() {
        return put_tree(client, out, (&args.session, &args.local), (&to, condition)).await;
    }
    let file = File::open(&args.local).map_err(|error| Failure::file("read", &shown, &error))?;
    let written = put_file(client, &args.session, (file, &shown), (&to, &condition)).await?;
    content::tell(out, &written).map(|()| Exit::DONE)
}

/// Where it goes: where it was said, into the directory that was said, or under its own name.
fn destination(local: &Path, path: Option<&str>, is_tree: bool) -> Result<String> {
    let name = || {
        let name = local.file_name().and_then(|name| name.to_str());
        name.ok_or_else(|| Failure::usage(format!("`{}` has no name to keep", local.display())).next("give PATH"))
    };
    match path {
        Some(path) if is_tree => Ok(path.to_owned()),
        Some(path) if path.is_empty() || path.ends_with('/') => Ok(format!("{path}{}", name()?)),
        Some(path) => Ok(path.to_owned()),
        None => Ok(name()?.to_owned()),
    }
}

async fn put_file(
    client: &Client,
    session: &SessionName,
    (file, shown): (File, &str),
    (to, condition): (&str, &Condition),
) -> Result<Received<Written>> {
    let about = file.metadata().map_err(|error| Failure::file("read", shown, &error))?;
    if !about.is_file() {
        return Err(Failure::usage(format!("{shown} is no regular file")));
    }
    let content = Content::File(Arc::new(file), about.len());
    let mode = Some(about.mode() & MODE_BITS);
    client.write_file(session, to, content, (mode, condition)).await.map_err(|failure| explain(failure, to, condition))
}

fn explain(failure: Failure, to: &str, condition: &Condition) -> Failure {
    match (failure.code, condition) {
        ("precondition_failed", Condition::Absent) => Failure { message: format!("{to} is there already"), ..failure }
            .next("give --force to replace a file, or end PATH with `/` for a place in a directory"),
        ("precondition_failed", Condition::Tag(_) | Condition::Any) => {
            Failure { message: format!("{to} is not the file that --if-match names"), ..failure }
                .next("cw files stat shows its etag")
        }
        ("quota_exceeded" | "unsafe_path", _) => Failure { message: format!("{to}: {}", failure.message), ..failure },
        _ => failure,
    }
}

/// A file of the tree.
struct Job {
    local: PathBuf,
    to: WorkspacePath,
}

async fn put_tree(
    client: &Client,
    out: &mut Output,
    (session, local): (&SessionName, &Path),
    (to, condition): (&str, Condition),
) -> Result<Exit> {
    let root: VirtualPath = to.parse().map_err(|error| Failure::usage(format!("{to}: {error}")))?;
    let (mut tally, mut failures) = (Tally::default(), Failures::default());
    let (jobs, empty) = walk(local, root.as_str(), &mut tally)?;
    for directory in empty {
        if let Err(failure) = client.make_directory(session, directory.as_str()).await {
            tally.failed += 1;
            failures.take(out, failure)?;
        }
    }
    let start = |job: Job| {
        let (client, session, condition) = (client.clone(), session.clone(), condition.clone());
        async move {
            let shown = job.local.display().to_string();
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = openat(CWD, &job.local, flags, Mode::empty())
                .map_err(|error| Failure::file("read", &shown, &error.into()))?;
            let done = put_file(&client, &session, (file.into(), &shown), (job.to.as_str(), &condition)).await?;
            Ok(done.size_bytes)
        }
    };
    let ended = transfer::all(jobs, start, out, (&mut tally, &mut failures)).await;
    ended.inspect_err(|_| out.notice(&format!("stopped: {} files were sent, those under way may be", tally.files)))?;
    tally.conclude(out, "put", &failures)
}

/// The files of a tree, and its directories that nothing is in.
fn walk(local: &Path, root: &str, tally: &mut Tally) -> Result<(Vec<Job>, Vec<WorkspacePath>)> {
    let (mut jobs, mut empty) = (Vec::new(), Vec::new());
    let mut open = vec![(local.to_owned(), root.to_owned())];
    while let Some((directory, at)) = open.pop() {
        let bad = |error: std::io::Error| Failure::file("read", directory.display(), &error);
        let is_root = directory == local;
        let mut is_empty = true;
        for entry in std::fs::read_dir(&directory).map_err(bad)? {
            let entry = entry.map_err(bad)?;
            let (kind, local) = (entry.file_type().map_err(bad)?, entry.path());
            let to = match place(&at, entry.file_name().to_str(), kind) {
                Ok(to) => to,
                Err(why) => {
                    tally.skip(local.display().to_string(), why);
                    continue;
                }
            };
            is_empty = false;
            if kind.is_dir() {
                tally.directories += 1;
                open.push((local, to.as_str().to_owned()));
            } else {
                jobs.push(Job { local, to });
            }
        }
        if is_empty && !(is_root && at.is_empty()) {
            empty.extend(WorkspacePath::from_relative(&at).ok());
        }
    }
    jobs.sort_by(|one, other| one.to.as_str().cmp(other.to.as_str()));
    Ok((jobs, empty))
}

/// Where an entry goes, or why it cannot.
fn place(at: &str, name: Option<&str>, kind: FileType) -> std::result::Result<WorkspacePath, String> {
    if kind.is_symlink() {
        return Err("a symlink, which can only be made by a task".to_owned());
    }
    if kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device() {
        return Err("no file and no directory".to_owned());
    }
    let name = name.ok_or("its name is not UTF-8")?;
    let path = if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
    let path = WorkspacePath::from_relative(&path).and_then(WorkspacePath::writable);
    path.map_err(|refusal| refusal.to_string())
}
