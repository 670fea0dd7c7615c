//! `cw sessions`: the places that tasks leave their files in: made, listed, forked, kept and brought back.

mod exec;

use protocol::workspace::{Fork, NewSession, SessionView, SnapshotView};
use protocol::{RepoName, SessionName, Timestamp};

use super::{Context, pair};
use crate::client::{Client, PageQuery};
use crate::clock;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::Output;
use crate::table::{Table, age, bytes};
use crate::terminal::harmless_line;

const LARGEST_PAGE: u32 = 500;

/// What `sessions` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List sessions by name (this is what `cw sessions` alone does)
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Make a session; its first use would make one too
    Create(Create),
    /// Show a session
    Show {
        /// The session
        session: SessionName,
    },
    /// Make a session that begins as another is
    Fork {
        /// The session to begin from
        session: SessionName,
        /// The new one
        new: SessionName,
        /// Begin from this snapshot instead of the newest version
        #[arg(long, value_name = "NAME")]
        snapshot: Option<String>,
        /// What to find it by; may be repeated
        #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
        labels: Vec<(String, String)>,
    },
    /// Keep the files as they are under a name
    Snapshot {
        /// The session
        session: SessionName,
        /// The snapshot's name
        name: String,
    },
    /// List the snapshots of a session
    Snapshots {
        /// The session
        session: SessionName,
    },
    /// Make the files as a snapshot has them; what is there now stays in the versions before
    Restore {
        /// The session
        session: SessionName,
        /// The snapshot
        snapshot: String,
    },
    /// Delete a session with all its files and snapshots, or one snapshot
    Rm {
        /// The session
        session: SessionName,
        /// Delete only this snapshot
        #[arg(long, value_name = "NAME")]
        snapshot: Option<String>,
    },
    /// Run a command in a session and wait for it
    Exec(exec::Args),
}

#[derive(Debug, Default, clap::Args)]
struct Ls {
    /// Only sessions of this repo
    #[arg(long)]
    repo: Option<RepoName>,
    /// Only sessions with this label
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    label: Option<(String, String)>,
}

#[derive(Debug, clap::Args)]
struct Create {
    /// Its name
    session: SessionName,
    /// What to find it by; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// How much its files may take, such as 5G [default: the coordinator's]
    #[arg(long, value_name = "SIZE", value_parser = protocol::unit::size_bytes)]
    quota: Option<u64>,
    /// The repo whose tasks work in it [default: that of its first task]
    #[arg(long)]
    repo: Option<RepoName>,
}

/// Does what was asked of sessions.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let client = context.connect()?;
    let out = &mut context.out;
    match args.verb.unwrap_or(Verb::Ls(Ls::default())) {
        Verb::Ls(args) => list(&client, out, args).await?,
        Verb::Create(args) => {
            let Create { session, labels, quota, repo } = args;
            let new = NewSession { session, repo, labels: labels.into_iter().collect(), quota_bytes: quota };
            let made = client.create_session(&new).await?;
            show(out, &made, &made)?;
        }
        Verb::Show { session } => {
            let session = client.session(&session).await?;
            show(out, &session, &session)?;
        }
        Verb::Fork { session, new, snapshot, labels } => {
            let fork = Fork { session: new, snapshot, labels: labels.into_iter().collect() };
            let made = client.fork_session(&session, &fork).await?;
            show(out, &made, &made)?;
        }
        Verb::Snapshot { session, name } => keep(&client, out, &session, &name).await?,
        Verb::Snapshots { session } => snapshots(&client, out, &session).await?,
        Verb::Restore { session, snapshot } => restore(&client, out, &session, &snapshot).await?,
        Verb::Rm { session, snapshot } => remove(&client, out, &session, snapshot).await?,
        Verb::Exec(args) => return exec::run(&client, out, args).await,
    }
    Ok(Exit::DONE)
}

/// Lists sessions, page after page; with `--json` a line for each page.
async fn list(client: &Client, out: &mut Output, args: Ls) -> Result<()> {
    let filters = [
        ("repo", args.repo.map(|repo| repo.to_string())),
        ("label", args.label.map(|(name, value)| format!("{name}={value}"))),
    ];
    let filters = filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let mut query = PageQuery { filters, limit: LARGEST_PAGE, cursor: None };
    let mut sessions = Vec::new();
    loop {
        let page = client.sessions(&query).await?;
        if out.json() {
            out.value(&page)?;
        }
        sessions.extend(page.items.iter().cloned());
        query.cursor.clone_from(&page.next_cursor);
        if query.cursor.is_none() {
            break;
        }
    }
    if out.json() {
        Ok(())
    } else if out.quiet() {
        let names: String = sessions.iter().map(|session| format!("{}\n", session.session)).collect();
        out.bytes(names.as_bytes())
    } else if sessions.is_empty() {
        out.talk(if query.filters.is_empty() { "no sessions; the first use makes one" } else { "no sessions match" });
        Ok(())
    } else {
        let text = table(&sessions, clock::now()).render(out.width(), |_, _| None);
        out.bytes(text.as_bytes())
    }
}

fn table(sessions: &[SessionView], now: Timestamp) -> Table {
    let mut table = Table::new(&["SESSION", "REPO", "VERSION", "ENTRIES", "USED", "ALLOWED", "AGE", "LABELS"]);
    for session in sessions {
        table.row([
            session.session.to_string(),
            session.repo.as_ref().map(ToString::to_string).unwrap_or_default(),
            session.version.to_string(),
            session.entries.to_string(),
            bytes(session.used_bytes),
            bytes(session.allowed_bytes),
            age(now, session.used_at),
            super::get::labels(&session.labels),
        ]);
    }
    table
}

fn show(out: &mut Output, session: &SessionView, json: &impl serde::Serialize) -> Result<()> {
    if out.json() {
        return out.value(json);
    }
    if out.quiet() {
        return out.data(session.session.as_str());
    }
    let mut lines = vec![
        ("session", session.session.to_string()),
        ("repo", session.repo.as_ref().map_or_else(|| "(none yet)".to_owned(), ToString::to_string)),
        ("version", session.version.to_string()),
        ("used", format!("{} of {}", bytes(session.used_bytes), bytes(session.allowed_bytes))),
        ("entries", session.entries.to_string()),
        ("created", session.created_at.to_string()),
        ("last used", session.used_at.to_string()),
    ];
    if !session.labels.is_empty() {
        lines.push(("labels", super::get::labels(&session.labels)));
    }
    lines.extend(session.holder.map(|holder| ("written by", holder.to_string())));
    let text: String = lines.iter().map(|(name, value)| format!("{name:<10} {}\n", harmless_line(value))).collect();
    out.bytes(text.as_bytes())
}

async fn keep(client: &Client, out: &mut Output, session: &SessionName, name: &str) -> Result<()> {
    let kept = client.keep_snapshot(session, name).await?;
    if out.json() {
        return out.value(&kept);
    }
    out.talk(&harmless_line(&format!("{session}: version {} is kept as {}", kept.version, kept.name)));
    Ok(())
}

async fn snapshots(client: &Client, out: &mut Output, session: &SessionName) -> Result<()> {
    let page = client.snapshots(session).await?;
    if out.json() {
        return out.value(&page);
    }
    if out.quiet() {
        let names: String = page.items.iter().map(|kept| harmless_line(&kept.name) + "\n").collect();
        return out.bytes(names.as_bytes());
    }
    if page.items.is_empty() {
        out.talk("no snapshots");
        return Ok(());
    }
    let now = clock::now();
    let mut table = Table::new(&["SNAPSHOT", "VERSION", "ENTRIES", "USED", "AGE"]);
    for SnapshotView { name, version, used_bytes, entries, created_at } in &page.items {
        let age = age(now, *created_at);
        table.row([name.clone(), version.to_string(), entries.to_string(), bytes(*used_bytes), age]);
    }
    let text = table.render(out.width(), |_, _| None);
    out.bytes(text.as_bytes())
}

async fn restore(client: &Client, out: &mut Output, session: &SessionName, snapshot: &str) -> Result<()> {
    let restored = client.restore(session, snapshot).await?;
    if out.json() {
        return out.value(&restored);
    }
    let (version, changed) = (restored.version, restored.changed);
    out.talk(&harmless_line(&format!("{session} is as {snapshot} again: version {version}, {changed} paths changed")));
    Ok(())
}

async fn remove(client: &Client, out: &mut Output, session: &SessionName, snapshot: Option<String>) -> Result<()> {
    if let Some(name) = snapshot {
        client.forget_snapshot(session, &name).await?;
        out.talk(&harmless_line(&format!("{session}: the snapshot {name} is deleted")));
        return Ok(());
    }
    let deleted = client.delete_session(session).await?;
    if out.json() {
        return out.value(&deleted);
    }
    out.talk(&format!("deleted {session} ({}, {} entries)", bytes(deleted.used_bytes), deleted.entries));
    Ok(())
}
