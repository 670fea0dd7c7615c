//! Relays over real sockets on loopback.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod half_close;
mod limits;
mod load;
mod route;
mod stop;
