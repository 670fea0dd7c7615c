//! The coordinator: accepts tasks, leases them to workers, keeps their results.
//!
//! From the outside in: `http` speaks with clients, workers and operators; `queue` has the verbs; `lifecycle` has the rules;
//! `store` keeps the rows, `objects` the files; `wakeup` knows who waits; `reaper` and `retention` keep house.

pub mod clock;
pub mod config;
pub mod http;
pub mod key;
pub mod lifecycle;
pub mod objects;
pub mod queue;
pub mod reaper;
pub mod retention;
pub mod shutdown;
pub mod state_dir;
pub mod store;
pub mod uploads;
pub mod wakeup;
pub mod why;
pub mod workers;
pub mod workspace;

use std::sync::Arc;

use anyhow::Context as _;
use protocol::KeyId;
use protocol::admin::{KeyView, Role};

use crate::clock::Clock;
use crate::config::Config;
use crate::http::App;
use crate::http::auth::Keys;
use crate::http::serve::{Listener, Served, serve};
use crate::objects::Objects;
use crate::queue::Queue;
use crate::shutdown::Shutdown;
use crate::state_dir::StateDir;
use crate::store::Store;
use crate::store::sqlite::Sqlite;
use crate::wakeup::Wakeup;
use crate::workers::Workers;
use crate::workspace::{Overlays, SessionsUsed};

/// How long a worker that vanished is still shown after a restart, in milliseconds.
const REMEMBER_WORKERS_MS: i64 = 86_400_000;

/// Serves until told to stop, then finishes what it has begun.
///
/// # Errors
/// When it cannot start: the state directory, the database or an address is not to be had.
pub async fn run(config: Config, shutdown: Shutdown) -> anyhow::Result<()> {
    let mut state = StateDir::take(&config.state_dir)?;
    let queue = Arc::new(open_queue(&config, &state, shutdown.clone()).await?);
    let keys = open_keys(&queue, &state).await?;
    let app = Arc::new(App::new(queue.clone(), keys, &config));

    let all = Listener::bind(&config.listen).await?;
    let workers = match &config.worker_listen {
        Some(address) => Some(Listener::bind(address).await?),
        None => None,
    };
    let worker_address = workers.as_ref().map(Listener::address);
    state.announce(&all.address(), worker_address.as_deref())?;
    tracing::info!(listen = all.address(), worker_listen = worker_address, "ready");

    let served = Served { shutdown: shutdown.clone(), grace: config.grace, patience: config.patience };
    let housekeeping = async {
        tokio::join!(reaper::run(&queue), retention::run(&queue, config.retention));
    };
    let workers_routes = async {
        if let Some(listener) = workers {
            serve(listener, http::worker_routes(app.clone()), &served).await;
        }
    };
    tokio::join!(serve(all, http::all_routes(app.clone()), &served), workers_routes, housekeeping);
    reaper::save_workers(&queue).await.context("saving who was seen")?;
    queue.store.close().await;
    state.leave();
    tracing::info!("stopped");
    Ok(())
}

async fn open_queue(config: &Config, state: &StateDir, shutdown: Shutdown) -> anyhow::Result<Queue> {
    let store = Store::Sqlite(Sqlite::open(&state.database())?);
    let clock = Clock::start(store.newest_instant());
    let now = clock.now();
    let live = store.rearm(now, config.ttls).await.context("extending the leases that were live")?;
    if live > 0 {
        tracing::info!(live, "leases were live; each has its full time again");
    }
    let workers = Workers::default();
    workers.remember(store.workers(now.at.plus_ms(-REMEMBER_WORKERS_MS)).await?);
    Ok(Queue {
        store,
        objects: Objects::open_directory(&state.objects())?,
        uploading: uploads::Uploading::default(),
        artifacts_limit: config.artifacts_limit,
        rules: Arc::new(config.sessions.rules.clone()),
        overlays: open_overlays(&config.sessions)?,
        sessions_used: SessionsUsed::default(),
        clock,
        wakeup: Wakeup::default(),
        workers,
        ttls: config.ttls,
        default_agent: config.default_agent.clone(),
        shutdown,
    })
}

fn open_overlays(sessions: &config::Sessions) -> anyhow::Result<Overlays> {
    Overlays::open(sessions.utils_dir.as_deref(), sessions.skills_dir.as_deref())
        .context("the directories of CW_UTILS_DIR and CW_SKILLS_DIR must be there and readable")
}

/// Reads the keys. The first start makes one, for the operator of this machine.
async fn open_keys(queue: &Queue, state: &StateDir) -> anyhow::Result<Keys> {
    let keys = Keys::new(queue.store.keys().await?);
    let now = queue.clock.now();
    let is_expired = |key: &KeyView| key.expires_at.is_some_and(|at| at <= now.wall);
    let is_usable = |key: &KeyView| key.role == Role::Admin && key.revoked_at.is_none() && !is_expired(key);
    if keys.list().iter().any(is_usable) {
        return Ok(keys);
    }
    let secret = key::new_secret()?;
    let hash = key::hash(secret.as_bytes());
    let admin = KeyView {
        id: KeyId::new(now.at.as_ms().unsigned_abs(), u128::from_be_bytes(hash[..16].try_into()?)),
        role: Role::Admin,
        repos: Vec::new(),
        name: Some("first start".into()),
        created_at: now.wall,
        expires_at: None,
        revoked_at: None,
    };
    // The file first: a key in the database whose secret nobody has could never be replaced.
    state_dir::write_secret(&state.admin_key(), &secret)?;
    queue.store.add_key(admin.clone(), hash).await?;
    keys.add(admin, hash);
    tracing::info!(file = %state.admin_key().display(), "wrote the admin's key");
    Ok(keys)
}
