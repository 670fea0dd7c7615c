//! How to start what is missing, in commands that can be copied. Starts nothing.

use std::ffi::OsStr;
use std::path::Path;

const QUICKSTART: &str = "run scripts/quickstart again";

/// How to start a worker for that repo.
pub(crate) fn worker(repo: &str, key_file: &Path) -> String {
    if is_of_quickstart(key_file) {
        return QUICKSTART.to_owned();
    }
    format!(
        "cw keys create --role worker --repo {repo} --save FILE; CW_REPO={repo} CW_KEY_FILE=FILE cw-worker run \
         (on another machine: CW_COORDINATOR too)"
    )
}

/// How to start the coordinator.
pub(crate) fn coordinator(key_file: &Path) -> String {
    let start = if is_of_quickstart(key_file) { QUICKSTART } else { "start it with `cw-coordinator`" };
    format!("{start}, or say where it is by CW_COORDINATOR; `cw doctor` checks all of it")
}

/// Whether quickstart made the key, and so everything else.
fn is_of_quickstart(key_file: &Path) -> bool {
    key_file.components().any(|part| part.as_os_str() == OsStr::new(".quickstart"))
}
