//! The supervisor of one attempt: one thread, one loop. It starts the program, reaps whatever falls to it, and does not
//! leave before every descendant is gone: daemons that left their group and session, and those that ignore TERM, too.
//!
//! It ends them when the program ends, when the worker says so, when the worker is gone, and on TERM. It holds no
//! secret and decides nothing about the task.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait};

use super::{End, Note, Order, Plan, Status, tree};

/// What processes that outlive the program get between TERM and KILL.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);
/// How long to try to kill before the rest is called left over.
const LONGEST_KILL: Duration = Duration::from_secs(10);
/// How often to look for new processes while killing.
const KILL_AGAIN: Duration = Duration::from_millis(5);

/// Runs as the supervisor that the worker on standard input asked for.
pub(crate) fn run() -> ExitCode {
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cw-worker supervise: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn supervise() -> anyhow::Result<()> {
    let control = std::io::stdin().as_fd().try_clone_to_owned().context("no standard input")?;
    let mut control = Control::new(UnixStream::from(control))?;
    let alarm = Alarm::set()?;
    let plan: Plan = control.plan().context("this is started by `cw-worker run`, not by hand")?;
    match start(&plan) {
        Ok(main) => {
            control.say(&Note::Started);
            let end = Tree { main, status: None, ending: None }.watch(&mut control, &alarm)?;
            control.say(&Note::Ended(end));
        }
        Err(error) => control.say(&not_started(&plan, &error)),
    }
    Ok(())
}

fn start(plan: &Plan) -> io::Result<Pid> {
    let stdin = plan.stdin.as_ref().map(File::open).transpose()?.map_or_else(Stdio::null, Stdio::from);
    let program = plan.argv.first().ok_or(ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(&plan.argv[1..]).env_clear().envs(&plan.env).current_dir(&plan.directory).stdin(stdin);
    let child = command.process_group(0).spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the program has no process id"))
}

fn not_started(plan: &Plan, error: &io::Error) -> Note {
    let program = plan.argv.first().map_or("", String::as_str);
    let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
    let why = if code == 127 { "not found".to_owned() } else { error.to_string() };
    Note::NotStarted { code, message: format!("{program}: {why}") }
}

/// The program and everything below it.
struct Tree {
    main: Pid,
    status: Option<Status>,
    ending: Option<Ending>,
}

/// When the time for TERM, and that for KILL, is over.
struct Ending {
    kill_at: Instant,
    give_up_at: Instant,
}

impl Tree {
    fn watch(mut self, control: &mut Control, alarm: &Alarm) -> anyhow::Result<End> {
        while self.reap() {
            if self.status.is_some() {
                self.end_within(LEFTOVER_GRACE);
            }
            let now = Instant::now();
            match &self.ending {
                Some(ending) if now >= ending.give_up_at => return self.end(true),
                Some(ending) if now >= ending.kill_at => self.signal(Signal::KILL),
                Some(_) | None => {}
            }
            match wait_for(control, alarm, self.next_wake(now))? {
                Some(Order::Stop { grace_ms }) => self.end_within(Duration::from_millis(grace_ms)),
                None => {}
            }
        }
        self.end(false)
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

    /// Begins to end everything, or hurries an end that has begun.
    fn end_within(&mut self, grace: Duration) {
        let kill_at = Instant::now() + grace.min(Duration::from_secs(3600));
        if self.ending.as_ref().is_none_or(|ending| kill_at < ending.kill_at) {
            if self.ending.is_none() && !grace.is_zero() {
                self.signal(Signal::TERM);
                self.signal(Signal::CONT);
            }
            self.ending = Some(Ending { kill_at, give_up_at: kill_at + LONGEST_KILL });
        }
    }

    fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            let _ = kill_process_group(self.main, signal);
        }
        for pid in tree::descendants(getpid()) {
            let _ = kill_process(pid, signal);
        }
    }

    fn next_wake(&self, now: Instant) -> Option<Duration> {
        let ending = self.ending.as_ref()?;
        Some(if now >= ending.kill_at { KILL_AGAIN } else { ending.kill_at - now })
    }

    fn end(&self, left_over: bool) -> anyhow::Result<End> {
        use nix::sys::resource::{UsageWho, getrusage};
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot read what the processes used")?;
        let ms = |time: nix::sys::time::TimeVal| time.tv_sec() * 1000 + time.tv_usec() / 1000;
        Ok(End {
            status: self.status.unwrap_or(Status::Signalled(Signal::KILL.as_raw())),
            cpu_ms: u64::try_from(ms(usage.user_time()) + ms(usage.system_time())).unwrap_or(0),
            peak_memory_bytes: u64::try_from(usage.max_rss()).unwrap_or(0) * 1024,
            left_over,
        })
    }
}

fn status_of(status: WaitStatus) -> Status {
    match status.terminating_signal() {
        Some(signal) => Status::Signalled(signal),
        None => Status::Exited(status.exit_status().unwrap_or(-1)),
    }
}

/// Waits for an order, a dead child, a signal or the time. The worker's end and TERM are orders, too.
fn wait_for(control: &mut Control, alarm: &Alarm, time: Option<Duration>) -> anyhow::Result<Option<Order>> {
    if !control.lines.buffer().is_empty() {
        return Ok(control.order());
    }
    let mut ready = [PollFd::new(&alarm.wakes, PollFlags::IN), PollFd::new(control.lines.get_ref(), PollFlags::IN)];
    let ready = if control.is_closed { &mut ready[..1] } else { &mut ready[..] };
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    match poll(ready, time.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error).context("cannot wait for the processes"),
    }
    let heard = ready.get(1).is_some_and(|control| !control.revents().is_empty());
    alarm.clear();
    if alarm.terminated.swap(false, Ordering::Relaxed) {
        return Ok(Some(Order::Stop { grace_ms: 1000 }));
    }
    Ok(if heard { control.order() } else { None })
}

/// SIGCHLD and SIGTERM, as something to wait for.
struct Alarm {
    wakes: UnixStream,
    terminated: Arc<AtomicBool>,
}

impl Alarm {
    /// Also makes this process a reaper, the leader of a session of its own (no terminal's Ctrl-C reaches it), and
    /// unreadable for the task.
    fn set() -> anyhow::Result<Self> {
        use signal_hook::consts::{SIGCHLD, SIGTERM};
        rustix::process::set_child_subreaper(Some(getpid())).context("cannot become a reaper")?;
        rustix::process::setsid().context("cannot begin a session")?;
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
        // A task can stop its supervisor: the worker's death wakes it, and it finds the socket closed.
        rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
        let (wakes, rings) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        let terminated = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGTERM, Arc::clone(&terminated))?;
        signal_hook::low_level::pipe::register(SIGTERM, rings.try_clone()?)?;
        signal_hook::low_level::pipe::register(SIGCHLD, rings)?;
        Ok(Self { wakes, terminated })
    }

    fn clear(&self) {
        use std::io::Read as _;
        let mut rings = [0; 64];
        while matches!((&self.wakes).read(&mut rings), Ok(1..)) {}
    }
}

/// The worker's end of the socket.
struct Control {
    lines: BufReader<UnixStream>,
    partial: Vec<u8>,
    is_closed: bool,
}

impl Control {
    fn new(socket: UnixStream) -> anyhow::Result<Self> {
        socket.set_nonblocking(false)?;
        Ok(Self { lines: BufReader::new(socket), partial: Vec::new(), is_closed: false })
    }

    fn plan(&mut self) -> anyhow::Result<Plan> {
        let mut line = Vec::new();
        self.lines.read_until(b'\n', &mut line)?;
        Ok(serde_json::from_slice(&line)?)
    }

    /// The order that was heard. The worker's end is one: kill at once.
    fn order(&mut self) -> Option<Order> {
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

    /// A worker that is gone hears nothing; the order for that case comes by itself.
    fn say(&mut self, note: &Note) {
        if let Ok(mut line) = serde_json::to_vec(note) {
            line.push(b'\n');
            let _ = self.lines.get_mut().write_all(&line);
        }
    }
}
