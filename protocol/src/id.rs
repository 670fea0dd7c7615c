//! Ids as types. Each is a prefix and 26 characters: 48 bits of milliseconds, then 80 random bits, in an alphabet
//! that sorts as the bytes do, so ids sort by the time they were made.
//!
//! There is exactly one spelling of an id: no upper case, no aliases. Clock and randomness are arguments.

use std::fmt;
use std::str::FromStr;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: usize = 26;

/// What is wrong with a string that was meant to be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid id: expected `{prefix}` and 26 characters of 0-9 and a-z")]
pub struct BadId {
    prefix: &'static str,
}

fn encode(prefix: &str, value: u128, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0u8; LENGTH];
    for (place, byte) in text.iter_mut().rev().enumerate() {
        let digit = (value >> (5 * place)) & 31;
        *byte = ALPHABET[usize::try_from(digit).unwrap_or(0)];
    }
    out.write_str(prefix)?;
    out.write_str(std::str::from_utf8(&text).unwrap_or_default())
}

fn decode(prefix: &'static str, text: &str) -> Result<u128, BadId> {
    let bad = || BadId { prefix };
    let digits = text.strip_prefix(prefix).ok_or_else(bad)?.as_bytes();
    // 26 digits hold 130 bits: the first one may only use three of its five.
    if digits.len() != LENGTH || digits[0] > b'7' {
        return Err(bad());
    }
    let mut value = 0u128;
    for digit in digits {
        let place = ALPHABET.iter().position(|known| known == digit).ok_or_else(bad)?;
        value = (value << 5) | place as u128;
    }
    Ok(value)
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// What every id of this kind begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id from the time in milliseconds since 1970 and random bits, of which 80 are used.
            #[must_use]
            pub const fn new(now_ms: u64, random: u128) -> Self {
                Self(((now_ms as u128 & 0xFFFF_FFFF_FFFF) << 80) | (random & ((1 << 80) - 1)))
            }

            /// The 16 bytes that a database keeps; they sort as the id does.
            #[must_use]
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// The id that `to_bytes` made these bytes from.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                encode($prefix, self.0, out)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, out)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                decode($prefix, text).map(Self)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id! {
    /// A task.
    TaskId, "task_"
}
id! {
    /// The right of one worker to one attempt.
    LeaseId, "lease_"
}
id! {
    /// One start of a worker: a restarted worker is another worker.
    WorkerId, "worker_"
}
id! {
    /// A key, by the name under which it is listed and revoked; not its secret.
    KeyId, "key_"
}
id! {
    /// Changes of a workspace that a lease uploaded.
    StageId, "stage_"
}
