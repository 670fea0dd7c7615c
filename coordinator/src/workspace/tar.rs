//! Headers of a tar archive (POSIX.1-2001): a block of 512 bytes for each entry, with the path and a link's target in an
//! extended header before it where the block has no room for them.

use protocol::Timestamp;

const BLOCK: usize = 512;
const NAME_BYTES: usize = 100;
const LINK_BYTES: usize = 100;

/// What an entry is, as its type flag says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind<'text> {
    File(u64),
    Directory,
    Symlink(&'text str),
}

/// The header of an entry; a file's bytes follow, then its padding.
pub(super) fn header(path: &str, kind: Kind<'_>, mode: u32, at: Timestamp) -> Vec<u8> {
    let (flag, size, target) = match kind {
        Kind::File(size) => (b'0', size, ""),
        Kind::Directory => (b'5', 0, ""),
        Kind::Symlink(target) => (b'2', 0, target),
    };
    let mut records = String::new();
    if path.len() > NAME_BYTES || !path.is_ascii() {
        records += &record("path", path);
    }
    if target.len() > LINK_BYTES || !target.is_ascii() {
        records += &record("linkpath", target);
    }
    // Beyond 8 GiB the field of the size is too short.
    if size >= 1 << 33 {
        records += &record("size", &size.to_string());
    }
    let block = |path: &str, flag: u8, size: u64| block(&Fields { path, flag, size, target, mode, at });
    let mut bytes = Vec::new();
    if !records.is_empty() {
        bytes.extend(block("pax", b'x', records.len() as u64));
        bytes.extend_from_slice(records.as_bytes());
        bytes.resize(bytes.len() + padding(records.len() as u64), 0);
    }
    bytes.extend(block(path, flag, size));
    bytes
}

/// How many zeros come after so many bytes.
pub(super) const fn padding(size: u64) -> usize {
    // below one block
    #[expect(clippy::cast_possible_truncation, reason = "the rest of a division by 512")]
    let rest = (size % BLOCK as u64) as usize;
    if rest == 0 { 0 } else { BLOCK - rest }
}

/// The end of an archive.
pub(super) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// `LENGTH key=value\n`, in which the length counts itself.
fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n")
}

/// What stands in a block.
struct Fields<'text> {
    path: &'text str,
    flag: u8,
    size: u64,
    target: &'text str,
    mode: u32,
    at: Timestamp,
}

fn block(fields: &Fields<'_>) -> [u8; BLOCK] {
    let Fields { path, flag, size, target, mode, at } = *fields;
    let mut block = [0; BLOCK];
    let mut put = |from: usize, bytes: &[u8]| block[from..from + bytes.len()].copy_from_slice(bytes);
    put(0, &path.as_bytes()[..path.len().min(NAME_BYTES)]);
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000\x000000000\0");
    put(124, format!("{:011o}", if size < 1 << 33 { size } else { 0 }).as_bytes());
    put(136, format!("{:011o}", (at.as_ms().max(0) / 1000).min(0o77_777_777_777)).as_bytes());
    put(148, b"        ");
    put(156, &[flag]);
    put(157, &target.as_bytes()[..target.len().min(LINK_BYTES)]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
