//! What an S3 server refused, in words: what was done, where, why it failed, and what a person can do about it. No secret
//! is part of it.

use std::error::Error as _;
use std::fmt;
use std::io;

use super::client::Trouble;

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Write,
    Read,
    List,
    Delete,
    Copy,
}

impl fmt::Display for Doing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Copy => "copy",
        })
    }
}

/// Why it failed, as far as someone can do something about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Cause {
    #[error("{0}; check that it runs and that CW_S3_ENDPOINT is its address")]
    Unreachable(String),
    #[error("{0}")]
    Transport(String),
    #[error("it does not know the access key; check CW_S3_ACCESS_KEY")]
    UnknownKey,
    #[error("it does not accept the signature; check the secret in CW_S3_SECRET_KEY")]
    WrongSecret,
    #[error("there is no such bucket; make it, or check CW_S3_BUCKET")]
    NoBucket,
    #[error("the region is not {region}{}; set CW_S3_REGION", .right.as_ref().map(|right| format!(" but {right}")).unwrap_or_default())]
    WrongRegion { region: String, right: Option<String> },
    #[error("its clock and this machine's differ by more than it allows; set the clocks (NTP) and start again")]
    ClockSkew,
    #[error("the access key may not {0} there; give it that permission, or check CW_S3_PREFIX")]
    Denied(Doing),
    #[error("it answered with a redirect; check CW_S3_ENDPOINT and CW_S3_REGION")]
    Redirected,
    #[error("the object is not there")]
    NotFound,
    #[error("what came back is not what was written: {0}")]
    Damaged(String),
    #[error("it answered {0}")]
    Answered(String),
}

/// A failed request to the store.
#[derive(Debug, thiserror::Error)]
#[error("the object store {place} failed to {doing} `{key}`: {cause}")]
pub(super) struct Failure {
    pub(super) place: String,
    pub(super) doing: Doing,
    pub(super) key: String,
    pub(super) cause: Cause,
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        let kind = match failure.cause {
            Cause::NotFound => io::ErrorKind::NotFound,
            Cause::Unreachable(_) | Cause::Transport(_) => io::ErrorKind::HostUnreachable,
            Cause::Damaged(_) => io::ErrorKind::InvalidData,
            Cause::UnknownKey | Cause::WrongSecret | Cause::ClockSkew | Cause::Denied(_) => {
                io::ErrorKind::PermissionDenied
            }
            Cause::NoBucket | Cause::WrongRegion { .. } | Cause::Redirected | Cause::Answered(_) => {
                io::ErrorKind::Other
            }
        };
        Self::new(kind, failure)
    }
}

/// Reads the cause out of what the library says: it keeps the server's answer as text.
pub(super) fn cause(error: &object_store::Error, doing: Doing, region: &str) -> Cause {
    if let Some(trouble) = trouble(error) {
        return match trouble {
            Trouble::Connect(_) => Cause::Unreachable(trouble.to_string()),
            Trouble::Silent(_) | Trouble::Stalled(_) | Trouble::Broken(_) => Cause::Transport(trouble.to_string()),
        };
    }
    let text = texts(error);
    match element(&text, "Code").unwrap_or_default() {
        "InvalidAccessKeyId" => Cause::UnknownKey,
        "SignatureDoesNotMatch" => Cause::WrongSecret,
        "NoSuchBucket" => Cause::NoBucket,
        "RequestTimeTooSkewed" => Cause::ClockSkew,
        "AccessDenied" | "AllAccessDisabled" => Cause::Denied(doing),
        "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" | "PermanentRedirect" => {
            Cause::WrongRegion { region: region.into(), right: element(&text, "Region").map(str::to_owned) }
        }
        "NoSuchKey" => Cause::NotFound,
        "" => without_code(error, doing, &text),
        code => Cause::Answered(answered(code, element(&text, "Message"))),
    }
}

/// An answer without a body, such as to HEAD, or from something that is no S3 server.
fn without_code(error: &object_store::Error, doing: Doing, text: &str) -> Cause {
    if let object_store::Error::NotFound { .. } = error {
        return Cause::NotFound;
    }
    if let object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } = error {
        return Cause::Denied(doing);
    }
    if text.contains("redirect") {
        return Cause::Redirected;
    }
    Cause::Answered(shortened(text.split_once("status code: ").map_or(text, |(_, said)| said)))
}

fn answered(code: &str, message: Option<&str>) -> String {
    message.map_or_else(|| code.to_owned(), |message| shortened(&format!("{code} ({message})")))
}

/// The first line, and of that no more than a log can bear.
fn shortened(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect()
}

fn trouble(error: &object_store::Error) -> Option<&Trouble> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(trouble) = cause.downcast_ref::<Trouble>() {
            return Some(trouble);
        }
        source = cause.source();
    }
    None
}

/// What the innermost cause says: those around it repeat it.
fn texts(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    text
}

/// The text of an XML element that has no elements in it, or the bare code by which the library names a failed deletion.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>")).or_else(|| match name {
        "Code" => text.split_once("(code: ").map(|(before, rest)| (before, rest.trim_end_matches(')'))),
        _ => None,
    })?;
    Some(rest.split('<').next().unwrap_or_default().trim())
}

#[cfg(test)]
mod tests;
