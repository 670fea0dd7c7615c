//! Where the programs under test are: beside the test's own executable.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

/// The built program of that name.
///
/// # Errors
/// When it was not built.
pub fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe().context("finding the test's own executable")?;
    // target/<profile>/deps/<test>
    let profile = test.parent().and_then(Path::parent).context("the test stands in no target directory")?;
    let path = profile.join(name);
    ensure!(path.is_file(), "{} is not there: run `cargo build --workspace` first", path.display());
    Ok(path)
}

/// A script of the repository.
///
/// # Errors
/// When there is none of that name.
pub fn script(name: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(name);
    path.canonicalize().with_context(|| format!("there is no script {}", path.display()))
}
