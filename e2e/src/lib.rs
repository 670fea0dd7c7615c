//! What the tests of the real binaries share: programs that are started, watched and ended, and the ways to talk to them.
//!
//! Nothing here checks the product; the tests in `tests/it` do. Every program ends when its owner is dropped, and only by
//! its own pid.

pub mod api;
pub mod binaries;
pub mod chance;
pub mod coordinator;
pub mod cw;
pub mod gate;
pub mod mounts;
pub mod preload;
pub mod pretender;
pub mod program;
pub mod proxy;
pub mod wait;
pub mod worker;

pub use api::{Answer, Api, Event};
pub use coordinator::Coordinator;
pub use cw::Ran;
pub use mounts::Mounts;
pub use pretender::Pretender;
pub use program::Program;
pub use wait::{bounded, eventually, eventually_within};
pub use worker::Worker;
