//! Names the server makes: `generateName` plus five characters, and uids.

use serde_json::Value;
use watchkeeper_meta::validation::generated_name;

/// How often a taken name is tried again with another suffix.
pub const MAX_TRIES: usize = 8;

/// A name that begins with `prefix`.
pub fn generate(prefix: &str) -> String {
    generated_name(prefix, |below| fastrand::usize(..below))
}

/// A new uid.
pub fn uid() -> String {
    uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes())
        .into_uuid()
        .to_string()
}

/// The prefix a nameless object asks for.
pub fn wanted_prefix(object: &Value) -> Option<&str> {
    let text = |name: &str| object["metadata"][name].as_str().filter(|text| !text.is_empty());
    match text("name") {
        Some(_) => None,
        None => text("generateName"),
    }
}
