//! `cw keys`: makes, lists and revokes keys. A secret is shown once, on stdout or into a file, and never again.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use protocol::admin::{CreatedKey, KeyView, NewKey, Role};
use protocol::{KeyId, RepoName, Timestamp};

use super::{Context, duration};
use crate::client::{Client, Received};
use crate::clock;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::id_part::Kind;
use crate::output::Mark;
use crate::table::{Table, age, span};
use crate::task_id::Failures;

const PAGE: u32 = 500;
const KEY: Kind = Kind { prefix: KeyId::PREFIX, noun: "key", list: "cw keys" };

/// What `keys` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List keys (this is what `cw keys` alone does)
    #[command(visible_alias = "ls")]
    List,
    /// Make a key and show it, once
    Create(Create),
    /// Take a key back, at once and for ever
    Revoke {
        /// The keys, by id or a part of one, as `cw keys` shows it
        #[arg(value_name = "KEY_ID", required = true)]
        ids: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// What its bearer may do: admin everything, client send and read tasks, worker run them
    #[arg(long, value_parser = ["admin", "client", "worker"])]
    role: String,
    /// A repo that it is for; may be repeated; all without, which a worker's key may not be
    #[arg(long = "repo", value_name = "REPO", value_delimiter = ',')]
    repos: Vec<RepoName>,
    /// When it expires [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl: Option<std::time::Duration>,
    /// What you call it
    #[arg(long)]
    name: Option<String>,
    /// Write the key to this new file, for your eyes only, instead of stdout
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// Makes, lists or revokes keys.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    match args.verb {
        None | Some(Verb::List) => list(context).await,
        Some(Verb::Create(wanted)) => create(context, wanted).await,
        Some(Verb::Revoke { ids }) => revoke(context, &ids).await,
    }
}

async fn create(context: &mut Context, wanted: Create) -> Result<Exit> {
    let key = NewKey {
        role: match wanted.role.as_str() {
            "admin" => Role::Admin,
            "client" => Role::Client,
            _ => Role::Worker,
        },
        repos: wanted.repos,
        name: wanted.name,
        ttl_s: wanted.ttl.map(|ttl| ttl.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)),
    };
    key.check().map_err(|error| Failure::usage(error.to_string()).next("see `cw keys create --help`"))?;
    // Before the key is made: one that cannot be saved would be lost.
    let file = wanted.save.as_deref().map(new_private_file).transpose()?;
    let created = context.connect().map(|client| async move { client.create_key(&key).await })?.await;
    match (file, wanted.save) {
        (Some(file), Some(path)) => save(context, created, file, &path),
        _ => show_created(context, &created?),
    }
}

fn new_private_file(path: &Path) -> Result<std::fs::File> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| {
        let failure = Failure::file("create", path.display(), &error);
        if error.kind() == ErrorKind::AlreadyExists {
            return failure.next("name another file: one that is there is never overwritten");
        }
        failure
    })
}

fn save(
    context: &mut Context,
    created: Result<Received<CreatedKey>>,
    mut file: std::fs::File,
    path: &Path,
) -> Result<Exit> {
    let written = created.and_then(|created| {
        writeln!(file, "{}", created.key)
            .and_then(|()| file.sync_all())
            .map_err(|error| Failure::file("write", path.display(), &error))?;
        Ok(created)
    });
    let created = written.inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })?;
    if context.out.json() {
        context.out.value(&created.view)?;
    } else {
        context.out.data(&created.view.id.to_string())?;
        context.out.talk(&format!("the key is in {}", path.display()));
    }
    Ok(Exit::DONE)
}

fn show_created(context: &mut Context, created: &Received<CreatedKey>) -> Result<Exit> {
    if context.out.json() {
        context.out.value(created)?;
        return Ok(Exit::DONE);
    }
    context.out.data(&format!("id   {}\nkey  {}", created.view.id, created.key))?;
    context.out.talk("the key is not shown again: put it into a file of mode 600, and name that by CW_KEY_FILE");
    Ok(Exit::DONE)
}

/// Revokes all of them; a failure of one does not spare the others.
async fn revoke(context: &mut Context, ids: &[String]) -> Result<Exit> {
    let client = context.connect()?;
    let mut failures = Failures::default();
    for typed in ids {
        match revoke_one(&client, typed).await {
            Ok(key) if context.out.json() => context.out.value(&key)?,
            Ok(key) => context.out.talk(&format!("{} is revoked", key.id)),
            Err(failure) => failures.take(&mut context.out, failure)?,
        }
    }
    Ok(failures.exit_or(Exit::DONE))
}

async fn revoke_one(client: &Client, typed: &str) -> Result<Received<KeyView>> {
    let id = match typed.parse() {
        Ok(id) => id,
        Err(_) => {
            KEY.part(typed)?;
            KEY.choose(typed, client.keys(PAGE).await?.items.iter().map(|key| key.id))?
        }
    };
    client.revoke_key(id).await
}

async fn list(context: &mut Context) -> Result<Exit> {
    let keys = context.connect()?.keys(PAGE).await?;
    let out = &mut context.out;
    if out.json() {
        out.value(&keys)?;
    } else if out.quiet() {
        let ids: String = keys.items.iter().map(|key| format!("{}\n", key.id)).collect();
        out.bytes(ids.as_bytes())?;
    } else {
        let paint =
            |_: usize, cell: &str| (cell == "revoked" || cell == "expired").then(|| out.mark(Mark::Faint, cell));
        let text = table(&keys.items, clock::now()).render(out.width(), paint);
        out.bytes(text.as_bytes())?;
    }
    Ok(Exit::DONE)
}

fn table(keys: &[KeyView], now: Timestamp) -> Table {
    let mut table = Table::new(&["KEY", "ROLE", "REPOS", "AGE", "EXPIRES", "NAME"]);
    for key in keys {
        let repos: Vec<&str> = key.repos.iter().map(RepoName::as_str).collect();
        let expires = match (key.revoked_at, key.expires_at) {
            (Some(_), _) => "revoked".to_owned(),
            (None, None) => "never".to_owned(),
            (None, Some(at)) if at <= now => "expired".to_owned(),
            (None, Some(at)) => format!("in {}", span(at.ms_since(now))),
        };
        let repos = if repos.is_empty() { "(all)".to_owned() } else { repos.join(",") };
        let name = key.name.clone().unwrap_or_default();
        table.row([key.id.to_string(), key.role.as_str().to_owned(), repos, age(now, key.created_at), expires, name]);
    }
    table
}
