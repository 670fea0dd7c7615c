//! Secrets of keys: how they are made, and the hash that stands for them everywhere else. A secret is random enough that a
//! plain hash of it cannot be turned back.

use protocol::RepoName;
use protocol::admin::KeyView;
use sha2::{Digest as _, Sha256};

/// SHA-256 of a secret.
pub type KeyHash = [u8; 32];

const PREFIX: &str = "cwk_";

/// A new secret of 256 random bits.
///
/// # Errors
/// When the system has no randomness to give.
pub fn new_secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(PREFIX.to_owned(), |text, byte| text + &format!("{byte:02x}")))
}

/// What stands for a secret wherever it is kept or compared.
#[must_use]
pub fn hash(secret: &[u8]) -> KeyHash {
    Sha256::digest(secret).into()
}

/// Whether a key may see or touch a repo.
#[must_use]
pub fn covers(key: &KeyView, repo: &RepoName) -> bool {
    key.repos.is_empty() || key.repos.contains(repo)
}
