//! The last stage, pid 1 of the task's own process namespace: one thread, one loop. It has the process ready that will be
//! the program, waits for a task, binds what the worker listens on, lets the program begin, reads its return value,
//! watches its limits, and reaps.
//!
//! The task sees it as process 1 and can neither signal nor read it. When it leaves, for whatever reason, the kernel ends
//! every process of the namespace: daemons that left their session, and those that ignore TERM, too. Without a namespace
//! it is the reaper of whatever came of the task, and leaves when none of it is left.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};

use super::limits::Passed;
use super::sampler::Sampler;
use super::wire::{self, End, Note, Order, Status};
use super::{Init, Inner, apply};
use alarm::Alarm;
pub(crate) use listeners::MAX_LISTENERS;
use reach::Reach;
pub(crate) use returned::MAX_RETURN_BYTES;
use returned::ReturnPipe;
use start::{NotStarted, Waiting};

mod alarm;
mod crowd;
mod listeners;
mod reach;
mod returned;
mod start;

/// How often to look for new processes while killing.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// How long to try to kill: a process that even then is there hangs in the kernel.
const LONGEST_KILL: Duration = Duration::from_secs(10);

/// Runs as the stage that `enter` prepared.
pub(crate) fn run() -> ExitCode {
    let Ok(control) = apply::take_control() else { return ExitCode::FAILURE };
    match init(&control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            wire::say(&control, &Note::Unconfined { message: format!("{error:#}") });
            ExitCode::FAILURE
        }
    }
}

fn init(control: &UnixStream) -> anyhow::Result<()> {
    let inner: Inner = wire::read_frame(control).context("this is started by `cw-worker run`, not by hand")?;
    let reach = Reach::claim(inner.level)?;
    // Unreadable for the task: it has the worker's socket, and no filter yet.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    let alarm = Alarm::set()?;
    let (mut returns, program_end) = ReturnPipe::new()?;
    let waiting = Waiting::fork(&inner, program_end)?;
    wire::say(control, &Note::Waiting);
    let mut plan: Init = wire::read_frame(control).context("no plan")?;
    // The process that waits cannot look around any more.
    plan.others = crowd::others(inner.level);
    let listening = listeners::bind(&plan.binds)?;
    if !listening.is_empty() {
        listeners::pass(control, &listening).context("cannot pass the listeners to the worker")?;
    }
    drop(listening);
    if !plan.returns {
        returns.close();
    }
    let main = match waiting.begin(&plan) {
        Ok(main) => main,
        Err(NotStarted::Program { code, message }) => {
            wire::say(control, &Note::NotStarted { code, message });
            return Ok(());
        }
        Err(NotStarted::Confinement(message)) => anyhow::bail!(message),
    };
    // What the namespaces needed is not needed any more.
    if inner.level.has_namespaces() {
        rustix::thread::set_capabilities(None, CAPABILITIES)?;
    }
    wire::say(control, &Note::Started);
    let sampler = Sampler::new(plan.limits, plan.inside, inner.level);
    let tree = Tree { main, reach, status: None, ending: None, passed: None, returns, sampler };
    let end = tree.watch(&mut Orders::new(control)?, &alarm)?;
    if !alarm.is_orphaned() {
        wire::say(control, &Note::Ended(end));
    }
    Ok(())
}

/// A task can close its directories; they are counted all the same.
const READ_ALL: rustix::thread::CapabilitySet = rustix::thread::CapabilitySet::DAC_READ_SEARCH;
const CAPABILITIES: rustix::thread::CapabilitySets = rustix::thread::CapabilitySets {
    effective: READ_ALL,
    permitted: READ_ALL,
    inheritable: rustix::thread::CapabilitySet::empty(),
};

/// The program and everything that came of it.
struct Tree {
    main: Pid,
    reach: Reach,
    status: Option<Status>,
    ending: Option<Ending>,
    passed: Option<Passed>,
    returns: ReturnPipe,
    sampler: Sampler,
}

/// When the time for TERM, and that for KILL, is over.
struct Ending {
    kill_at: Instant,
    give_up_at: Instant,
}

impl Tree {
    fn watch(mut self, orders: &mut Orders, alarm: &Alarm) -> anyhow::Result<End> {
        while self.reap() {
            if self.status.is_some() || alarm.is_orphaned() {
                self.end_within(Duration::ZERO);
            }
            let now = Instant::now();
            match &self.ending {
                Some(ending) if now >= ending.give_up_at => break,
                Some(ending) if now >= ending.kill_at => self.reach.signal_all(Signal::SIGKILL),
                // The time for TERM is no time without limits.
                Some(_) | None => self.look_at_limits(now),
            }
            match self.wait_for(orders, alarm, now)? {
                Some(Order::Stop { grace_ms }) => self.end_within(Duration::from_millis(grace_ms)),
                None => {}
            }
        }
        self.end()
    }

    /// Reaps all that is dead; says whether anything lives.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => self.status = Some(status_of(status)),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                // ECHILD: nobody is left, neither child nor orphan.
                Err(_) => return false,
            }
        }
    }

    fn look_at_limits(&mut self, now: Instant) {
        if let Some(passed) = self.sampler.look(now) {
            self.passed = Some(passed);
            self.end_within(Duration::ZERO);
        }
    }

    /// Begins to end everything, or hurries an end that has begun.
    fn end_within(&mut self, grace: Duration) {
        let kill_at = Instant::now() + grace.min(Duration::from_secs(3600));
        if self.ending.as_ref().is_none_or(|ending| kill_at < ending.kill_at) {
            let first = if grace.is_zero() { Signal::SIGKILL } else { Signal::SIGTERM };
            self.reach.signal_all(first);
            self.reach.signal_all(Signal::SIGCONT);
            self.ending = Some(Ending { kill_at, give_up_at: kill_at + LONGEST_KILL });
        }
    }

    /// Waits for an order, a dead child, a value or the time. The worker's end is an order, too.
    fn wait_for(&mut self, orders: &mut Orders, alarm: &Alarm, now: Instant) -> anyhow::Result<Option<Order>> {
        if !orders.lines.buffer().is_empty() {
            return Ok(orders.next());
        }
        let time = Timespec::try_from(self.next_wake(now)).ok();
        let mut ready = vec![PollFd::new(alarm.wakes(), PollFlags::IN)];
        ready.extend((!orders.is_closed).then(|| PollFd::new(orders.lines.get_ref(), PollFlags::IN)));
        ready.extend(self.returns.pipe().map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        match poll(&mut ready, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the processes"),
        }
        let heard = !orders.is_closed && ready.get(1).is_some_and(|control| !control.revents().is_empty());
        drop(ready);
        alarm.clear();
        self.returns.read();
        Ok(if heard { orders.next() } else { None })
    }

    fn next_wake(&self, now: Instant) -> Duration {
        match &self.ending {
            Some(ending) if now >= ending.kill_at => KILL_AGAIN,
            Some(ending) => (ending.kill_at - now).min(self.sampler.rest(now)),
            None => self.sampler.rest(now),
        }
    }

    fn end(mut self) -> anyhow::Result<End> {
        use nix::sys::resource::{UsageWho, getrusage};
        let wall = self.sampler.age();
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot read what the processes used")?;
        let ms = |time: nix::sys::time::TimeVal| time.tv_sec() * 1000 + time.tv_usec() / 1000;
        let max_rss = u64::try_from(usage.max_rss()).unwrap_or(0) * 1024;
        let reaped_ms = u64::try_from(ms(usage.user_time()) + ms(usage.system_time())).unwrap_or(0);
        let (cpu_ms, peak_memory_bytes) =
            (self.sampler.cpu_ms().max(reaped_ms), self.sampler.peak_bytes().max(max_rss));
        let status = self.status.unwrap_or(Status::Signalled(Signal::SIGKILL as i32));
        let has_failed = status != Status::Exited(0);
        let passed = self.passed.or_else(|| self.sampler.last_look(has_failed, cpu_ms, peak_memory_bytes));
        self.returns.read();
        Ok(End {
            status,
            passed,
            wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
            cpu_ms,
            peak_memory_bytes,
            is_sampled: (cpu_ms, peak_memory_bytes) != (reaped_ms, max_rss),
            returned: self.returns.into_value(),
        })
    }
}

fn status_of(status: WaitStatus) -> Status {
    match status.terminating_signal() {
        Some(signal) => Status::Signalled(signal),
        None => Status::Exited(status.exit_status().unwrap_or(-1)),
    }
}

/// What the worker says while the program runs.
struct Orders {
    lines: BufReader<UnixStream>,
    partial: Vec<u8>,
    is_closed: bool,
}

impl Orders {
    fn new(control: &UnixStream) -> anyhow::Result<Self> {
        Ok(Self { lines: BufReader::new(control.try_clone()?), partial: Vec::new(), is_closed: false })
    }

    /// The order that was heard. The worker's end is one: kill at once.
    fn next(&mut self) -> Option<Order> {
        // Every order is one short line in one write; a read after poll does not block.
        match self.lines.read_until(b'\n', &mut self.partial) {
            Ok(1..) if self.partial.ends_with(b"\n") => {
                let line = std::mem::take(&mut self.partial);
                serde_json::from_slice(&line).ok()
            }
            Ok(_) | Err(_) => {
                self.is_closed = true;
                Some(Order::Stop { grace_ms: 0 })
            }
        }
    }
}
