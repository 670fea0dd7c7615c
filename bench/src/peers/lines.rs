//! A connection on which both sides say lines that end in CR LF, as beanstalkd and Redis do.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// A kept connection, for one command at a time.
#[derive(Debug)]
pub(super) struct Lines {
    stream: BufReader<TcpStream>,
    line: Vec<u8>,
    block: Vec<u8>,
}

impl Lines {
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), line: Vec::new(), block: Vec::new() })
    }

    /// Sends a command and reads the first line of the answer.
    pub(super) async fn ask(&mut self, command: &[u8]) -> Result<&str> {
        self.stream.write_all(command).await.context("sending a command")?;
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line).await.context("reading an answer")?;
        ensure!(self.line.ends_with(b"\r\n"), "the connection was closed");
        std::str::from_utf8(&self.line[..self.line.len() - 2]).context("an answer is not text")
    }

    /// Reads the block of that many bytes that follows a line.
    pub(super) async fn block(&mut self, length: usize) -> Result<&[u8]> {
        self.block.resize(length + 2, 0);
        self.stream.read_exact(&mut self.block).await.context("reading a block")?;
        Ok(&self.block[..length])
    }
}
