//! Whether the coordinator can be reached and takes the key, as the calls show it. Said once per change, not per call.

use std::sync::{Mutex, PoisonError};

use crate::client::CallError;

/// What the calls so far showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contact {
    /// Nothing was called yet.
    Unknown,
    /// It answers.
    Well,
    /// No answer comes.
    Away,
    /// It refuses every call of ours, with this status.
    Refused(u16),
    /// It is broken or stopping, with this status.
    Failing(u16),
    /// What answers is not a coordinator that we understand.
    Strange,
}

/// The newest contact with the coordinator.
pub(crate) struct Link {
    url: String,
    contact: Mutex<Contact>,
}

impl Link {
    pub(crate) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), contact: Mutex::new(Contact::Unknown) }
    }

    pub(crate) fn contact(&self) -> Contact {
        *self.contact.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of how a request for work ended.
    pub(crate) fn asked(&self, error: Option<&CallError>) {
        self.change(error, |_, now| now);
    }

    /// Takes note of how a call about one lease ended. Whether the key is taken is not learnt from it: a key that
    /// expired may still report what it has.
    pub(crate) fn called(&self, error: Option<&CallError>) {
        self.change(error, |before, now| match (before, now) {
            (Contact::Refused(_), _) | (_, Contact::Refused(_)) => before,
            (_, now) => now,
        });
    }

    fn change(&self, error: Option<&CallError>, decide: impl FnOnce(Contact, Contact) -> Contact) {
        let mut contact = self.contact.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *contact;
        *contact = decide(before, error.map_or(Contact::Well, contact_after));
        let now = *contact;
        drop(contact);
        if before != now {
            self.say(before, now, error);
        }
    }

    /// What is wrong, for a person; nothing when all is well.
    pub(crate) fn trouble(&self) -> Option<String> {
        let url = &self.url;
        match self.contact() {
            Contact::Well => None,
            Contact::Unknown => Some(format!("coordinator at {url} was not reached yet")),
            Contact::Away => Some(format!("cannot connect to coordinator at {url}")),
            Contact::Refused(status @ (401 | 403)) => Some(format!("coordinator refused the key ({status})")),
            Contact::Refused(status) => Some(format!("coordinator refuses this worker ({status})")),
            Contact::Failing(status) => Some(format!("coordinator at {url} fails ({status})")),
            Contact::Strange => Some(format!("what answers at {url} is not understood")),
        }
    }

    fn say(&self, before: Contact, now: Contact, error: Option<&CallError>) {
        let Some(trouble) = self.trouble() else {
            let again = if before == Contact::Unknown { "answers" } else { "is well again" };
            tracing::info!("coordinator at {} {again}", self.url);
            return;
        };
        let detail = match error {
            Some(CallError::Refused(problem)) => problem.detail.clone(),
            Some(error) => error.to_string(),
            None => String::new(),
        };
        tracing::warn!("{trouble}: {detail}; {}", what_to_check(now));
    }
}

fn contact_after(error: &CallError) -> Contact {
    match (error, error.status()) {
        (_, Some(status @ (401 | 403 | 426))) => Contact::Refused(status),
        (_, Some(status @ 500..)) => Contact::Failing(status),
        // Any other refusal is about the call, not about us.
        (_, Some(_)) => Contact::Well,
        (CallError::NotUnderstood(_), None) => Contact::Strange,
        (_, None) => Contact::Away,
    }
}

fn what_to_check(contact: Contact) -> &'static str {
    match contact {
        Contact::Refused(401) => "check that the key was not revoked and is this coordinator's; it is tried again",
        Contact::Refused(403) => "check that it is a worker's key and names these repos; it is tried again",
        Contact::Refused(_) => "install the version of cw-worker that goes with the coordinator",
        Contact::Failing(_) => "see the coordinator's log; it is tried again",
        Contact::Strange => "check --coordinator; it is tried again",
        Contact::Away | Contact::Unknown | Contact::Well => {
            "check that it runs and that --coordinator is right; it is tried again"
        }
    }
}

#[cfg(test)]
mod tests;
