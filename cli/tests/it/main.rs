//! The real `cw` against a scripted peer, for what a real coordinator cannot be made to do: lose an answer, break a
//! stream in the middle, answer nonsense.

mod answers;
mod configuration;
mod follow;
mod lists;
mod peer;
mod program;
mod send;
mod terminal;
