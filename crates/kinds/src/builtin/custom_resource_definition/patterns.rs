//! The memory budget for the compiled patterns of one kind.
//!
//! Compiled patterns stay in memory as long as the kind is served. Twenty bytes of schema can compile to a megabyte,
//! and a definition has room for a hundred thousand patterns, so a limit per pattern is not enough.

use std::collections::HashMap;

use serde_json::Value;
use watchkeeper_cel::limits::MAX_SCHEMA_REGEX_BYTES;
use watchkeeper_cel::pattern::compiled_size;

/// The remaining budget, and the compiled size of each distinct pattern.
pub(crate) struct PatternBudget<'v> {
    left: usize,
    sizes: HashMap<&'v str, usize>,
}

impl<'v> PatternBudget<'v> {
    pub(crate) fn new() -> Self {
        Self {
            left: MAX_SCHEMA_REGEX_BYTES,
            sizes: HashMap::new(),
        }
    }

    /// Takes the patterns of a schema from the budget. False if they exceed it.
    pub(crate) fn has_room_for(&mut self, schema: &'v Value) -> bool {
        match schema {
            Value::Object(members) => members.iter().all(|(name, value)| match value {
                Value::String(pattern) if name == "pattern" => self.take(pattern),
                value => self.has_room_for(value),
            }),
            Value::Array(items) => items.iter().all(|item| self.has_room_for(item)),
            _ => true,
        }
    }

    fn take(&mut self, pattern: &'v str) -> bool {
        let size = *self
            .sizes
            .entry(pattern)
            .or_insert_with(|| compiled_size(pattern));
        match self.left.checked_sub(size) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(count: usize, pattern: &str) -> Value {
        let property = |index| (format!("p{index}"), json!({"type": "string", "pattern": pattern}));
        json!({"properties": Value::Object((0..count).map(property).collect())})
    }

    #[test]
    fn usual_patterns_fit_and_many_large_ones_do_not() {
        let check = |count, pattern: &str, fits: bool| {
            let schema = schema(count, pattern);
            assert_eq!(
                PatternBudget::new().has_room_for(&schema),
                fits,
                "{count} {pattern}"
            );
        };
        check(1_000, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", true);
        check(100, "^[a-zA-Z0-9_-]{1,253}$", true);
        check(1_000, "^(é|[a-z0-9._-]{3}){1,900}$", false);
        // Too large alone: each takes as long to refuse as the largest to compile.
        check(100, r"\pL{1000}", false);
    }
}
