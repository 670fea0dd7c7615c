//! The one word that everything which waits also listens for.

use tokio::sync::watch;

/// Says when to stop.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// Hears when to stop.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// A pair of the two.
#[must_use]
pub fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Everything that waits goes home now.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Whether it is time to stop.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is time to stop; a trigger that is gone says so too.
    pub async fn requested(&self) {
        // An error means that the trigger is gone.
        drop(self.0.clone().wait_for(|stop| *stop).await);
    }
}
