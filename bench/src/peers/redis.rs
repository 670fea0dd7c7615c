//! Redis lists with an append-only file that is flushed before each answer. It has no leases: a task that was taken
//! stays in a second list until it is ended.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::lines::Lines;
use super::{HANDOVERS, SPEC, cycles, submits, version};
use crate::disk::Disk;
use crate::load::{self, Cycle, Submit};
use crate::options::Queue;
use crate::process::{Process, free_address};
use crate::report::Subject;

const PROGRAM: &str = "redis-server";

pub(super) async fn measure(disk: &Disk, options: &Queue) -> Result<Subject> {
    let Some(version) = version(PROGRAM, "--version")? else {
        return Ok(Subject::missing("Redis appendfsync always", "apt-get install redis-server"));
    };
    let number = version.split_once("v=").and_then(|(_, rest)| rest.split(' ').next()).unwrap_or_default();
    let mut subject = Subject::new(format!("Redis {number} appendfsync always (no leases)"));
    for &number in &options.clients {
        let server = Server::start(disk).await?;
        subject.submits.push(submits(number, options.time(), async || server.client().await).await?);
        let server = Server::start(disk).await?;
        subject.cycles.push(cycles(number, options.time(), async || server.client().await).await?);
    }
    let server = Server::start(disk).await?;
    subject.handover = Some(load::handover(server.client().await?, server.client().await?, HANDOVERS).await?);
    Ok(subject)
}

struct Server {
    address: SocketAddr,
    next: AtomicU64,
    _process: Process,
    _data: TempDir,
}

impl Server {
    async fn start(disk: &Disk) -> Result<Self> {
        let (data, address) = (disk.room(PROGRAM)?, free_address()?);
        let mut command = disk.command(PROGRAM);
        command.args(["--bind", "127.0.0.1", "--port"]).arg(address.port().to_string());
        command.arg("--dir").arg(data.path()).args(["--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
        let log = data.path().join("log");
        let mut process = Process::start(&mut command, &log)?.context("Redis is no longer installed")?;
        process.wait_for_port(address).await?;
        disk.check(&process)?;
        Ok(Self { address, next: AtomicU64::new(0), _process: process, _data: data })
    }

    async fn client(&self) -> Result<Client> {
        let name = self.next.fetch_add(1, Ordering::Relaxed);
        let take = command(&["BLMOVE", "tasks", "taken", "RIGHT", "LEFT", "60"]);
        Ok(Client { lines: Lines::open(self.address).await?, name, submitted: 0, take, taken: Vec::new() })
    }
}

struct Client {
    lines: Lines,
    name: u64,
    submitted: u64,
    take: Vec<u8>,
    taken: Vec<u8>,
}

impl Submit for Client {
    async fn submit(&mut self) -> Result<()> {
        self.submitted += 1;
        // What is in the list must be unique, because it is removed by its value.
        let task = format!("{}-{} {SPEC}", self.name, self.submitted);
        let answer = self.lines.ask(&command(&["LPUSH", "tasks", &task])).await?;
        ensure!(answer.starts_with(':'), "LPUSH was answered {answer:?}");
        Ok(())
    }
}

impl Cycle for Client {
    async fn take(&mut self) -> Result<()> {
        let answer = self.lines.ask(&self.take).await?;
        let length = answer.strip_prefix('$').and_then(|digits| digits.parse().ok());
        let length = length.with_context(|| format!("BLMOVE was answered {answer:?}"))?;
        let task = std::str::from_utf8(self.lines.block(length).await?)?;
        self.taken = command(&["LREM", "taken", "1", task]);
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        let answer = self.lines.ask(&self.taken).await?;
        ensure!(answer == ":1", "LREM was answered {answer:?}");
        Ok(())
    }
}

/// A command as Redis reads it: the number of its words, then each with its length.
fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}
