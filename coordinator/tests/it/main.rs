//! The coordinator on a real listener, over real HTTP. Each test starts its own, on ports that the system chooses and in a
//! state directory of its own; its name is the claim.

#![allow(clippy::unwrap_used, reason = "a test whose set-up fails must fail")]

mod answer;
mod artifacts;
mod bodies;
mod checkouts;
mod connections;
mod durability;
mod escapes;
mod events;
mod exec;
mod feed;
mod files;
mod hosts;
mod idempotency;
mod input;
mod keys;
mod leases;
mod lifecycle;
mod listeners;
mod lists;
mod openapi;
mod order;
mod output;
mod raw;
mod repos;
mod retention;
mod running;
mod schema;
mod sessions;
mod shutdown;
mod sse;
mod why;
mod worker;
mod workspaces;
