//! PostgreSQL with `FOR UPDATE SKIP LOCKED`, prepared statements and its default durability. Hand-overs use
//! LISTEN/NOTIFY; the rates do not, because a notification makes commits wait for each other.

mod cluster;

use anyhow::{Context as _, Result};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Config, Connection, NoTls, Socket, Statement};

use self::cluster::Cluster;
use super::{HANDOVERS, SPEC, cycles, submits};
use crate::disk::Disk;
use crate::load::{self, Cycle, Submit};
use crate::options::Queue;
use crate::report::Subject;

const TABLES: &str = "
    CREATE TABLE task (id bigserial PRIMARY KEY, state smallint NOT NULL DEFAULT 0, spec text NOT NULL,
                       leased_until timestamptz, exit_code integer);
    CREATE INDEX queued ON task (id) WHERE state = 0;";

const SUBMIT: &str = "INSERT INTO task (spec) VALUES ($1) RETURNING id";

const SUBMIT_AND_TELL: &str = "WITH made AS (INSERT INTO task (spec) VALUES ($1) RETURNING id)
    SELECT id, pg_notify('task', '') FROM made";

const TAKE: &str = "UPDATE task SET state = 1, leased_until = now() + interval '30 s'
    WHERE id = (SELECT id FROM task WHERE state = 0 ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id, spec";

const FINISH: &str = "UPDATE task SET state = 2, exit_code = 0, leased_until = NULL WHERE id = $1 AND state = 1";

pub(super) async fn measure(disk: &Disk, options: &Queue) -> Result<Subject> {
    let Some(cluster) = Cluster::start(disk).await? else {
        return Ok(Subject::missing("PostgreSQL SKIP LOCKED", "apt-get install postgresql"));
    };
    let mut subject = Subject::new(format!("PostgreSQL {} SKIP LOCKED", cluster.version));
    let config = &cluster.config;
    connect_and_forget(config).await?.batch_execute(TABLES).await?;
    for &number in &options.clients {
        empty(config).await?;
        subject.submits.push(submits(number, options.time(), async || Client::open(config, SUBMIT).await).await?);
        empty(config).await?;
        subject.cycles.push(cycles(number, options.time(), async || Client::open(config, SUBMIT).await).await?);
    }
    empty(config).await?;
    let mut taker = Client::open(config, SUBMIT).await?;
    taker.connection.batch_execute("LISTEN task").await?;
    taker.is_told = true;
    let client = Client::open(config, SUBMIT_AND_TELL).await?;
    subject.handover = Some(load::handover(client, taker, HANDOVERS).await?);
    Ok(subject)
}

async fn empty(config: &Config) -> Result<()> {
    connect_and_forget(config).await?.batch_execute("TRUNCATE task; CHECKPOINT").await.context("emptying the table")
}

async fn connect_and_forget(config: &Config) -> Result<tokio_postgres::Client> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::task::spawn_local(connection);
    Ok(client)
}

struct Client {
    connection: tokio_postgres::Client,
    told: mpsc::UnboundedReceiver<()>,
    /// Whether it hears of new tasks; if not, it asks again until there is one.
    is_told: bool,
    submit: Statement,
    take: Statement,
    finish: Statement,
    taken: i64,
}

impl Client {
    async fn open(config: &Config, submit: &str) -> Result<Self> {
        let (client, connection) = config.connect(NoTls).await.context("connecting")?;
        let (tell, told) = mpsc::unbounded_channel();
        tokio::task::spawn_local(carry(connection, tell));
        let submit = client.prepare(submit).await?;
        let take = client.prepare(TAKE).await?;
        let finish = client.prepare(FINISH).await?;
        Ok(Self { connection: client, told, is_told: false, submit, take, finish, taken: 0 })
    }
}

/// Carries the bytes of a connection until it is closed, and passes notifications on.
async fn carry(mut connection: Connection<Socket, tokio_postgres::tls::NoTlsStream>, tell: mpsc::UnboundedSender<()>) {
    while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
        if matches!(message, AsyncMessage::Notification(_)) && tell.send(()).is_err() {
            return;
        }
    }
}

impl Submit for Client {
    async fn submit(&mut self) -> Result<()> {
        self.connection.query_one(&self.submit, &[&SPEC]).await?;
        Ok(())
    }
}

impl Cycle for Client {
    async fn take(&mut self) -> Result<()> {
        loop {
            if let Some(row) = self.connection.query_opt(&self.take, &[]).await? {
                self.taken = row.get(0);
                return Ok(());
            }
            // Nothing found does not mean that nothing is there: another client may have got the row first.
            if self.is_told {
                self.told.recv().await.context("the connection was closed")?;
            }
        }
    }

    async fn finish(&mut self) -> Result<()> {
        let changed = self.connection.execute(&self.finish, &[&self.taken]).await?;
        anyhow::ensure!(changed == 1, "the task was ended by someone else");
        Ok(())
    }
}
