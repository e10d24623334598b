//! What servers and tools written in Go say where they have nothing to say: `null`, also for lists and texts.

use serde::{Deserialize, Deserializer};

/// Reads `null` as what a missing field would be.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
