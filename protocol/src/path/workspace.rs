//! Paths inside a workspace: parsed from what a client or a worker wrote, refused by a rule that has a name.

use std::fmt;
use std::str::FromStr;

use super::lookalike::{is_sensitive, skeleton};
use super::{MAX_BYTES, MAX_COMPONENT_BYTES, RelativePath};
use crate::problem::Code;

/// Components of a path at most.
pub const MAX_DEPTH: usize = 100;

/// Where a workspace is mounted in a task, and one of the spellings of its root.
const MOUNT: &str = "/workspace";

/// Why a path is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathRefusal {
    /// Its form: it could lead out of the workspace, or break whoever handles it.
    #[error("not a safe path: {0}")]
    Unsafe(&'static str),
    /// One of its names belongs to credentials.
    #[error("`{0}` is the name of a file with credentials: such names are neither kept nor shown; use another")]
    Sensitive(Box<str>),
    /// It is in an overlay, by whatever spelling.
    #[error("`{0}` belongs to the operator and cannot be changed from a workspace; choose a path outside it")]
    ReadOnly(Overlay),
}

impl PathRefusal {
    /// The code that a client is answered with.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Unsafe(_) => Code::UnsafePath,
            Self::Sensitive(_) => Code::SensitivePath,
            Self::ReadOnly(_) => Code::ReadOnly,
        }
    }
}

/// The directories that the operator lays over every workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Overlay {
    /// `utils/`
    Utils,
    /// `skills/`
    Skills,
}

impl Overlay {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Skills, Self::Utils];

    /// The name at the root of a workspace.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Utils => "utils",
            Self::Skills => "skills",
        }
    }
}

impl fmt::Display for Overlay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/", self.as_str())
    }
}

/// A path below the root of a workspace, without a leading slash: safe in its form and free of names of credentials.
///
/// Bytes are kept as they came: two spellings of one letter are two files, as on the disk.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(Box<str>);

/// What a client names: the root, or a path below it. `x`, `/x` and `/workspace/x` are one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VirtualPath {
    /// The workspace itself: an empty text, `.`, `/` or `/workspace`.
    Root,
    /// A path below it.
    Below(WorkspacePath),
}

impl WorkspacePath {
    /// Checks a path that is written as it is kept: relative, with no leading slash.
    ///
    /// # Errors
    /// The rule that refuses it.
    pub fn from_relative(text: &str) -> Result<Self, PathRefusal> {
        check_form(text)?;
        match text.split('/').find(|component| is_sensitive(component)) {
            Some(component) => Err(PathRefusal::Sensitive(component.into())),
            None => Ok(Self(text.into())),
        }
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its last component.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The directory that it is in, as text; empty for the root.
    #[must_use]
    pub fn parent(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(parent, _)| parent)
    }

    /// The directories above it, from the top, without the root.
    pub fn ancestors(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(end, _)| &self.0[..end])
    }

    /// Whether it is below another path.
    #[must_use]
    pub fn is_below(&self, other: &Self) -> bool {
        self.0.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The overlay that it is in, by whatever spelling of its first component.
    #[must_use]
    pub fn overlay(&self) -> Option<Overlay> {
        let first = skeleton(self.0.split('/').next().unwrap_or_default());
        Overlay::ALL.into_iter().find(|overlay| overlay.as_str() == first)
    }

    /// The path, if it may be changed.
    ///
    /// # Errors
    /// `ReadOnly` when it is in an overlay.
    pub fn writable(self) -> Result<Self, PathRefusal> {
        match self.overlay() {
            Some(overlay) => Err(PathRefusal::ReadOnly(overlay)),
            None => Ok(self),
        }
    }

    /// The same path as one that any file of a task may have.
    #[must_use]
    pub fn to_relative(&self) -> RelativePath {
        // The rules of a workspace's paths are the stricter ones.
        RelativePath(self.0.clone())
    }
}

fn check_form(text: &str) -> Result<(), PathRefusal> {
    let refuse = |why| Err(PathRefusal::Unsafe(why));
    if text.is_empty() || text.len() > MAX_BYTES {
        return refuse("a path has 1 to 1,024 bytes");
    }
    if text.chars().any(char::is_control) {
        return refuse("a path has no NUL and no other control character");
    }
    let mut depth = 0;
    for component in text.split('/') {
        depth += 1;
        match component {
            "" => return refuse("a path has no empty component: no `//` and, as it is kept, no `/` at its ends"),
            "." | ".." => return refuse("a path has no `.` and no `..`: spell it out from the root"),
            long if long.len() > MAX_COMPONENT_BYTES => return refuse("a name has at most 255 bytes"),
            _ => {}
        }
    }
    if depth > MAX_DEPTH { refuse("a path is at most 100 directories deep") } else { Ok(()) }
}

impl VirtualPath {
    /// The path below the root.
    ///
    /// # Errors
    /// `Unsafe` when it is the root itself.
    pub fn below_root(self) -> Result<WorkspacePath, PathRefusal> {
        match self {
            Self::Root => Err(PathRefusal::Unsafe("this names the whole workspace; name a file or directory in it")),
            Self::Below(path) => Ok(path),
        }
    }

    /// The path as text; empty for the root.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Root => "",
            Self::Below(path) => path.as_str(),
        }
    }
}

impl FromStr for VirtualPath {
    type Err = PathRefusal;

    fn from_str(text: &str) -> Result<Self, PathRefusal> {
        let below_mount = text.strip_prefix(MOUNT).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let inside = below_mount.unwrap_or(text);
        let inside = inside.strip_prefix('/').unwrap_or(inside);
        if inside.is_empty() || inside == "." {
            return Ok(Self::Root);
        }
        // A directory may be written with its slash.
        WorkspacePath::from_relative(inside.strip_suffix('/').unwrap_or(inside)).map(Self::Below)
    }
}

impl FromStr for WorkspacePath {
    type Err = PathRefusal;

    /// Reads any of the virtual spellings.
    fn from_str(text: &str) -> Result<Self, PathRefusal> {
        text.parse::<VirtualPath>()?.below_root()
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for WorkspacePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, out)
    }
}

impl serde::Serialize for WorkspacePath {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for WorkspacePath {
    /// Reads the spelling in which paths are kept.
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        Self::from_relative(&text).map_err(serde::de::Error::custom)
    }
}
