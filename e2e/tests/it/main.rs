//! The real binaries together: what the product must do, and what it must withstand.

mod crash;
mod messages;
mod order;
mod resume;
mod stopping;
mod story;
