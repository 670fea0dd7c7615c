//! One connection that submits, leases and reports, with every request's bytes made beforehand.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, bail};
use protocol::WorkerId;
use serde_json::json;

use super::{Keys, PAUSED_REPO, REPO};
use crate::load::http::{Connection, request};
use crate::load::{Cycle, Submit};
use crate::peers::SPEC;

/// A lease id's place in the report, and one of the right length to hold that place.
const LEASE_AT: usize = "PUT /v1/leases/".len();
const NO_LEASE: &str = "lease_00000000000000000000000000";

/// Each client is another worker.
static NEXT_WORKER: AtomicU64 = AtomicU64::new(1);

/// A client and a worker in one.
#[derive(Debug)]
pub(crate) struct Client {
    connection: Connection,
    submit: Vec<u8>,
    lease: Vec<u8>,
    report: Vec<u8>,
}

impl Client {
    pub(super) async fn open(address: SocketAddr, keys: &Keys) -> Result<Self> {
        let report_path = format!("/v1/leases/{NO_LEASE}/report");
        Ok(Self {
            connection: Connection::open(address).await?,
            submit: request("POST", "/v1/tasks", &keys.client, SPEC),
            lease: lease_request(keys),
            report: request("PUT", &report_path, &keys.worker, r#"{"outcome":{"exited":{"code":0}}}"#),
        })
    }
}

/// The bytes of a lease request that waits as long as it may, from a worker that never asked before.
pub(crate) fn lease_request(keys: &Keys) -> Vec<u8> {
    let id = WorkerId::new(NEXT_WORKER.fetch_add(1, Ordering::Relaxed), 0);
    let worker = json!({
        "id": id, "version": env!("CARGO_PKG_VERSION"), "slots": 1,
        "runs": ["python", "shell", "command"], "confinement": [],
    });
    let wait_s = protocol::lease::MAX_LEASE_WAIT_S;
    let body = json!({"worker": worker, "repos": [REPO, PAUSED_REPO], "wait_s": wait_s}).to_string();
    request("POST", "/v1/leases", &keys.worker, &body)
}

impl Submit for Client {
    async fn submit(&mut self) -> Result<()> {
        self.connection.send(&self.submit).await?.expect(201).context("submitting")?;
        Ok(())
    }
}

impl Cycle for Client {
    async fn take(&mut self) -> Result<()> {
        loop {
            let response = self.connection.send(&self.lease).await?;
            if response.status != 204 {
                let lease = lease_in(response.expect(200).context("leasing")?)?;
                self.report[LEASE_AT..LEASE_AT + NO_LEASE.len()].copy_from_slice(lease);
                return Ok(());
            }
        }
    }

    async fn finish(&mut self) -> Result<()> {
        self.connection.send(&self.report).await?.expect(200).context("reporting")?;
        Ok(())
    }
}

/// The lease's id in a grant, found without decoding it.
fn lease_in(grant: &[u8]) -> Result<&[u8]> {
    const NAME: &[u8] = b"\"lease\":\"";
    let name_at = grant.windows(NAME.len()).position(|window| window == NAME);
    let id = name_at.and_then(|at| grant.get(at + NAME.len()..at + NAME.len() + NO_LEASE.len()));
    match id {
        Some(id) if id.starts_with(b"lease_") => Ok(id),
        _ => bail!("no lease in {}", String::from_utf8_lossy(grant)),
    }
}
