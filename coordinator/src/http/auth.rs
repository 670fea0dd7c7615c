//! Who asks. A key is known by the hash of its secret; the address that a request comes from grants nothing.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use protocol::admin::{KeyView, Role};
use protocol::{Code, KeyId, RepoName, Timestamp};

use super::App;
use super::error::Refusal;
use crate::key::{self, KeyHash};

/// All keys, by the hash of their secret.
pub struct Keys(RwLock<HashMap<KeyHash, Arc<KeyView>>>);

impl Keys {
    /// Takes over what is stored.
    #[must_use]
    pub fn new(stored: Vec<(KeyView, KeyHash)>) -> Self {
        Self(RwLock::new(stored.into_iter().map(|(key, hash)| (hash, Arc::new(key))).collect()))
    }

    /// A key was made.
    pub fn add(&self, key: KeyView, hash: KeyHash) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(hash, Arc::new(key));
    }

    /// A key was taken back.
    pub fn revoke(&self, id: KeyId, at: Timestamp) {
        for key in self.0.write().unwrap_or_else(PoisonError::into_inner).values_mut() {
            if key.id == id && key.revoked_at.is_none() {
                *key = Arc::new(KeyView { revoked_at: Some(at), ..KeyView::clone(key) });
            }
        }
    }

    /// All of them, the oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<KeyView> {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut list: Vec<_> = keys.values().map(|key| KeyView::clone(key)).collect();
        list.sort_by_key(|key| key.id);
        list
    }

    fn find(&self, hash: &KeyHash) -> Option<Arc<KeyView>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }
}

/// Who asks, once the key is known and not taken back.
pub struct Caller {
    /// The key.
    pub key: Arc<KeyView>,
    hash: KeyHash,
    is_expired: bool,
}

impl Caller {
    /// The same caller as of now: a request that is held must not outlive its key.
    ///
    /// # Errors
    /// When the key was taken back meanwhile.
    pub fn again(&self, app: &App) -> Result<Self, Refusal> {
        Self::identify(app, self.hash)
    }

    fn identify(app: &App, hash: KeyHash) -> Result<Self, Refusal> {
        let Some(key) = app.keys.find(&hash) else {
            return Err(Refusal::new(Code::KeyUnknown, "the key is not known here; is it of another coordinator?"));
        };
        if key.revoked_at.is_some() {
            return Err(Refusal::new(
                Code::KeyRevoked,
                "the key was revoked; ask an admin for a new one (cw keys create)",
            ));
        }
        let is_expired = key.expires_at.is_some_and(|at| at <= app.queue.clock.now().wall);
        Ok(Self { key, hash, is_expired })
    }

    /// Someone who may submit, read and cancel tasks.
    ///
    /// # Errors
    /// When the key is a worker's, or expired.
    pub fn client(&self) -> Result<&Self, Refusal> {
        self.unexpired()?.role(&[Role::Admin, Role::Client])
    }

    /// Someone who may take leases: a worker alone. An admin's key has no place beside a task, which might read it.
    ///
    /// # Errors
    /// When the key is another's, or expired.
    pub fn worker(&self) -> Result<&Self, Refusal> {
        self.unexpired()?.role(&[Role::Worker])
    }

    /// Someone who may speak of a lease that it has: its key may have expired meanwhile.
    ///
    /// # Errors
    /// When the key is not a worker's.
    pub fn holder(&self) -> Result<&Self, Refusal> {
        self.role(&[Role::Worker])
    }

    /// Someone who may do everything.
    ///
    /// # Errors
    /// When the key is not an admin's, or expired.
    pub fn admin(&self) -> Result<&Self, Refusal> {
        self.unexpired()?.role(&[Role::Admin])
    }

    /// Someone whose key is for this repo.
    ///
    /// # Errors
    /// When it is for others.
    pub fn covers(&self, repo: &RepoName) -> Result<(), Refusal> {
        if key::covers(&self.key, repo) {
            return Ok(());
        }
        Err(Refusal::new(Code::WrongRepo, format!("this key is not for the repo {repo}")))
    }

    fn unexpired(&self) -> Result<&Self, Refusal> {
        if self.is_expired {
            return Err(Refusal::new(
                Code::KeyExpired,
                "the key has expired; ask an admin for a new one (cw keys create)",
            ));
        }
        Ok(self)
    }

    fn role(&self, allowed: &[Role]) -> Result<&Self, Refusal> {
        if allowed.contains(&self.key.role) {
            return Ok(self);
        }
        let detail = match (self.key.role, allowed) {
            (Role::Admin | Role::Client, _) if allowed == [Role::Worker] => {
                "only a worker's key may do this: make one with `cw keys create --role worker --repo REPO`"
            }
            (Role::Client | Role::Admin, _) => "only an admin's key may do this",
            (Role::Worker, _) => "a worker's key may only take and report leases",
        };
        Err(Refusal::new(Code::WrongRole, detail))
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let header = parts.headers.get(header::AUTHORIZATION);
        let secret = header.and_then(|value| bearer(value.as_bytes()));
        let Some(secret) = secret else {
            return Err(Refusal::new(Code::KeyMissing, "no key: send `Authorization: Bearer cwk_…`"));
        };
        Self::identify(app, key::hash(secret))
    }
}

fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, secret) = header.split_at_checked(7)?;
    (scheme.eq_ignore_ascii_case(b"bearer ") && !secret.is_empty()).then(|| secret.trim_ascii())
}
