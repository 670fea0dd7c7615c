//! Signals as stages of leaving. A stage is never taken back.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How urgently the worker must leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Not at all.
    Run,
    /// Take no more, finish what runs: the first TERM or INT.
    Drain,
    /// End what runs and give it back: the second.
    Cancel,
    /// Leave at once: QUIT. What runs is killed and not given back.
    Leave,
}

impl Stage {
    /// The stages that this process's signals ask for.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn from_signals() -> std::io::Result<watch::Receiver<Self>> {
        let (sender, stages) = watch::channel(Self::Run);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut quit = signal(SignalKind::quit())?;
        tokio::spawn(async move {
            loop {
                let urged = tokio::select! {
                    _ = terminate.recv() => false,
                    _ = interrupt.recv() => false,
                    _ = quit.recv() => true,
                };
                sender.send_modify(|stage| *stage = stage.after(urged));
            }
        });
        Ok(stages)
    }

    fn after(self, quit: bool) -> Self {
        match self {
            _ if quit => Self::Leave,
            Self::Run => Self::Drain,
            Self::Drain | Self::Cancel => Self::Cancel,
            Self::Leave => Self::Leave,
        }
    }
}
