//! maxSurge and maxUnavailable of a rollout.

use serde_json::Value;
use watchkeeper_wire::values::{IntOrString, Round};

/// A number, or a percentage of all.
pub(crate) fn amount(value: &Value, all: i64, round: Round) -> Option<i64> {
    let value: IntOrString = serde_json::from_value(value.clone()).ok()?;
    value.scaled(all, round).ok()
}
