//! The settings of the bucket. A secret comes from a variable or a file, never from a flag: flags are seen by every user of
//! the machine.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::variable;
use crate::objects::s3::{Patience, Secret, Settings};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Files in a bucket (S3)")]
pub(super) struct Bucket {
    /// The bucket that files are kept in; without one, a directory. Its keys: CW_S3_ACCESS_KEY and CW_S3_SECRET_KEY, or files
    /// that CW_S3_ACCESS_KEY_FILE and CW_S3_SECRET_KEY_FILE name
    #[arg(long, env = "CW_S3_BUCKET")]
    s3_bucket: Option<String>,
    /// Where the bucket is, such as http://127.0.0.1:9000; Amazon's address of the region by default
    #[arg(long, env = "CW_S3_ENDPOINT")]
    s3_endpoint: Option<String>,
    /// The region that requests are signed for
    #[arg(long, env = "CW_S3_REGION", default_value = "us-east-1")]
    s3_region: String,
    /// What all keys in the bucket begin with; each coordinator has its own
    #[arg(long, env = "CW_S3_PREFIX", default_value = "")]
    s3_prefix: String,
}

impl Bucket {
    /// The bucket, if there is to be one.
    pub(super) fn settings(&self) -> anyhow::Result<Option<Settings>> {
        let Some(bucket) = self.s3_bucket.as_deref().filter(|bucket| !bucket.is_empty()) else {
            let is_set = self.s3_endpoint.as_deref().is_some_and(|endpoint| !endpoint.is_empty());
            ensure!(!is_set, "CW_S3_ENDPOINT is set but CW_S3_BUCKET is not: name the bucket, or leave both out");
            return Ok(None);
        };
        ensure!(is_bucket(bucket), "`{bucket}` (CW_S3_BUCKET) is not a bucket: 3 to 63 of a-z 0-9 . - and no slash");
        Ok(Some(Settings {
            endpoint: self.endpoint()?,
            region: self.region().into(),
            bucket: bucket.into(),
            prefix: prefix(&self.s3_prefix)?,
            access_key: secret("CW_S3_ACCESS_KEY")?,
            secret_key: Secret(secret("CW_S3_SECRET_KEY")?),
            patience: Patience::default(),
        }))
    }

    fn region(&self) -> &str {
        if self.s3_region.is_empty() { "us-east-1" } else { &self.s3_region }
    }

    fn endpoint(&self) -> anyhow::Result<String> {
        let Some(endpoint) = self.s3_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) else {
            return Ok(format!("https://s3.{}.amazonaws.com", self.region()));
        };
        let endpoint = endpoint.trim_end_matches('/');
        let host = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
        let is_plain = |host: &str| !host.is_empty() && !host.contains(['/', '@', '?', '#']);
        ensure!(
            host.is_some_and(is_plain),
            "CW_S3_ENDPOINT is not an address: expected http://host:port or https://host, without a path or a key",
        );
        let host = host.unwrap_or_default();
        if endpoint.starts_with("http://") && !is_loopback(host) {
            tracing::warn!(endpoint, "files cross the network unencrypted: CW_S3_ENDPOINT is http and not on loopback");
        }
        Ok(endpoint.into())
    }
}

fn is_bucket(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (3..=63).contains(&text.len()) && text.bytes().all(plain)
}

fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn prefix(text: &str) -> anyhow::Result<String> {
    let text = text.trim_matches('/');
    let is_part = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.chars().any(char::is_control);
    ensure!(
        text.is_empty() || (text.len() <= 256 && text.split('/').all(is_part)),
        "CW_S3_PREFIX cannot begin a key: 256 bytes at most, in parts between single slashes, none of them `.` or `..`",
    );
    Ok(text.into())
}

/// A secret from its variable, or from the file that another variable names.
fn secret(name: &str) -> anyhow::Result<String> {
    let file = variable(&format!("{name}_FILE")).map(PathBuf::from);
    let secret = match (variable(name), file) {
        (Some(_), Some(_)) => anyhow::bail!("both {name} and {name}_FILE are set: leave one out"),
        (Some(secret), None) => secret,
        (None, Some(file)) => from_file(&file).with_context(|| format!("{name}_FILE"))?,
        (None, None) => anyhow::bail!("{name} is missing, as is {name}_FILE: a bucket needs both of its keys"),
    };
    let is_plain = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
    ensure!(is_plain, "{name} is not a key: it is empty, or has spaces or line breaks in it");
    Ok(secret)
}

fn from_file(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(test)]
mod tests;
