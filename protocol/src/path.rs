//! Paths that a client or a worker names: types, so that nothing else can reach the disk. `RelativePath` cannot leave its
//! root; `WorkspacePath` also names nothing that a workspace refuses.

mod lookalike;
mod workspace;

use std::fmt;
use std::str::FromStr;

pub use workspace::{MAX_DEPTH, Overlay, PathRefusal, VirtualPath, WorkspacePath};

/// Bytes of a whole path at most.
pub const MAX_BYTES: usize = 1024;
/// Bytes of one of its components at most.
pub const MAX_COMPONENT_BYTES: usize = 255;

/// What is wrong with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// Nothing, or over 1,024 bytes.
    #[error("a path has 1 to 1,024 bytes")]
    Length,
    /// It begins with a slash.
    #[error("a path is relative: no leading `/`")]
    Absolute,
    /// A component that is empty, `.`, `..` or over 255 bytes, or a NUL byte.
    #[error("a path has no empty, `.` or `..` component, none over 255 bytes, and no NUL")]
    Component,
}

/// A relative path with forward slashes that cannot leave its root by its spelling.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelativePath(Box<str>);

impl RelativePath {
    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RelativePath {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(BadPath::Length);
        }
        if text.starts_with('/') {
            return Err(BadPath::Absolute);
        }
        let bad = |part: &str| matches!(part, "" | "." | "..") || part.len() > MAX_COMPONENT_BYTES;
        if text.contains('\0') || text.split('/').any(bad) {
            return Err(BadPath::Component);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, out)
    }
}

impl serde::Serialize for RelativePath {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for RelativePath {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
