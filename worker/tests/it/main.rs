//! The real `cw-worker` with real children. Its other side is a scripted peer, so that it can lose answers, hang and
//! refuse on command.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod artifacts;
mod doctor;
mod handler;
mod health;
mod hostile;
mod languages;
mod leases;
mod levels;
mod limits;
mod network;
mod output;
mod peer;
mod processes;
mod ready;
mod run;
mod signals;
mod spool;
mod start;
mod workspace;
