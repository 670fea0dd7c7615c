//! What stands in files: printed, written, edited, and whole directories as an archive.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;

use protocol::Stream;
use protocol::workspace::{EditRequest, Written};

use super::{Edit, Write, condition};
use crate::client::{Client, Content, Received, Source};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place::{NEW_FILE, Partial, Place};
use crate::terminal::{Harmless, harmless_line};

/// Bytes that are held in memory at most, since stdin cannot be read twice.
const MAX_STDIN_BYTES: u64 = 256 << 20;

/// Prints a file as it is; a terminal gets it harmless. With `--json` it is text with what is known about it.
pub(super) async fn cat(client: &Client, out: &mut Output, of: &Source, path: &str) -> Result<()> {
    if out.json() {
        let text = client.file_text(of, path).await?;
        return out.value(&text);
    }
    let mut answer = client.file_bytes(of, path).await?;
    let mut harmless = Harmless::default();
    while let Some(piece) = next(client, &mut answer).await? {
        out.task_output(Stream::Stdout, &piece, &mut harmless)?;
    }
    Ok(())
}

async fn next(client: &Client, answer: &mut reqwest::Response) -> Result<Option<Vec<u8>>> {
    let piece = answer.chunk().await.map_err(|_| client.unreachable("the answer broke off"))?;
    Ok(piece.map(|piece| piece.to_vec()))
}

/// Writes what comes on stdin.
pub(super) async fn write(client: &Client, out: &mut Output, args: Write) -> Result<()> {
    let condition = condition(args.new, args.if_match);
    let written = client.write_file(&args.session, &args.path, stdin()?, (None, &condition)).await?;
    tell(out, &written)
}

/// A file that stdin is, or all that comes from it.
fn stdin() -> Result<Content> {
    let bad = |error: &std::io::Error| Failure::file("read", "stdin", error);
    let input = std::io::stdin();
    let file = input.as_fd().try_clone_to_owned().map(File::from).map_err(|error| bad(&error))?;
    let about = file.metadata().map_err(|error| bad(&error))?;
    // A file that was read from already goes on where it is.
    let is_whole = about.is_file() && rustix::fs::tell(&file).is_ok_and(|place| place == 0);
    if is_whole {
        return Ok(Content::File(Arc::new(file), about.len()));
    }
    let mut bytes = Vec::new();
    input.lock().take(MAX_STDIN_BYTES + 1).read_to_end(&mut bytes).map_err(|error| bad(&error))?;
    if bytes.len() as u64 > MAX_STDIN_BYTES {
        return Err(Failure::usage("more than 256 MiB on stdin").next("save it to a file and send that: cw files put"));
    }
    Ok(Content::Bytes(bytes))
}

/// Says that a file was written.
pub(super) fn tell(out: &mut Output, written: &Received<Written>) -> Result<()> {
    if out.json() {
        return out.value(written);
    }
    let Written { path, size_bytes, version, .. } = &**written;
    out.talk(&harmless_line(&format!("{path} ({size_bytes} bytes, version {version})")));
    Ok(())
}

/// Replaces text.
pub(super) async fn edit(client: &Client, out: &mut Output, args: Edit) -> Result<()> {
    let condition = condition(false, args.if_match);
    let (old, new) = (Some(args.old), Some(args.new));
    let wanted = EditRequest { path: args.path, old, new, all: args.all, edits: Vec::new() };
    let edited = client.edit_file(&args.session, &wanted, &condition).await?;
    if out.json() {
        return out.value(&edited);
    }
    let times = if edited.replaced == 1 { "once" } else { &format!("{} times", edited.replaced) };
    out.talk(&harmless_line(&format!("{}: replaced {times} (version {})", edited.path, edited.version)));
    Ok(())
}

/// Saves an archive; it appears whole or not at all.
pub(super) async fn archive(
    client: &Client,
    out: &mut Output,
    (of, path): (&Source, &str),
    (output, force): (&Path, bool),
) -> Result<()> {
    if output == Path::new("-") {
        let mut answer = client.archive(of, path).await?;
        while let Some(piece) = next(client, &mut answer).await? {
            out.bytes(&piece)?;
        }
        return Ok(());
    }
    let place = Place::file(output, force)?;
    place.check_free()?;
    let mut answer = client.archive(of, path).await?;
    let mut partial = place.begin(NEW_FILE)?;
    let mut size = 0;
    while let Some(piece) = next(client, &mut answer).await? {
        Partial::write(&mut partial, &piece)?;
        size += piece.len() as u64;
        out.live(&format!("{} bytes", size));
    }
    partial.finish()?;
    if out.json() {
        return out.value(&serde_json::json!({"file": place.shown(), "size": size}));
    }
    out.talk(&harmless_line(&format!("{} ({size} bytes)", place.shown())));
    Ok(())
}
