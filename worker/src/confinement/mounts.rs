//! What a task sees of the file system, as bubblewrap's arguments: system directories read-only, an /etc and directories
//! of its own, and nothing else. The root itself is read-only at the end.

use std::path::{Path, PathBuf};

use protocol::path::Overlay;

use super::{HOME, INIT, Maker, Shown, TASK, TEMPORARY, WORK};

/// Where `enter` can mount the attempt's directory, for bubblewrap to take it from: whatever is there is hidden meanwhile.
const STAGINGS: &[&str] = &["/mnt", "/media", "/srv", "/var/tmp", "/tmp"];

/// The first of them that is there and hides nothing that tasks may read.
pub(crate) fn staging(ro_mounts: &[PathBuf]) -> Option<&'static str> {
    let hides = |staging: &Path| ro_mounts.iter().any(|mount| mount.starts_with(staging));
    STAGINGS.iter().copied().find(|staging| Path::new(staging).is_dir() && !hides(Path::new(staging)))
}

/// A top directory of the system, as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum System {
    /// A directory of its own.
    Directory(&'static str),
    /// A link, as to `usr/bin`.
    Link(&'static str, PathBuf),
}

/// The system's directories that a program may need.
pub(crate) const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// The place where the overlays are, below the attempt's directory.
pub(crate) const OVERLAYS: &str = "overlays";

/// The arguments that come before the program's name.
pub(crate) fn arguments(
    maker: &Maker,
    ro_mounts: &[PathBuf],
    system: &[System],
    shared_memory_bytes: u64,
    shown: Option<&Shown>,
) -> Vec<String> {
    let staging = maker.staging;
    let mut args = Arguments(vec![maker.bwrap.display().to_string()]);
    args.add("--unshare-pid --unshare-ipc --unshare-uts --die-with-parent --new-session --as-pid-1");
    args.add("--cap-drop ALL --cap-add CAP_SETFCAP --cap-add CAP_DAC_READ_SEARCH --cap-add CAP_NET_BIND_SERVICE --hostname task");
    for entry in system {
        match entry {
            System::Directory(path) => args.mount("--ro-bind", path, path),
            System::Link(path, target) => args.mount("--symlink", &target.display().to_string(), path),
        }
    }
    args.add("--proc /proc --dev /dev");
    args.add(&format!("--size {shared_memory_bytes} --tmpfs /dev/shm --remount-ro /dev"));
    args.mount("--ro-bind", &format!("{staging}/etc"), "/etc");
    args.mount("--ro-bind", &format!("{staging}/hosts"), "/etc/hosts");
    let work = if shown.is_some_and(|shown| shown.is_read_only) { "--ro-bind" } else { "--bind" };
    args.mount(work, &format!("{staging}/work"), WORK);
    for overlay in shown.iter().flat_map(|_| Overlay::ALL) {
        let name = overlay.as_str();
        args.mount("--ro-bind", &format!("{staging}/{OVERLAYS}/{name}"), &format!("{WORK}/{name}"));
    }
    args.mount("--bind", &format!("{staging}/home"), HOME);
    args.mount("--ro-bind", &format!("{staging}/task"), TASK);
    args.mount("--ro-bind", &format!("{staging}/init"), INIT);
    args.mount("--bind", &format!("{staging}/tmp"), TEMPORARY);
    for path in ro_mounts {
        let path = path.display().to_string();
        args.mount("--ro-bind", &path, &path);
    }
    args.add("--remount-ro /");
    args.mount("--chdir", WORK, INIT);
    args.add("init");
    args.0
}

/// The system's directories as they are on this machine.
pub(crate) fn system() -> Vec<System> {
    let found = |path: &&'static str| match std::fs::read_link(path) {
        Ok(target) => Some(System::Link(path, target)),
        Err(_) => Path::new(path).is_dir().then_some(System::Directory(path)),
    };
    SYSTEM.iter().filter_map(found).collect()
}

/// The names that a task can look up when it may reach nothing.
pub(crate) const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost\n";

struct Arguments(Vec<String>);

impl Arguments {
    fn add(&mut self, words: &str) {
        self.0.extend(words.split(' ').map(str::to_owned));
    }

    fn mount(&mut self, flag: &str, from: &str, to: &str) {
        self.0.extend([flag, from, to].map(str::to_owned));
    }
}

#[cfg(test)]
mod tests;
