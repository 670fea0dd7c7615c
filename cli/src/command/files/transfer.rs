//! Many files at a time: a few of them at once, what became of them, and a line that says how far it is.

use protocol::path::RelativePath;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::table::bytes;
use crate::task_id::Failures;
use crate::terminal::harmless_line;

/// Files that are under way at one time.
const AT_ONCE: usize = 4;

/// Something that was left out, and why.
#[derive(Debug, Serialize)]
pub(super) struct Skipped {
    path: String,
    why: String,
}

/// What became of a tree.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    pub(super) files: u64,
    pub(super) directories: u64,
    pub(super) links: u64,
    pub(super) bytes: u64,
    pub(super) failed: u64,
    pub(super) skipped: Vec<Skipped>,
}

impl Tally {
    /// Leaves something out.
    pub(super) fn skip(&mut self, path: impl Into<String>, why: impl Into<String>) {
        self.skipped.push(Skipped { path: path.into(), why: why.into() });
    }

    /// Says what was done, and ends with the code of the first failure.
    pub(super) fn conclude(&self, out: &mut Output, done: &str, failures: &Failures) -> Result<Exit> {
        for skipped in &self.skipped {
            out.notice(&harmless_line(&format!("left out: {}: {}", skipped.path, skipped.why)));
        }
        if out.json() {
            out.value(self)?;
        } else {
            let links = if self.links == 0 { String::new() } else { format!(", {} links", self.links) };
            let failed = if self.failed == 0 { String::new() } else { format!("; {} failed", self.failed) };
            let (files, size, directories) = (self.files, bytes(self.bytes), self.directories);
            out.talk(&format!("{done} {files} files ({size}), {directories} directories{links}{failed}"));
        }
        Ok(failures.exit_or(Exit::DONE))
    }
}

/// Runs all jobs, a few at once. A job says how many bytes its file had. What would go wrong with all others too ends
/// everything, and what was under way leaves nothing behind.
pub(super) async fn all<J, W>(
    jobs: Vec<J>,
    start: impl Fn(J) -> W,
    out: &mut Output,
    (tally, failures): (&mut Tally, &mut Failures),
) -> Result<()>
where
    W: Future<Output = Result<u64>> + Send + 'static,
{
    let total = jobs.len();
    let mut jobs = jobs.into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < AT_ONCE {
            let Some(job) = jobs.next() else { break };
            running.spawn(start(job));
        }
        let Some(ended) = running.join_next().await else { return Ok(()) };
        match ended.map_err(|error| Failure::from(std::io::Error::other(error)))? {
            Ok(size) => {
                tally.files += 1;
                tally.bytes += size;
            }
            Err(failure) if failure.exit == Exit::QUOTA => return Err(failure),
            Err(failure) => {
                tally.failed += 1;
                failures.take(out, failure)?;
            }
        }
        out.live(&format!("{} of {total} files, {}", tally.files + tally.failed, bytes(tally.bytes)));
    }
}

/// Whether a link at that path could lead out of the tree that it is in. Steps up are judged only before all others:
/// after them they would be taken from wherever another link leads.
pub(super) fn leads_out(path: &RelativePath, target: &str) -> bool {
    let depth = path.as_str().matches('/').count();
    let mut parts = target.split('/').filter(|part| !matches!(*part, "" | "."));
    let steps_up = parts.by_ref().take_while(|part| *part == "..").count();
    target.starts_with('/') || steps_up > depth || parts.any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::leads_out;

    #[test]
    fn a_link_leads_out_when_any_step_does() {
        let says = |path: &str, target: &str| leads_out(&path.parse().unwrap(), target);
        assert!(!says("a", "b") && !says("a/b", "../c") && !says("a/b/c", "../../d"));
        assert!(says("a", "/etc/passwd") && says("a", "..") && says("a/b", "../../c") && says("a", "../a/b"));
        assert!(says("a", "b/../c"), "b may be a link itself");
    }
}
