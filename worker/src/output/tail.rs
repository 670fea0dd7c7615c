//! The newest bytes of a stream: a ring in a file without a name, so that any amount is kept without memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use super::cut;

/// A ring of `room` bytes. The file is made when it is first needed.
pub(crate) struct Tail {
    path: PathBuf,
    file: Option<File>,
    room: u64,
    pushed: u64,
}

impl Tail {
    pub(crate) const fn new(path: PathBuf, room: u64) -> Self {
        Self { path, file: None, room, pushed: 0 }
    }

    /// Adds bytes; the oldest give way. When the disk is full the tail is lost, not the task.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.room == 0 || bytes.is_empty() {
            return;
        }
        if let Err(error) = self.write(bytes) {
            tracing::warn!("cannot keep the end of the output: {error}");
            self.room = 0;
            self.pushed = 0;
        }
    }

    /// How many bytes there are, without a broken character at the beginning.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.pushed.min(self.room) - self.stray()?)
    }

    /// Reads from this place on, counted from the oldest byte; what it says was read is less only at the end.
    pub(crate) fn read(&self, place: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let place = place + self.stray()?;
        self.read_raw(place, buffer)
    }

    /// Bytes at the beginning whose character was overwritten.
    fn stray(&self) -> io::Result<u64> {
        if self.pushed <= self.room {
            return Ok(0);
        }
        let mut first = [0; 3];
        let length = self.read_raw(0, &mut first)?;
        Ok(cut::stray(&first[..length]) as u64)
    }

    fn read_raw(&self, place: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(file) = &self.file else { return Ok(0) };
        let oldest = self.pushed.saturating_sub(self.room);
        let mut done = 0;
        while done < buffer.len() && place + (done as u64) < self.pushed.min(self.room) {
            let at = (oldest + place + done as u64) % self.room;
            let left = self.pushed.min(self.room) - place - done as u64;
            let length = small((self.room - at).min(left)).min(buffer.len() - done);
            file.read_exact_at(&mut buffer[done..done + length], at)?;
            done += length;
        }
        Ok(done)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(nameless(&self.path)?);
        }
        let Some(file) = &self.file else { return Ok(()) };
        // Only the newest can stay: the rest would be overwritten by this very call.
        let skipped = bytes.len().saturating_sub(small(self.room));
        self.pushed += skipped as u64;
        let mut rest = &bytes[skipped..];
        while !rest.is_empty() {
            let at = self.pushed % self.room;
            let length = small(self.room - at).min(rest.len());
            file.write_all_at(&rest[..length], at)?;
            self.pushed += length as u64;
            rest = &rest[length..];
        }
        Ok(())
    }
}

fn small(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn nameless(path: &std::path::Path) -> io::Result<File> {
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
