//! Which certificates count: those of the system, as `SSL_CERT_FILE` and `SSL_CERT_DIR` may name them.

use std::error::Error;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};

/// Without encryption none are looked for: a machine may have none.
pub(super) fn config(is_encrypted: bool) -> Result<ClientConfig, Box<dyn Error + Send + Sync>> {
    let builder =
        ClientConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions()?;
    let builder = match is_encrypted {
        true => builder.with_native_roots()?,
        false => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}
