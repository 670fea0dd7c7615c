//! Libraries that change what the system says to a program: another time, a disk that fails.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use tokio::process::Command;

/// A library under which the wall clock can be stepped; the monotonic one stays.
///
/// # Errors
/// When it is not installed.
pub fn faketime() -> anyhow::Result<PathBuf> {
    let libraries = std::fs::read_dir("/usr/lib")?.flatten();
    let found = libraries.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1")).find(|path| path.is_file());
    found.context("libfaketime is not installed: run `apt-get install libfaketime`")
}

/// Under this, every fsync fails with EIO as long as the file exists that `FAIL_SYNC_WHILE` names.
const FAILING_SYNC: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int must_fail(void) {
    const char *file = getenv("FAIL_SYNC_WHILE");
    return file && access(file, F_OK) == 0;
}
#define WRAP(name) \
    int name(int fd) { \
        if (must_fail()) { errno = EIO; return -1; } \
        int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        return real(fd); \
    }
WRAP(fsync)
WRAP(fdatasync)
"#;

/// Builds the library of the failing fsync.
///
/// # Errors
/// When there is no C compiler.
pub async fn failing_sync(directory: &Path) -> anyhow::Result<PathBuf> {
    let (source, library) = (directory.join("failing_sync.c"), directory.join("failing_sync.so"));
    std::fs::write(&source, FAILING_SYNC)?;
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
    let status = command.status().await.context("there is no C compiler: run `apt-get install gcc libc6-dev`")?;
    ensure!(status.success(), "the library of the failing fsync does not build: {status}");
    Ok(library)
}
