//! The descriptor for the return value: read while the program runs, up to a cap. Whatever comes is data.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::super::wire::Returned;

/// The largest return value that is kept, in bytes.
pub(crate) const MAX_RETURN_BYTES: usize = 512 << 10;

/// Our end of the pipe, and what came over it.
pub(super) struct ReturnPipe {
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
    is_too_large: bool,
}

impl ReturnPipe {
    /// Both ends.
    pub(super) fn new() -> rustix::io::Result<(Self, OwnedFd)> {
        let (reads, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reads, true)?;
        Ok((Self { pipe: Some(reads), bytes: Vec::new(), is_too_large: false }, writes))
    }

    /// Nothing will come.
    pub(super) fn close(&mut self) {
        self.pipe = None;
    }

    /// What to wait for, as long as more may come.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd as _;
        self.pipe.as_ref().map(|pipe| pipe.as_fd())
    }

    /// Reads all that is there. Over the cap the pipe is closed, and who writes hears of it.
    pub(super) fn read(&mut self) {
        let mut buffer = [0; 64 << 10];
        while let Some(pipe) = &self.pipe {
            match rustix::io::read(pipe, &mut buffer) {
                Ok(length @ 1..) => self.bytes.extend_from_slice(&buffer[..length]),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => self.pipe = None,
            }
            if self.bytes.len() > MAX_RETURN_BYTES {
                (self.pipe, self.is_too_large) = (None, true);
            }
        }
    }

    pub(super) fn into_value(self) -> Returned {
        match self {
            Self { is_too_large: true, .. } => Returned::TooLarge,
            Self { bytes, .. } if bytes.is_empty() => Returned::Nothing,
            Self { bytes, .. } => Returned::Text(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}
