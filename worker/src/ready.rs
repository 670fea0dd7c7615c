//! What of an attempt can be built before its task is known, which is most of what building costs: the directory, the
//! cgroup, and the stages up to the process that will be the program. A shelf keeps one for each slot that is free; whoever
//! finds none there builds one in the same way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use protocol::Spec;
use tokio::sync::Notify;

use crate::confinement::cgroup::Cgroup;
use crate::confinement::{Confinement, Enforced, Shown, crowd};
use crate::directory::{self, Directory};
use crate::process::{Family, Process, Started};
use crate::slots::Slots;

/// What an attempt has beside its processes.
pub(crate) struct Site {
    pub(crate) directory: Directory,
    pub(crate) cgroup: Option<Cgroup>,
    /// Bytes that are on its disk before the task adds any.
    pub(crate) laid_bytes: u64,
}

impl Site {
    pub(crate) fn make(confinement: &Confinement, slot: u32) -> anyhow::Result<Self> {
        let directory = Directory::create(&confinement.place(slot))?;
        match confinement.cgroup(&directory) {
            Ok(cgroup) => Ok(Self { directory, cgroup, laid_bytes: 0 }),
            Err(error) => {
                let _ = directory::remove(directory.path());
                Err(error).context("cannot make a cgroup")
            }
        }
    }

    /// Lets a task move in: its files, its names, its limits.
    pub(crate) fn move_in(&mut self, spec: &Spec, hosts: &str) -> anyhow::Result<Enforced> {
        self.directory.move_in(spec, hosts)?;
        let limits = Enforced::new(spec);
        let counted_with = self.directory.is_counted_with_worker().then(crowd::with_room);
        let disk_bytes = limits.disk_bytes.saturating_add(self.laid_bytes);
        let limits = Enforced { in_cgroup: self.cgroup.is_some(), counted_with, disk_bytes, ..limits };
        let held = self.cgroup.as_ref().map_or(Ok(()), |cgroup| cgroup.limit(&limits));
        held.context("cannot set the limits of the cgroup")?;
        Ok(limits)
    }

    /// Removes it; its processes must be gone.
    pub(crate) async fn remove(self, keep_directory: bool) {
        let gone = tokio::task::spawn_blocking(move || {
            let cgroup = self.cgroup.map_or(Ok(()), |cgroup| cgroup.remove()).context("its cgroup");
            let directory = if keep_directory { Ok(()) } else { directory::remove(self.directory.path()) };
            cgroup.and(directory.context("its directory"))
        });
        if let Err(error) = gone.await.map_err(anyhow::Error::from).flatten() {
            tracing::warn!("cannot remove all of an attempt: {error:#}");
        }
    }
}

/// An attempt that lacks its task.
pub(crate) struct Ready {
    pub(crate) site: Site,
    pub(crate) stages: Started,
    /// The memory for which its walls were built.
    memory_bytes: u64,
}

impl Ready {
    /// Builds one.
    ///
    /// # Errors
    /// When something cannot be made; `NotBuilt` when it is the walls. Nothing is left then.
    pub(crate) async fn build(
        confinement: &Arc<Confinement>,
        family: &Arc<Family>,
        slot: u32,
        memory_bytes: u64,
    ) -> anyhow::Result<Self> {
        let known = Arc::clone(confinement);
        let site = tokio::task::spawn_blocking(move || Site::make(&known, slot)).await??;
        Self::raise((confinement, family), site, (slot, memory_bytes), None).await
    }

    /// Builds the walls around what is there.
    ///
    /// # Errors
    /// As when all of it is built.
    pub(crate) async fn raise(
        (confinement, family): (&Confinement, &Arc<Family>),
        site: Site,
        (slot, memory_bytes): (u32, u64),
        shown: Option<&Shown>,
    ) -> anyhow::Result<Self> {
        let plan = confinement.stages((&site.directory, site.cgroup.as_ref()), slot, memory_bytes, shown);
        match Process::start(family, &plan).await {
            Ok(stages) => Ok(Self { site, stages, memory_bytes }),
            Err(error) => {
                site.remove(false).await;
                Err(error.into())
            }
        }
    }

    fn is_fit(&self, memory_bytes: u64) -> bool {
        self.memory_bytes == memory_bytes && self.stages.process.is_waiting()
    }

    /// Ends its stages and removes all of it.
    pub(crate) async fn discard(self) {
        self.stages.process.close().await;
        self.site.remove(false).await;
    }
}

/// The ones that wait, by the slot that they are for.
#[derive(Default)]
pub(crate) struct Shelf {
    places: Mutex<Places>,
    wanted: Notify,
}

#[derive(Default)]
struct Places {
    ready: BTreeMap<u32, Ready>,
    is_closed: bool,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the one for this slot, if it is there and fits.
    pub(crate) async fn take(&self, slot: u32, memory_bytes: u64) -> Option<Ready> {
        let ready = self.lock().ready.remove(&slot)?;
        if ready.is_fit(memory_bytes) {
            return Some(ready);
        }
        ready.discard().await;
        None
    }

    /// Keeps one for each of the first `count` slots as long as that slot is free, until the shelf is closed.
    pub(crate) async fn keep_full(
        &self,
        confinement: &Arc<Confinement>,
        family: &Arc<Family>,
        slots: &Slots,
        count: u32,
    ) {
        let memory_bytes = Enforced::usual_memory_bytes();
        loop {
            let wanted = self.wanted.notified();
            tokio::pin!(wanted);
            wanted.as_mut().enable();
            let freed = slots.freed();
            while let Some(slot) = self.first_empty(slots, count) {
                match Ready::build(confinement, family, slot, memory_bytes).await {
                    Ok(ready) => self.put(slot, ready).await,
                    // Whoever needs one builds it, and tells the client what is wrong.
                    Err(error) => {
                        tracing::debug!("nothing is prepared for slot {slot}: {error:#}");
                        break;
                    }
                }
            }
            if self.lock().is_closed {
                return;
            }
            tokio::select! {
                () = wanted => {}
                () = freed => {}
            }
        }
    }

    fn first_empty(&self, slots: &Slots, count: u32) -> Option<u32> {
        let places = self.lock();
        (0..count).find(|slot| !places.is_closed && !places.ready.contains_key(slot) && !slots.is_taken(*slot))
    }

    async fn put(&self, slot: u32, ready: Ready) {
        let unwanted = {
            let mut places = self.lock();
            if places.is_closed { Some(ready) } else { places.ready.insert(slot, ready) }
        };
        if let Some(ready) = unwanted {
            ready.discard().await;
        }
    }

    /// Removes all that is there; nothing is put there any more.
    pub(crate) async fn close(&self) {
        let ready = {
            let mut places = self.lock();
            places.is_closed = true;
            std::mem::take(&mut places.ready)
        };
        self.wanted.notify_one();
        for ready in ready.into_values() {
            ready.discard().await;
        }
    }
}
