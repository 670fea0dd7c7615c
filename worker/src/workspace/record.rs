//! A tree's record on the disk: what stands in it, and as what it is known. One that has no end is none.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path as FilePath;

use anyhow::{Context as _, bail, ensure};
use protocol::SessionName;
use serde::{Deserialize, Serialize};

use super::entry::{Entry, Laid, Mark, What, hexadecimal};
use super::tree::Tree;

/// The form of the lines below. A record of another form is none.
const FORM: u32 = 1;

/// What is known of a tree without reading all of its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) form: u32,
    pub(super) session: SessionName,
    pub(super) generation: u64,
    pub(super) version: u64,
    /// The slot's user that its files belong to.
    pub(super) owner: Option<u32>,
    /// Bytes that it takes, about.
    pub(super) bytes: u64,
    /// Where the session is: another coordinator may have one of the same name.
    pub(super) coordinator: String,
    /// This start of the machine: after another the disk may have kept less than was written.
    pub(super) boot: String,
}

/// What a head says of where and when it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) coordinator: String,
    pub(super) boot: String,
}

impl Head {
    pub(super) fn of(tree: &Tree, owner: Option<u32>, origin: &Origin) -> Self {
        Self {
            form: FORM,
            session: tree.session.clone(),
            generation: tree.generation,
            version: tree.version,
            owner,
            bytes: tree.disk_bytes(),
            coordinator: origin.coordinator.clone(),
            boot: origin.boot.clone(),
        }
    }

    /// Whether the tree can still be what it was.
    pub(super) fn is_of(&self, origin: &Origin) -> bool {
        self.form == FORM
            && !self.boot.is_empty()
            && (&self.coordinator, &self.boot) == (&origin.coordinator, &origin.boot)
    }
}

/// A path, as short as it can be written: there are many of them.
#[derive(Serialize, Deserialize)]
enum Line {
    /// What stands.
    #[serde(rename = "l")]
    Laid(String, Short, [i64; 7]),
    /// What the version has there.
    #[serde(rename = "d")]
    Drift(String, Option<Short>),
    #[serde(rename = "e")]
    End(u64),
}

#[derive(Serialize, Deserialize)]
enum Short {
    #[serde(rename = "f")]
    File(u64, String, u32, i64),
    #[serde(rename = "d")]
    Directory(u32, i64),
    #[serde(rename = "s")]
    Symlink(String, i64),
}

impl From<&Entry> for Short {
    fn from(entry: &Entry) -> Self {
        match &entry.what {
            What::File { size, sum, mode } => Self::File(*size, hexadecimal(sum), *mode, entry.modified_ms),
            What::Directory { mode } => Self::Directory(*mode, entry.modified_ms),
            What::Symlink { target } => Self::Symlink(target.to_string(), entry.modified_ms),
        }
    }
}

impl TryFrom<Short> for Entry {
    type Error = anyhow::Error;

    fn try_from(short: Short) -> anyhow::Result<Self> {
        let (what, modified_ms) = match short {
            Short::File(size, sum, mode, at) => {
                let sum = super::entry::sum(&sum).context("a record has no sum")?;
                (What::File { size, sum, mode }, at)
            }
            Short::Directory(mode, at) => (What::Directory { mode }, at),
            Short::Symlink(target, at) => (What::Symlink { target: target.into() }, at),
        };
        Ok(Self { what, modified_ms })
    }
}

const fn numbers(mark: &Mark) -> [i64; 7] {
    let Mark { inode, size, mode, modified, changed } = mark;
    [inode.cast_signed(), size.cast_signed(), *mode as i64, modified.0, modified.1, changed.0, changed.1]
}

fn mark(numbers: [i64; 7]) -> anyhow::Result<Mark> {
    let [inode, size, mode, m, m_ns, c, c_ns] = numbers;
    let (inode, size, mode) = (inode.cast_unsigned(), size.cast_unsigned(), u32::try_from(mode)?);
    Ok(Mark { inode, size, mode, modified: (m, m_ns), changed: (c, c_ns) })
}

/// Writes a record.
pub(super) fn write(path: &FilePath, head: &Head, tree: &Tree) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let mut to = BufWriter::with_capacity(64 << 10, file);
    line(&mut to, head)?;
    for (path, laid) in &tree.laid {
        line(&mut to, &Line::Laid(path.to_string(), (&laid.entry).into(), numbers(&laid.mark)))?;
    }
    for (path, was) in &tree.drift {
        line(&mut to, &Line::Drift(path.to_string(), was.as_ref().map(Short::from)))?;
    }
    line(&mut to, &Line::End((tree.laid.len() + tree.drift.len()) as u64))?;
    to.flush()
}

fn line(to: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, line)?;
    to.write_all(b"\n")
}

/// Reads the head of a record.
pub(super) fn head(path: &FilePath) -> anyhow::Result<Head> {
    let mut line = String::new();
    BufReader::new(File::open(path)?).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Reads a whole record.
pub(super) fn read(path: &FilePath) -> anyhow::Result<Tree> {
    let mut from = BufReader::with_capacity(64 << 10, File::open(path)?);
    let mut line = String::new();
    from.read_line(&mut line)?;
    let head: Head = serde_json::from_str(&line)?;
    let mut tree = Tree { generation: head.generation, version: head.version, ..Tree::empty(head.session) };
    let mut count = 0;
    loop {
        line.clear();
        ensure!(from.read_line(&mut line)? > 0, "the record of a tree has no end");
        match serde_json::from_str(&line)? {
            Line::Laid(path, entry, numbers) => {
                let laid = Laid { entry: entry.try_into()?, mark: mark(numbers)? };
                tree.laid.insert(path.into(), laid);
            }
            Line::Drift(path, was) => {
                tree.drift.insert(path.into(), was.map(Entry::try_from).transpose()?);
            }
            Line::End(lines) if lines == count => return Ok(tree),
            Line::End(_) => bail!("the record of a tree lacks some of its lines"),
        }
        count += 1;
    }
}

#[cfg(test)]
mod tests;
