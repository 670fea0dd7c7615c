//! What is in a session: directories, single entries, searches, and how much room is taken.

use protocol::SessionName;
use protocol::workspace::{Entry, FileKind};
use serde_json::Value;

use super::{Grep, Ls};
use crate::client::{Client, FileQuery, Source};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::table::{Table, bytes};
use crate::terminal::harmless_line;

/// Lists a directory, all its pages; a file or a link stands for itself.
pub(super) async fn list(client: &Client, out: &mut Output, args: Ls) -> Result<()> {
    let of = args.of.into();
    let (json, entries) = match directory(client, &of, &args.path).await {
        Ok(listed) => listed,
        Err(failure) if ["not_a_directory", "is_a_symlink"].contains(&failure.code) => {
            let entry = client.file_entry(&of, &args.path).await?;
            (as_json(&entry)?, vec![Entry::clone(&entry)])
        }
        Err(failure) => return Err(failure),
    };
    if out.json() {
        out.value(&json)
    } else if out.quiet() {
        names(out, entries.iter().map(|entry| entry.path.clone()))
    } else if entries.is_empty() {
        out.talk("empty");
        Ok(())
    } else if args.long {
        table(out, &entries)
    } else {
        names(out, entries.iter().map(named))
    }
}

fn as_json(value: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| Failure::from(std::io::Error::other(error)))
}

/// All pages of a directory as one, as they were written and as they are understood.
async fn directory(client: &Client, of: &Source, path: &str) -> Result<(Value, Vec<Entry>)> {
    let mut page = client.files(of, &[("path", path)]).await?;
    let mut json = as_json(&page)?;
    let mut entries = page.entries.clone();
    while let Some(cursor) = page.next_cursor.clone() {
        page = client.files(of, &[("path", path), ("cursor", &cursor)]).await?;
        entries.extend(page.entries.iter().cloned());
        let more = as_json(&page)?["entries"].take();
        if let (Some(all), Value::Array(more)) = (json["entries"].as_array_mut(), more) {
            all.extend(more);
        }
    }
    json["truncated"] = false.into();
    json["next_cursor"] = Value::Null;
    Ok((json, entries))
}

fn names(out: &mut Output, names: impl Iterator<Item = String>) -> Result<()> {
    let names: String = names.map(|name| harmless_line(&name) + "\n").collect();
    out.bytes(names.as_bytes())
}

fn named(entry: &Entry) -> String {
    match (entry.kind, &entry.target) {
        (FileKind::Directory, _) => format!("{}/", entry.name),
        (FileKind::Symlink, Some(target)) => format!("{} -> {target}", entry.name),
        (FileKind::File | FileKind::Symlink, _) => entry.name.clone(),
    }
}

/// Permissions as people read them.
fn permissions(entry: &Entry) -> String {
    let kind = match entry.kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
    };
    let bits =
        (0..9).rev().map(|bit| if entry.mode >> bit & 1 == 1 { [b'x', b'w', b'r'][bit % 3].into() } else { '-' });
    std::iter::once(kind).chain(bits).collect()
}

fn table(out: &mut Output, entries: &[Entry]) -> Result<()> {
    let mut table = Table::new(&["MODE", "BYTES", "MODIFIED", "NAME"]);
    for entry in entries {
        let note = if entry.read_only { "  (read-only)" } else { "" };
        let size = if entry.kind == FileKind::File { entry.size.to_string() } else { String::new() };
        table.row([permissions(entry), size, entry.modified_at.to_string(), named(entry) + note]);
    }
    let text = table.render(out.width(), |_, _| None);
    out.bytes(text.as_bytes())
}

/// Shows one entry.
pub(super) async fn stat(client: &Client, out: &mut Output, of: &Source, path: &str) -> Result<()> {
    let entry = client.file_entry(of, path).await?;
    if out.json() {
        return out.value(&entry);
    }
    let kind = match entry.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
    };
    let mut lines =
        vec![("path", entry.path.clone()), ("kind", kind.to_owned()), ("mode", format!("{:o}", entry.mode))];
    if entry.kind == FileKind::File {
        lines.push(("size", entry.size.to_string()));
    }
    lines.push(("modified", entry.modified_at.to_string()));
    lines.extend(entry.etag.clone().map(|etag| ("etag", etag)));
    lines.extend(entry.target.clone().map(|target| ("target", target)));
    if entry.read_only {
        lines.push(("read-only", "yes".to_owned()));
    }
    let text: String = lines.iter().map(|(name, value)| format!("{name:<9} {}\n", harmless_line(value))).collect();
    out.bytes(text.as_bytes())
}

/// Shows how much room is taken.
pub(super) async fn usage(client: &Client, out: &mut Output, session: &SessionName) -> Result<()> {
    let usage = client.usage(session).await?;
    if out.json() {
        return out.value(&usage);
    }
    let (used, allowed) = (bytes(usage.used_bytes), bytes(usage.allowed_bytes));
    out.data(&format!("{used} of {allowed}, {} entries, version {}", usage.entries, usage.version))
}

/// Finds paths.
pub(super) async fn glob(client: &Client, out: &mut Output, of: &Source, (pattern, path): (&str, &str)) -> Result<()> {
    let found = client.glob(of, &[("pattern", pattern), ("path", path)]).await?;
    if out.json() {
        return out.value(&found);
    }
    names(out, found.entries.iter().map(|entry| entry.path.clone()))?;
    conclude(out, found.total, found.truncated);
    Ok(())
}

/// Finds lines.
pub(super) async fn grep(client: &Client, out: &mut Output, args: Grep) -> Result<()> {
    let mut query = vec![("pattern", args.pattern.as_str()), ("path", args.path.as_str())];
    query.extend(args.literal.then_some(("literal", "true")));
    query.extend(args.ignore_case.then_some(("ignore_case", "true")));
    query.extend(args.include.as_deref().map(|include| ("include", include)));
    let query: FileQuery<'_> = &query;
    let found = client.grep(&args.of.into(), query).await?;
    if out.json() {
        return out.value(&found);
    }
    names(out, found.matches.iter().map(|line| format!("{}:{}:{}", line.file, line.line, line.content)))?;
    conclude(out, found.total, found.truncated);
    Ok(())
}

fn conclude(out: &mut Output, total: u64, is_cut: bool) {
    if is_cut {
        out.notice(&format!("these are the first {total}; there may be more: give a narrower pattern or a path"));
    } else if total == 0 {
        out.talk("nothing found");
    }
}
