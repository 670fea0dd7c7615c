//! `cw files get`: a file or a tree of a session onto this machine. A file appears whole or not at all, and nothing is
//! written outside the directory that was named, whatever the session calls its files and links.

use std::path::Path;

use protocol::path::{RelativePath, VirtualPath};
use protocol::workspace::{Entry, FileKind};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::transfer::{self, Tally, leads_out};
use super::{Get, content};
use crate::client::{Client, Source};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place::{NEW_FILE, Place};
use crate::task_id::Failures;
use crate::terminal::harmless_line;

const DOWNLOADS: u32 = 3;
/// What an owner needs to read the file again and replace it.
const OWNER: u32 = 0o600;

/// Fetches a file or a tree.
pub(super) async fn run(client: &Client, out: &mut Output, args: Get) -> Result<Exit> {
    let of: Source = args.of.into();
    let path: VirtualPath = args.path.parse().map_err(|error| Failure::usage(format!("{}: {error}", args.path)))?;
    if args.local.as_deref() == Some(Path::new("-")) {
        if args.recursive {
            return Err(
                Failure::usage("a tree does not go to stdout").next("cw files archive -o - gives it as a .tar.gz")
            );
        }
        return content::cat(client, out, &of, path.as_str()).await.map(|()| Exit::DONE);
    }
    let is_root = path.as_str().is_empty();
    let entry = if is_root { None } else { Some(client.file_entry(&of, path.as_str()).await?) };
    let name = path.as_str().rsplit('/').next().unwrap_or_default();
    let name = if is_root { of.session.as_str() } else { name };
    let local = args.local.as_deref().unwrap_or(Path::new(name));
    match entry {
        Some(entry) if entry.kind != FileKind::Directory => {
            let inside = local.join(name);
            let place = Place::file(if local.is_dir() { &inside } else { local }, args.force)?;
            one(client, out, &of, (&entry, &place)).await?;
            Ok(Exit::DONE)
        }
        _ if !args.recursive => {
            let message = if is_root {
                "that is the whole session".to_owned()
            } else {
                format!("{path} is a directory", path = path.as_str())
            };
            Err(Failure::usage(message).next("give -r to fetch it with all in it"))
        }
        _ => tree(client, out, (&of, path.as_str()), (local, args.force)).await,
    }
}

async fn one(client: &Client, out: &mut Output, of: &Source, (entry, place): (&Entry, &Place)) -> Result<()> {
    let size = match &entry.target {
        Some(target) => place.make_link(target).map(|()| 0)?,
        None => fetch(client, of, entry, place).await?,
    };
    if out.json() {
        return out.value(&json!({"path": entry.path, "file": place.shown(), "size": size}));
    }
    out.talk(&harmless_line(&format!("{} ({size} bytes)", place.shown())));
    Ok(())
}

/// Fetches a file, again when the connection breaks, and says how many bytes it has.
async fn fetch(client: &Client, of: &Source, entry: &Entry, place: &Place) -> Result<u64> {
    place.check_free()?;
    for _ in 0..DOWNLOADS {
        let mut answer = client.file_bytes(of, &entry.path).await?;
        let tag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned();
        let mut partial = place.begin(NEW_FILE & entry.mode | entry.mode & 0o111 | OWNER)?;
        let (mut sum, mut size) = (Sha256::new(), 0);
        let is_whole = loop {
            match answer.chunk().await {
                Ok(Some(piece)) => {
                    sum.update(&piece);
                    size += piece.len() as u64;
                    partial.write(&piece)?;
                }
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if is_whole {
            let sum: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            if tag.trim_matches('"') != sum {
                return Err(wrong_sum(entry));
            }
            return partial.finish().map(|()| size);
        }
    }
    Err(client.unreachable("the file breaks off again and again"))
}

fn wrong_sum(entry: &Entry) -> Failure {
    let message = harmless_line(&format!("{}: what arrived has another SHA-256 than its etag says", entry.path));
    Failure::new(Exit::UNREACHABLE, "wrong_sum", message).next("try again; if it stays so, look at the object store")
}

async fn tree(
    client: &Client,
    out: &mut Output,
    (of, path): (&Source, &str),
    (local, force): (&Path, bool),
) -> Result<Exit> {
    let (mut tally, mut failures) = (Tally::default(), Failures::default());
    let (entries, version) = walk(client, of, path, &mut tally).await?;
    std::fs::create_dir_all(local).map_err(|error| Failure::file("write", local.display(), &error))?;
    let mut jobs = Vec::new();
    for (below, entry) in entries {
        let made = Place::below(local, &below, force).and_then(|place| make(&place, &entry, &mut tally));
        match made {
            Ok(()) if entry.kind == FileKind::File => jobs.push((below, entry)),
            Ok(()) => {}
            Err(failure) => {
                tally.failed += 1;
                failures.take(out, failure)?;
            }
        }
    }
    let start = |(below, entry): (RelativePath, Entry)| {
        let (client, of, local) = (client.clone(), of.clone(), local.to_owned());
        async move {
            let place = Place::below(&local, &below, force)?;
            fetch(&client, &of, &entry, &place).await
        }
    };
    transfer::all(jobs, start, out, (&mut tally, &mut failures)).await?;
    if of.snapshot.is_none() && client.usage(&of.session).await?.version != version {
        out.notice("the session changed meanwhile: these files are not all of one version; --snapshot gives them so");
    }
    tally.conclude(out, "got", &failures)
}

/// Makes what has no content to fetch.
fn make(place: &Place, entry: &Entry, tally: &mut Tally) -> Result<()> {
    match (entry.kind, &entry.target) {
        (FileKind::Directory, _) => {
            place.make_directory()?;
            tally.directories += 1;
        }
        (FileKind::Symlink, Some(target)) => {
            place.make_link(target)?;
            tally.links += 1;
        }
        (FileKind::File | FileKind::Symlink, _) => {}
    }
    Ok(())
}

/// Everything below a directory that can be kept, directories before what is in them, and the version it was read at.
async fn walk(
    client: &Client,
    of: &Source,
    root: &str,
    tally: &mut Tally,
) -> Result<(Vec<(RelativePath, Entry)>, u64)> {
    let (mut found, mut version) = (Vec::new(), 0);
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        let mut cursor = String::new();
        loop {
            let place = [("path", directory.as_str()), ("cursor", cursor.as_str())];
            let page = client.files(of, if cursor.is_empty() { &place[..1] } else { &place }).await?;
            version = if version == 0 { page.version } else { version };
            for entry in &page.entries {
                match keep(root, &directory, entry) {
                    Err(why) => tally.skip(&entry.path, why),
                    Ok(below) => {
                        if entry.kind == FileKind::Directory {
                            open.push(entry.path.clone());
                        }
                        found.push((below, entry.clone()));
                    }
                }
            }
            match &page.next_cursor {
                Some(next) => cursor.clone_from(next),
                None => break,
            }
        }
    }
    Ok((found, version))
}

/// Where an entry goes below the directory, or why it does not.
fn keep(root: &str, directory: &str, entry: &Entry) -> std::result::Result<RelativePath, &'static str> {
    if root.is_empty() && entry.read_only {
        return Err("it is the operator's; fetch it by its name if you want it");
    }
    // Else whoever answers could have this go round for ever.
    if entry.path.len() <= directory.len() || !entry.path.starts_with(directory) {
        return Err("it is not in the directory that was listed");
    }
    let below = if root.is_empty() { Some(entry.path.as_str()) } else { entry.path.strip_prefix(root) };
    let below = below.map(|below| below.trim_start_matches('/')).and_then(|below| below.parse().ok());
    let below: RelativePath = below.ok_or("its path leads out of the directory")?;
    match &entry.target {
        Some(target) if leads_out(&below, target) => Err("a symlink that could lead out of the directory"),
        _ => Ok(below),
    }
}
