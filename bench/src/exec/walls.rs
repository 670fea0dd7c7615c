//! Other ways to put walls around a program, as arguments before it. A tool that is not installed is told, never left out.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

/// Links to, or directories of, programs and libraries, beside /usr.
const SYSTEM: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// A way to start a program.
pub(super) struct Wall {
    pub(super) name: &'static str,
    /// What stands before the program; or how to get the tool when it is not here.
    pub(super) arguments: Result<Vec<String>, String>,
}

impl Wall {
    /// No wall at all.
    pub(super) fn bare() -> Self {
        Self { name: "bare", arguments: Ok(Vec::new()) }
    }
}

/// The floor, and the tools that people use. gVisor keeps its state in `state`.
pub(super) fn peers(state: &Path) -> Vec<Wall> {
    let unshare = installed("unshare", "apt-get install util-linux", words("unshare -r -m -n -p -f -i -u"));
    let firejail = words("firejail --quiet --noprofile --net=none --private-tmp --");
    vec![
        Wall { name: "bare unshare: the floor", arguments: unshare },
        Wall { name: "bwrap", arguments: installed("bwrap", "apt-get install bubblewrap", bubblewrap()) },
        Wall { name: "firejail", arguments: installed("firejail", "apt-get install firejail", firejail) },
        Wall { name: "runsc do (gVisor)", arguments: gvisor(state) },
    ]
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn installed(program: &str, how_to_get: &str, arguments: Vec<String>) -> Result<Vec<String>, String> {
    let found = Command::new(program).arg("--version").output();
    if found.is_ok() { Ok(arguments) } else { Err(how_to_get.to_owned()) }
}

/// With what a program needs to start, and no more.
fn bubblewrap() -> Vec<String> {
    let mut arguments = words("bwrap --unshare-all --die-with-parent --new-session --ro-bind /usr /usr");
    for place in SYSTEM {
        match std::fs::read_link(place) {
            Ok(target) => arguments.extend(["--symlink".to_owned(), target.display().to_string(), place.to_owned()]),
            Err(_) if Path::new(place).is_dir() => arguments.extend(["--ro-bind", place, place].map(str::to_owned)),
            Err(_) => {}
        }
    }
    arguments.extend(words("--proc /proc --dev /dev --tmpfs /tmp"));
    arguments
}

fn gvisor(state: &Path) -> Result<Vec<String>, String> {
    let program = runsc().map_err(|error| format!("{error:#}"))?;
    let root = format!("--root={}", state.display());
    let flags = ["--platform=systrap", "--network=none", "--ignore-cgroups", "do"].map(str::to_owned);
    Ok([program.display().to_string(), root].into_iter().chain(flags).collect())
}

/// gVisor's program, as `scripts/fetch` got it.
pub(super) fn runsc() -> Result<PathBuf> {
    anyhow::ensure!(rustix::process::getuid().is_root(), "run this as root, which gVisor needs here");
    Ok(fetched("runsc")?.join("usr/bin/runsc"))
}

/// What `scripts/fetch` made or found.
pub(super) fn fetched(what: &str) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/fetch");
    let output = Command::new(script).arg(what).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "scripts/fetch {what}: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}
