//! A program that was started to be measured: its log, its memory, its processor time, and its end. It ends only what
//! it started, by process id.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;

/// How long a program may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// How long a program may take to be ready.
const READY: Duration = Duration::from_secs(60);

/// How long to wait between two looks at a program.
const LOOK: Duration = Duration::from_millis(10);

/// The unit in which the kernel tells programs their processor time.
const TICK: Duration = Duration::from_millis(10);

/// A running program; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    /// The signal that asks it to end.
    pub(crate) ends_by: Signal,
}

impl Process {
    /// Starts a program whose output goes to `log`. `None` when it is not installed.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Option<Self>> {
        let out = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
        match command.spawn() {
            Ok(child) => Ok(Some(Self { child, log: log.to_owned(), ends_by: Signal::TERM })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("starting {}", command.get_program().display())),
        }
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Looks again and again until `look` finds what it looks for; an error when the program ended before that.
    pub(crate) async fn wait_for<T>(&mut self, what: &str, look: impl AsyncFn() -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + READY;
        loop {
            if let Some(found) = look().await {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended ({status}) before {what}; its log ends: {}", self.log_tail());
            }
            if Instant::now() > deadline {
                bail!("no {what} within {} s; its log ends: {}", READY.as_secs(), self.log_tail());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until it takes connections at this address.
    pub(crate) async fn wait_for_port(&mut self, address: SocketAddr) -> Result<()> {
        self.wait_for("it took connections", async || TcpStream::connect(address).await.ok().map(drop)).await
    }

    /// Resident memory.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let status = self.proc_file("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("reading VmRSS")?;
        Ok(kib * 1024)
    }

    /// Processor time so far, user and system, of all its threads.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        self.ticks(2)
    }

    /// The same, with that of all processes below it that have ended and were waited for.
    pub(crate) fn family_time(&self) -> Result<Duration> {
        self.ticks(4)
    }

    fn ticks(&self, fields: usize) -> Result<Duration> {
        let stat = self.proc_file("stat")?;
        // The name in parentheses may hold spaces; what follows it starts with the third field.
        let (_, rest) = stat.rsplit_once(')').context("reading /proc/…/stat")?;
        let ticks = rest.split_whitespace().skip(11).take(fields);
        Ok(TICK * ticks.filter_map(|field| field.parse::<u32>().ok()).sum::<u32>())
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> Result<usize> {
        let path = format!("/proc/{}/fd", self.id());
        Ok(fs::read_dir(&path).with_context(|| format!("reading {path}"))?.count())
    }

    /// Whether a file whose name contains this is mapped into it.
    pub(crate) fn maps(&self, name: &str) -> Result<bool> {
        Ok(self.proc_file("maps")?.contains(name))
    }

    fn proc_file(&self, name: &str) -> Result<String> {
        let path = format!("/proc/{}/{name}", self.id());
        fs::read_to_string(&path).with_context(|| format!("reading {path}"))
    }

    fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(800)..]).trim().to_owned()
    }

    fn end(&mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), self.ends_by)?;
        let deadline = Instant::now() + GRACE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                self.child.kill()?;
                self.child.wait()?;
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("could not end process {}: {error:#}", self.id());
        }
    }
}

/// Processor time of everything on this machine so far, but for waiting.
pub(crate) fn machine_time() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq
    let busy = [0, 1, 2, 5, 6].into_iter().filter_map(|place| ticks.get(place));
    Ok(Duration::from_millis(10 * busy.sum::<u64>()))
}

/// An address on loopback that nothing listens on at the moment.
pub(crate) fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?)
}
