//! `null` in documents of servers and tools written in Go, which use it for empty lists and texts.

use serde::{Deserialize, Deserializer};

/// Reads `null` like a missing field.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
