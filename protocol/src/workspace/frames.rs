//! The binary streams between a worker and the coordinator: contents that go down, a stage that comes up.
//!
//! A frame is the length of its header (4 bytes, the most significant first), the header as JSON, and as many bytes as the
//! header's `size` says. The last frame is an explicit end with the number of those before it, so that a stream that was cut
//! is never taken for a whole one.

use serde::{Deserialize, Serialize};

/// Bytes of a header at most.
pub const MAX_HEADER_BYTES: usize = 16 << 10;

/// A frame of contents that go down to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BlobFrame {
    /// The bytes with this sum follow.
    Blob {
        /// Their SHA-256, in hexadecimal.
        sha256: String,
        /// How many they are.
        size: u64,
    },
    /// Nothing follows.
    End {
        /// How many frames there were.
        count: u64,
    },
}

/// A frame of a stage that comes up from a worker. Paths are as the manifest writes them; of each there is one frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StageFrame {
    /// A file whose bytes follow.
    File {
        /// Where it is.
        path: String,
        /// Permission bits; setuid, setgid and sticky bits are dropped.
        mode: u32,
        /// How many bytes follow.
        size: u64,
    },
    /// A directory, empty or not. Those above a file need no frame.
    Directory {
        /// Where it is.
        path: String,
        /// Permission bits.
        mode: u32,
    },
    /// A symlink.
    Symlink {
        /// Where it is.
        path: String,
        /// Where it points, as it is written.
        target: String,
    },
    /// A path that is gone, with all that was below it.
    Delete {
        /// Where it was.
        path: String,
    },
    /// Nothing follows.
    End {
        /// How many frames there were.
        count: u64,
    },
}

/// A frame's first bytes: the length of the header, and the header.
///
/// # Errors
/// None for the frames of this module: it has the shape of the encoder.
pub fn encode<T: Serialize>(header: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, header)?;
    let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}
