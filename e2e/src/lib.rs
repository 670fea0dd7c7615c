//! The real binaries together.
