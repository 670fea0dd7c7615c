//! beanstalkd with a binlog that is flushed at every write.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::lines::Lines;
use super::{HANDOVERS, SPEC, cycles, submits, version};
use crate::disk::Disk;
use crate::load::{self, Cycle, Submit};
use crate::options::Queue;
use crate::process::{Process, free_address};
use crate::report::Subject;

const PROGRAM: &str = "beanstalkd";

pub(super) async fn measure(disk: &Disk, options: &Queue) -> Result<Subject> {
    let Some(version) = version(PROGRAM, "-v")? else {
        return Ok(Subject::missing("beanstalkd -f0", "apt-get install beanstalkd"));
    };
    let mut subject = Subject::new(format!("{version} -f0"));
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
    _process: Process,
    _data: TempDir,
}

impl Server {
    async fn start(disk: &Disk) -> Result<Self> {
        let (data, address) = (disk.room(PROGRAM)?, free_address()?);
        let mut command = disk.command(PROGRAM);
        command.args(["-f0", "-l", "127.0.0.1", "-p"]).arg(address.port().to_string()).arg("-b").arg(data.path());
        let log = data.path().join("log");
        let mut process = Process::start(&mut command, &log)?.context("beanstalkd is no longer installed")?;
        process.wait_for_port(address).await?;
        disk.check(&process)?;
        Ok(Self { address, _process: process, _data: data })
    }

    async fn client(&self) -> Result<Client> {
        let put = format!("put 0 0 30 {}\r\n{SPEC}\r\n", SPEC.len());
        Ok(Client { lines: Lines::open(self.address).await?, put, taken: String::new() })
    }
}

struct Client {
    lines: Lines,
    put: String,
    taken: String,
}

impl Submit for Client {
    async fn submit(&mut self) -> Result<()> {
        let answer = self.lines.ask(self.put.as_bytes()).await?;
        ensure!(answer.starts_with("INSERTED "), "put was answered {answer:?}");
        Ok(())
    }
}

impl Cycle for Client {
    async fn take(&mut self) -> Result<()> {
        let answer = self.lines.ask(b"reserve\r\n").await?;
        let reserved = answer.strip_prefix("RESERVED ").and_then(|rest| rest.split_once(' '));
        let (id, length) = reserved.with_context(|| format!("reserve was answered {answer:?}"))?;
        self.taken = format!("delete {id}\r\n");
        let length = length.parse()?;
        self.lines.block(length).await?;
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        let answer = self.lines.ask(self.taken.as_bytes()).await?;
        ensure!(answer == "DELETED", "delete was answered {answer:?}");
        Ok(())
    }
}
