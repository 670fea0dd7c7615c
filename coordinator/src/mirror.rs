//! The published copy: plain objects at `<session>/<path>`, for people with tools of their own. What changed stands in an
//! outbox that is written with the change; one consumer works it off, so the last state wins, and after a crash it goes on
//! where it was. Nobody here reads the copy, except `import`, which finds what others put there.

mod import;

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use protocol::SessionName;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::objects::Objects;
use crate::queue::Queue;
use crate::store::{Done, MirrorFile, MirrorPart, Mirrored, Store, StoreError, ToMirror};

pub use import::Import;

/// Copies side by side.
const AT_ONCE: usize = 16;
/// The outbox is looked at so often even when nobody says that it has something.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// After a pass that failed the next waits longer and longer, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Who waits for the copy, and what is asked for first.
#[derive(Default)]
pub struct Mirror {
    first: Mutex<Vec<(SessionName, String)>>,
    bell: Notify,
    rounds: watch::Sender<u64>,
}

impl Mirror {
    /// Something is in the outbox.
    pub fn changed(&self) {
        self.bell.notify_one();
    }

    fn ask(&self, session: &SessionName, path: &str) {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).push((session.clone(), path.to_owned()));
        self.changed();
    }

    fn take_first(&self) -> Vec<(SessionName, String)> {
        std::mem::take(&mut self.first.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Queue {
    /// Waits until a path of a session is copied, but no longer than this; says whether it is. The change itself is safe
    /// either way.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn mirrored_within(
        &self,
        session: &SessionName,
        path: &str,
        patience: Duration,
    ) -> Result<bool, StoreError> {
        self.copying().mirrored_within(session, path, patience).await
    }

    fn copying(&self) -> Copying<'_> {
        Copying { mirror: &self.mirror, store: &self.store, objects: &self.objects }
    }
}

/// Runs until the queue stops; the first pass is at once.
pub async fn run(queue: &Queue) {
    let mut pause = LOOK_EVERY;
    while !queue.shutdown.is_requested() {
        pause = match queue.copying().one_pass().await {
            Ok(None) => LOOK_EVERY,
            Ok(Some(error)) => {
                tracing::warn!(%error, "could not bring the published copy up to date; it is tried again");
                (pause * 2).min(LONGEST_PAUSE)
            }
            Err(error) => {
                tracing::error!(%error, "could not read what is to be copied; it is tried again");
                (pause * 2).min(LONGEST_PAUSE)
            }
        };
        tokio::select! {
            () = queue.mirror.bell.notified() => {}
            () = tokio::time::sleep(pause) => {}
            () = queue.shutdown.requested() => {}
        }
    }
}

/// The copy, and all that it is made from.
#[derive(Clone, Copy)]
struct Copying<'a> {
    mirror: &'a Mirror,
    store: &'a Store,
    objects: &'a Objects,
}

impl Copying<'_> {
    async fn mirrored_within(self, session: &SessionName, path: &str, patience: Duration) -> Result<bool, StoreError> {
        let mut rounds = self.mirror.rounds.subscribe();
        self.mirror.ask(session, path);
        let waiting = async {
            while self.store.is_mirror_pending(session.clone(), path.to_owned()).await? {
                // The sender lives as long as the queue does.
                let _ = rounds.changed().await;
            }
            Ok(true)
        };
        timeout(patience, waiting).await.unwrap_or(Ok(false))
    }

    /// Works the outbox off once, what was asked for first; gives the first error of the object store. What failed stays.
    async fn one_pass(self) -> Result<Option<io::Error>, StoreError> {
        let mut failed = None;
        let (mut session, mut path) = (String::new(), String::new());
        loop {
            for (session, path) in self.mirror.take_first() {
                let rows = self.store.to_mirror(MirrorPart::One(session, path)).await?;
                failed = failed.or(self.copy(rows).await?);
            }
            let rows = self.store.to_mirror(MirrorPart::After(session, path)).await?;
            let Some(last) = rows.last() else { return Ok(failed) };
            (session, path) = (last.session.to_string(), last.path.clone());
            failed = failed.or(self.copy(rows).await?);
            if failed.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::HostUnreachable) {
                return Ok(failed);
            }
        }
    }

    /// What is gone goes first: a store may have no place for a file where a folder was.
    async fn copy(self, rows: Vec<ToMirror>) -> Result<Option<io::Error>, StoreError> {
        let (mut done, mut failed) = (Vec::new(), None);
        let (gone, there): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.file.is_none());
        let (sessions, paths): (Vec<_>, Vec<_>) = gone.into_iter().partition(|row| row.path.is_empty());
        for row in sessions {
            match self.empty(&row.session).await {
                Ok(()) => done.push(Mirrored { row, done: Done::Removed }),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let names =
            paths.iter().filter(|row| row.may_have_copy).map(name).filter(|name| self.objects.refuses(name).is_none());
        match self.objects.unpublish(names.collect()).await {
            Ok(()) => done.extend(paths.into_iter().map(|row| Mirrored { row, done: Done::Removed })),
            Err(error) => failed = failed.or(Some(error)),
        }
        self.publish_all(there, &mut done, &mut failed).await?;
        self.store.mirrored(done).await?;
        self.mirror.rounds.send_modify(|rounds| *rounds += 1);
        Ok(failed)
    }

    async fn empty(self, session: &SessionName) -> io::Result<()> {
        let copies = self.objects.published(session.as_str()).await?;
        self.objects.unpublish(copies.into_iter().map(|copy| copy.name).collect()).await
    }

    async fn publish_all(
        self,
        rows: Vec<ToMirror>,
        done: &mut Vec<Mirrored>,
        failed: &mut Option<io::Error>,
    ) -> Result<(), StoreError> {
        let mut publishing = JoinSet::new();
        let mut rows = rows.into_iter();
        loop {
            while publishing.len() < AT_ONCE
                && let Some(row) = rows.next()
            {
                let objects = self.objects.clone();
                publishing.spawn(async move { publish(&objects, row).await });
            }
            let Some(published) = publishing.join_next().await else { return Ok(()) };
            match published.map_err(io::Error::from).flatten() {
                Ok(published) => done.push(published),
                Err(error) => *failed = failed.take().or(Some(error)),
            }
        }
    }
}

async fn publish(objects: &Objects, row: ToMirror) -> io::Result<Mirrored> {
    let name = name(&row);
    if let Some(problem) = objects.refuses(&name) {
        // Once: the outbox has the path again with every change of the file.
        if row.problem.as_ref() != Some(&problem) {
            tracing::warn!(session = %row.session, path = row.path, problem, "this file has no plain object");
        }
        return Ok(Mirrored { row, done: Done::Refused(problem) });
    }
    let Some(MirrorFile { blob, .. }) = &row.file else { return Err(io::ErrorKind::NotFound.into()) };
    let copy = objects.publish(blob, &name).await?;
    Ok(Mirrored { row, done: Done::Copied { size: copy.size, tag: copy.tag } })
}

fn name(row: &ToMirror) -> String {
    format!("{}/{}", row.session, row.path)
}

#[cfg(test)]
mod tests;
