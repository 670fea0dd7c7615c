//! A bare axum POST that keeps nothing: what HTTP alone allows on this machine. It runs as a process of its own.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::routing::post;

use super::{SPEC, submits};
use crate::load::Submit;
use crate::load::http::{Connection, request};
use crate::options::Queue;
use crate::process::{Process, free_address};
use crate::report::Subject;

pub(super) async fn measure(options: &Queue) -> Result<Subject> {
    let (room, address) = (tempfile::tempdir()?, free_address()?);
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["part", "axum"]).arg(address.to_string());
    let mut process = Process::start(&mut command, &room.path().join("log"))?.context("this program is gone")?;
    process.wait_for_port(address).await?;
    let mut subject = Subject::new("bare axum POST, nothing kept");
    for &number in &options.clients {
        subject.submits.push(submits(number, options.time(), async || Client::open(address).await).await?);
    }
    Ok(subject)
}

/// Answers each POST with its body, until the process is ended.
pub(crate) async fn serve(address: SocketAddr) -> Result<()> {
    let routes = Router::new().route("/v1/tasks", post(async |body: String| (axum::http::StatusCode::CREATED, body)));
    let listener = tokio::net::TcpListener::bind(address).await.context("listening")?;
    Ok(axum::serve(listener, routes).await?)
}

struct Client {
    connection: Connection,
    request: Vec<u8>,
}

impl Client {
    async fn open(address: SocketAddr) -> Result<Self> {
        let request = request("POST", "/v1/tasks", "none", SPEC);
        Ok(Self { connection: Connection::open(address).await?, request })
    }
}

impl Submit for Client {
    async fn submit(&mut self) -> Result<()> {
        self.connection.send(&self.request).await?.expect(201)?;
        Ok(())
    }
}
