//! Signals as something to wait for: a child is dead, or the stage before this one is. Those that pid 1 does not handle do
//! not reach it.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::consts::{SIGCHLD, SIGTERM};

use super::super::gvisor;

/// What wakes the loop.
pub(super) struct Alarm {
    wakes: UnixStream,
    is_orphaned: Arc<AtomicBool>,
}

impl Alarm {
    /// On Linux this stage dies with the one before it, and the kernel ends all processes of the namespace. gVisor would
    /// let them live: there it hears of that death instead, and ends them itself.
    pub(super) fn set() -> anyhow::Result<Self> {
        let (wakes, rings) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        let is_orphaned = Arc::new(AtomicBool::new(false));
        if gvisor::is_kernel() {
            signal_hook::flag::register(SIGTERM, Arc::clone(&is_orphaned))?;
            signal_hook::low_level::pipe::register(SIGTERM, rings.try_clone()?)?;
            set_parent_process_death_signal(Some(Signal::TERM))?;
        }
        signal_hook::low_level::pipe::register(SIGCHLD, rings)?;
        Ok(Self { wakes, is_orphaned })
    }

    pub(super) const fn wakes(&self) -> &UnixStream {
        &self.wakes
    }

    /// Whether the stage before this one is dead.
    pub(super) fn is_orphaned(&self) -> bool {
        self.is_orphaned.load(Ordering::SeqCst)
    }

    pub(super) fn clear(&self) {
        let mut rings = [0; 64];
        while matches!((&self.wakes).read(&mut rings), Ok(1..)) {}
    }
}
