//! Builds the confinement once, for real, around a program that tries its walls. What it proved is what the worker offers.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use protocol::{Run, Spec};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::check::Tried;
use super::wire::Note;
use super::{Confinement, INIT, LEVEL, Program};
use crate::directory::{self, Directory};
use crate::process::{Family, Process};

/// How long the probe may take. In gVisor on a busy machine it needs seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tries the walls of a confinement.
///
/// # Errors
/// When it cannot be built at all, with the step that failed and what to do.
pub(crate) async fn probe(confinement: &Confinement, family: &Arc<Family>) -> anyhow::Result<Vec<Tried>> {
    let spec = Spec::new("probe".parse()?, Run::Command { argv: vec![INIT.into()] });
    let directory = Directory::create(&confinement.place(0), &spec)?;
    let tried = timeout(PATIENCE, look(confinement, family, &spec, &directory)).await;
    directory::remove(directory.path())?;
    let mut tried = tried.context("the probe did not end in time")??;
    tried.extend(outer(confinement));
    Ok(tried)
}

async fn look(
    confinement: &Confinement,
    family: &Arc<Family>,
    spec: &Spec,
    directory: &Directory,
) -> anyhow::Result<Vec<Tried>> {
    let bait = TcpListener::bind("127.0.0.1:0")?;
    let argv = vec![INIT.into(), "check".into(), bait.local_addr()?.to_string()];
    let program = Program { argv, ..Program::default() };
    let (plan, cgroup) = confinement.plan(spec, program, directory, 0)?;
    let (mut process, mut stdout, mut stderr) = Process::start(family, &plan).await?;
    let (mut said, mut complaint) = (String::new(), String::new());
    let mut failed = None;
    while let Some(note) = process.note().await {
        match note {
            Note::Unconfined { message } | Note::NotStarted { message, .. } => failed = Some(message),
            Note::Listening | Note::Started => {}
            Note::Ended(_) => break,
        }
    }
    process.close().await;
    stdout.read_to_string(&mut said).await?;
    stderr.read_to_string(&mut complaint).await?;
    if let Some(cgroup) = cgroup {
        cgroup.remove().context("cannot remove the probe's cgroup")?;
    }
    if let Some(message) = failed {
        bail!("{message}");
    }
    serde_json::from_str(&said).with_context(|| format!("the probe ended without an answer: {}", complaint.trim()))
}

/// What is known without a look from inside.
fn outer(confinement: &Confinement) -> Vec<Tried> {
    let tried = |layer: &str, holds, seen: &str| Tried { layer: layer.into(), holds, seen: seen.into() };
    let cgroup = match &confinement.hierarchy {
        Some(super::cgroup::Hierarchy::V2(_)) => tried("cgroup", true, "version 2: memory and processes are held"),
        Some(super::cgroup::Hierarchy::V1 { .. }) => tried("cgroup", true, "version 1: memory and processes are held"),
        None => tried("cgroup", false, "none can be made: memory and processor time are sampled instead"),
    };
    vec![cgroup]
}

/// Layers without which a worker still runs tasks: something else does their work.
pub(crate) fn is_optional(layer: &str) -> bool {
    layer == "cgroup"
}

/// What to do about a layer that does not hold.
pub(crate) fn fix(layer: &str) -> &'static str {
    match layer {
        "uid" => "the user namespace was not made: set user.max_user_namespaces above 0",
        "namespaces" => {
            "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, or an AppArmor profile for bwrap"
        }
        "privileges" | "seccomp" => "the kernel needs CONFIG_SECCOMP_FILTER",
        "rlimits" => "raise nothing: the limit was not kept, which is a bug; please report it",
        "files" => "no --ro-mount may be writable for tasks; if there is none, please report it",
        "network" => "the network namespace was not made: the kernel needs CONFIG_NET_NS",
        "cgroup" => "run the worker as root, or in a systemd unit with Delegate=yes",
        _ => "see docs/security.md",
    }
}

/// The words that go with every lease request: the level, and each layer that holds.
pub(crate) fn proved(tried: &[Tried]) -> Vec<String> {
    let layers = tried.iter().filter(|layer| layer.holds).map(|layer| layer.layer.clone());
    std::iter::once(LEVEL.to_owned()).chain(layers).collect()
}

/// Fails unless every layer that must hold does.
pub(crate) fn require(tried: &[Tried]) -> anyhow::Result<()> {
    let fallen: Vec<String> = tried
        .iter()
        .filter(|layer| !layer.holds && !is_optional(&layer.layer))
        .map(|layer| format!("{} ({}): {}", layer.layer, layer.seen, fix(&layer.layer)))
        .collect();
    ensure!(fallen.is_empty(), "below the minimum confinement: {}", fallen.join("; "));
    Ok(())
}

/// Finds bubblewrap.
///
/// # Errors
/// When it is not there.
pub(crate) fn find_bwrap(path: &str) -> anyhow::Result<PathBuf> {
    let is_program = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let found = path.split(':').map(|directory| Path::new(directory).join("bwrap")).find(|path| is_program(path));
    found.context("bubblewrap is not installed: apt-get install bubblewrap (or your system's like)")
}
