//! The task's /etc, made once at the worker's start and mounted as one: copies of what programs need there and what holds
//! no secret. Users, groups and the ways to look up names are the task's own.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// What is copied, as far as everybody may read it.
const COPIED: &[&str] = &[
    "alternatives",
    "ca-certificates",
    "debian_version",
    "fonts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "protocols",
    "python3",
    "python3.11",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// Files of the task's own. The names that it can look up differ from task to task, and are mounted on the last one.
const OWN: [(&str, &str); 4] = [
    ("passwd", "task:x:1000:1000:task:/home/task:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"),
    ("group", "task:x:1000:\nnogroup:x:65534:\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"),
    ("hosts", ""),
];

/// The names in the system's own /etc that a task may read where there are no mounts.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    COPIED.iter().copied().chain(OWN.iter().map(|(name, _)| *name))
}

/// The largest file that is copied, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Makes it below `to`.
pub(crate) fn make(to: &Path) -> io::Result<()> {
    make_directory(to)?;
    for name in COPIED {
        if let Some(parent) = Path::new(name).parent() {
            make_directory(&to.join(parent))?;
        }
        copy(&Path::new("/etc").join(name), &to.join(name))?;
    }
    for (name, text) in OWN {
        fs::write(to.join(name), text)?;
        fs::set_permissions(to.join(name), fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// Copies a file, a link or a directory with all that is in it. What is missing or closed to others is left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(from) else { return Ok(()) };
    let is_open_to_all = |bits: u32| found.permissions().mode() & bits == bits;
    if found.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if found.is_file() && is_open_to_all(0o004) && found.len() <= MAX_FILE_BYTES {
        fs::copy(from, to)?;
        return fs::set_permissions(to, fs::Permissions::from_mode(0o644));
    }
    if found.is_dir() && is_open_to_all(0o005) {
        make_directory(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}

fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests;
