//! Listeners inside the task's network namespace, for the worker outside: nothing of ours answers inside.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use anyhow::Context as _;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::super::wire::{Note, say};

/// How many descriptors go with one message: the kernel takes 253.
pub(crate) const MAX_LISTENERS: usize = 64;

pub(super) fn bind(addresses: &[SocketAddr]) -> anyhow::Result<Vec<TcpListener>> {
    let listen = |address: &SocketAddr| {
        TcpListener::bind(address).with_context(|| format!("cannot listen on {address} inside the confinement"))
    };
    addresses.iter().map(listen).collect()
}

/// Sends the line and the listeners in one message.
pub(super) fn pass(control: &UnixStream, listeners: &[TcpListener]) -> anyhow::Result<()> {
    let mut line = Vec::new();
    say(&mut line, &Note::Listening);
    let descriptors: Vec<_> = listeners.iter().map(|listener| listener.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_LISTENERS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    anyhow::ensure!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)), "too many endpoints");
    sendmsg(control, &[IoSlice::new(&line)], &mut ancillary, SendFlags::empty())?;
    Ok(())
}
