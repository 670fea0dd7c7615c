//! Which names of a workspace are refused, whatever they are spelled with. A name is compared as its skeleton: compatibility
//! characters and letters with marks taken apart, marks and invisible characters dropped, letters small.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Names that hold credentials.
const SENSITIVE: [&str; 10] =
    [".ssh", ".aws", ".gcp", ".gnupg", ".netrc", ".docker", ".kube", ".git-credentials", ".gitconfig", ".env"];

/// Endings of an `.env.*` that holds no secret.
const HARMLESS_ENV: [&str; 3] = ["example", "sample", "template"];

/// The kinds of keys that `ssh-keygen` names its files after.
const KEY_KINDS: [&str; 7] = ["rsa", "dsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "xmss"];

/// What a name looks like.
pub(super) fn skeleton(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let small = name.nfkd().flat_map(char::to_lowercase);
    small.nfkd().filter(|c| !is_combining_mark(*c) && !is_invisible(*c)).collect()
}

/// Characters that a reader does not see (Unicode's default ignorables).
const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a component looks like one that holds credentials.
///
/// Keys are `id_` and a kind of key, alone or followed by `.`, `-` or `_` and anything: `id_rsa`, `id_ed25519.pub`,
/// `id_ecdsa_sk-work`, but not `id_map.py` or `id_rsakey`.
pub(super) fn is_sensitive(component: &str) -> bool {
    let name = skeleton(component);
    if let Some(ending) = name.strip_prefix(".env.") {
        let last = ending.rsplit('.').next().unwrap_or_default();
        return !HARMLESS_ENV.contains(&last);
    }
    SENSITIVE.contains(&name.as_str()) || name.strip_prefix("id_").is_some_and(is_key)
}

fn is_key(name: &str) -> bool {
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(['.', '-', '_']);
    KEY_KINDS.iter().any(|kind| name.strip_prefix(kind).is_some_and(ends))
}
