//! The file that holds the key: read, checked, never shown.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use reqwest::header::HeaderValue;

use crate::exit::Exit;
use crate::failure::{Failure, Result, plain};

/// More than any key has.
const MAX_BYTES: u64 = 4096;

/// The key as a header. A file that nobody named may be missing: the coordinator then says whether it needs one.
pub(crate) fn read(path: &Path, is_named: bool) -> Result<Option<HeaderValue>> {
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => return Ok(None),
        Err(error) => return Err(bad(path, &plain(&error))),
    };
    let key = text.trim();
    if key.is_empty() {
        return Err(bad(path, "it is empty"));
    }
    let is_word = key.bytes().all(|byte| byte.is_ascii_graphic());
    let header = is_word.then(|| HeaderValue::from_str(&format!("Bearer {key}")).ok()).flatten();
    let mut header = header.ok_or_else(|| bad(path, "it holds something else than one key"))?;
    header.set_sensitive(true);
    Ok(Some(header))
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn bad(path: &Path, what: &str) -> Failure {
    Failure::new(Exit::AUTH, "no_key", format!("cannot use the key file {}: {what}", path.display()))
        .next("name the file that holds the key by --key-file or CW_KEY_FILE")
}

/// What is wrong with who may read the file, and how to put it right.
pub(crate) fn exposure(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).as_ref().map(Metadata::permissions).ok()?.mode() & 0o777;
    let is_exposed = mode & 0o077 != 0;
    is_exposed
        .then(|| format!("{} can be read by others (mode {mode:03o}): chmod 600 {}", path.display(), path.display()))
}
