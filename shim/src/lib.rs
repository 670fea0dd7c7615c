//! Carries connections from a listener to one far side, byte for byte, and never parses what it carries.
//!
//! From the outside in: `serve` accepts and starts connections, `limits` says how many and for how long, `endpoint` is
//! where they lead, `stream` a socket of either kind, `relay` moves the bytes, `counters` counts them. It knows nothing
//! of tasks, workers or coordinators.

mod counters;
mod endpoint;
mod limits;
mod relay;
mod serve;
mod stream;

pub use counters::Counters;
pub use endpoint::{BadEndpoint, Endpoint, Lookups};
pub use limits::{Gate, Limits};
pub use relay::{BUFFER_BYTES, Carried, End, relay};
pub use serve::{Listener, serve};
pub use stream::Stream;
