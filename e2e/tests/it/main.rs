//! The real binaries together: what the product must do, and what it must withstand.

mod artifacts;
mod clock;
mod crash;
mod disk;
mod frozen;
mod leaving;
mod lost_answers;
mod messages;
mod order;
mod resume;
mod scenarios;
mod session_files;
mod stopping;
mod story;
mod workspaces;
