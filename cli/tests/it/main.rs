//! The real `cw` against a scripted peer, for what a real coordinator cannot be made to do: lose an answer, break a
//! stream in the middle, answer nonsense.

#![allow(clippy::unwrap_used, reason = "a test whose set-up fails must fail")]

mod answers;
mod artifacts;
mod configuration;
mod files;
mod follow;
mod lists;
mod peer;
mod program;
mod send;
mod sessions;
mod terminal;
