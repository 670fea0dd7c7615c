//! Brings contents into the cache and from there into a tree, in batches side by side. A batch is fetched as one stream and
//! laid out as soon as it is there, so that a cache that is smaller than a workspace does, too.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, ensure};
use protocol::workspace::BlobsRequest;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};

use super::cache::{Cache, NotLaid, Pinned};
use super::entry::{Entry, Mark, Path, Sum, What, hexadecimal};
use super::errand::Errand;
use super::frames::{Pieces, take_in};
use super::lay::Hands;

/// Batches at one time.
const LANES: usize = 3;
/// Contents of one batch.
const BATCH: usize = 1024;
/// Their bytes, unless it is a single one.
const BATCH_BYTES: u64 = 32 << 20;
/// Pieces of a stream that wait for the disk.
const PIECES: usize = 16;
/// How often a batch is fetched whose contents do not stay.
const ROUNDS: u32 = 3;

/// A tree that is being laid out.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) root: PathBuf,
    pub(super) trash: PathBuf,
    pub(super) owner: Option<u32>,
}

impl Desk {
    pub(super) fn hands(&self) -> anyhow::Result<Hands> {
        Hands::on(&self.root, &self.trash, self.owner).with_context(|| format!("cannot open {}", self.root.display()))
    }
}

/// A file that was laid out.
pub(super) struct LaidFile {
    pub(super) path: Path,
    pub(super) entry: Entry,
    pub(super) mark: Mark,
}

/// Files that were laid out, and the directories that had to be opened up for them.
#[derive(Default)]
pub(super) struct LaidFiles {
    pub(super) files: Vec<LaidFile>,
    pub(super) opened_up: Vec<String>,
}

/// Files that are fetched and laid out together.
#[derive(Debug, Default)]
struct Batch {
    contents: HashMap<Sum, u64>,
    bytes: u64,
    files: Vec<(Path, Entry)>,
}

/// Lays out files. Nothing works on the tree any more when it returns, however it went.
pub(super) async fn lay_files(
    errand: &Errand,
    cache: &Arc<Cache>,
    desk: &Desk,
    files: Vec<(Path, Entry)>,
) -> anyhow::Result<LaidFiles> {
    let mut batches = batches(files).into_iter();
    let (mut lanes, mut laid, mut failed) = (JoinSet::new(), LaidFiles::default(), None);
    loop {
        while failed.is_none() && lanes.len() < LANES {
            let Some(batch) = batches.next() else { break };
            let (errand, cache, desk) = (errand.clone(), Arc::clone(cache), desk.clone());
            lanes.spawn(async move { lay_batch(&errand, cache, desk, batch).await });
        }
        let Some(done) = lanes.join_next().await else { break };
        match done.map_err(anyhow::Error::from).flatten() {
            Ok(done) => {
                laid.files.extend(done.files);
                laid.opened_up.extend(done.opened_up);
            }
            Err(error) => {
                failed.get_or_insert(error);
                errand.halt();
            }
        }
    }
    failed.map_or(Ok(laid), Err)
}

fn batches(files: Vec<(Path, Entry)>) -> Vec<Batch> {
    let mut of_content: HashMap<Sum, usize> = HashMap::new();
    let mut batches: Vec<Batch> = vec![Batch::default()];
    for (path, entry) in files {
        let What::File { size, sum, .. } = entry.what else { continue };
        let last = batches.len() - 1;
        let at = *of_content.entry(sum).or_insert_with(|| {
            let is_full = batches[last].contents.len() >= BATCH || batches[last].bytes + size > BATCH_BYTES;
            if is_full && !batches[last].contents.is_empty() {
                batches.push(Batch::default());
            }
            let at = batches.len() - 1;
            batches[at].contents.insert(sum, size);
            batches[at].bytes += size;
            at
        });
        batches[at].files.push((path, entry));
    }
    batches
}

async fn lay_batch(errand: &Errand, cache: Arc<Cache>, desk: Desk, batch: Batch) -> anyhow::Result<LaidFiles> {
    let sums: Vec<Sum> = batch.contents.keys().copied().collect();
    let pinned = Arc::new({
        let cache = Arc::clone(&cache);
        spawn_blocking(move || cache.pin(sums)).await?
    });
    let mut files = batch.files;
    let mut laid = LaidFiles::default();
    for _ in 0..ROUNDS {
        fetch(errand, &cache, &pinned, &batch.contents).await?;
        let (errand, cache, desk) = (errand.clone(), Arc::clone(&cache), desk.clone());
        let missing;
        (laid, missing) = spawn_blocking(move || lay(&errand, &cache, &desk, files, laid)).await??;
        if missing.is_empty() {
            return Ok(laid);
        }
        files = missing;
    }
    Err(anyhow!("the cache does not keep what is fetched; look at the disk of the worker"))
}

/// Lays out what the cache has; says what it lacks.
fn lay(
    errand: &Errand,
    cache: &Cache,
    desk: &Desk,
    files: Vec<(Path, Entry)>,
    mut laid: LaidFiles,
) -> anyhow::Result<(LaidFiles, Vec<(Path, Entry)>)> {
    let mut hands = desk.hands()?;
    let mut missing = Vec::new();
    for (path, entry) in files {
        ensure!(errand.is_open(), "the attempt ended meanwhile");
        match hands.make_file(&path, &entry, cache) {
            Ok(mark) => laid.files.push(LaidFile { path, entry, mark }),
            Err(NotLaid::Missing) => missing.push((path, entry)),
            Err(NotLaid::Io(error)) => return Err(error).with_context(|| format!("cannot write `{path}`")),
        }
    }
    laid.opened_up.extend(hands.root.take_opened_up());
    Ok((laid, missing))
}

/// Fetches what is lacking. As long as each try brings something, there is another.
async fn fetch(
    errand: &Errand,
    cache: &Arc<Cache>,
    pinned: &Arc<Pinned>,
    sizes: &HashMap<Sum, u64>,
) -> anyhow::Result<()> {
    loop {
        let lacking: HashMap<Sum, u64> =
            pinned.lacking().into_iter().filter_map(|sum| Some((sum, *sizes.get(&sum)?))).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let lacking = Arc::new(lacking);
        let fetched = errand.patiently(|| {
            let (errand, cache, lacking) = (errand.clone(), Arc::clone(cache), Arc::clone(&lacking));
            async move { errand.unless_halted(fetch_once(&errand, cache, lacking)).await }
        });
        fetched.await.context("cannot fetch the contents of the workspace")?;
    }
}

async fn fetch_once(errand: &Errand, cache: Arc<Cache>, wanted: Arc<HashMap<Sum, u64>>) -> anyhow::Result<()> {
    let mut sha256: Vec<String> = wanted.keys().map(hexadecimal).collect();
    sha256.sort_unstable();
    let mut download = errand.client.blobs(errand.lease, &BlobsRequest { sha256 }).await?;
    let (pieces, from) = mpsc::channel(PIECES);
    let taking = spawn_blocking(move || {
        let mut taken = 0;
        let done = take_in(&mut Pieces::new(from), &wanted, &cache, &mut taken);
        (taken, done)
    });
    let mut broken = None;
    loop {
        match download.next().await {
            Ok(Some(piece)) => {
                // Nobody takes it any more: what is wrong with it is said below.
                if pieces.send(piece).await.is_err() {
                    break;
                }
            }
            Ok(None) => break,
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    drop(pieces);
    let (taken, done) = taking.await?;
    match (done, broken) {
        (Ok(()), _) => Ok(()),
        (Err(error), _) if taken > 0 => {
            tracing::debug!(lease = %errand.lease, "{taken} contents came, then: {error:#}");
            Ok(())
        }
        (Err(_), Some(broken)) => Err(broken.into()),
        (Err(error), None) => Err(error),
    }
}

#[cfg(test)]
mod tests;
