//! What the patterns in the schemas of one kind take together.
//!
//! Each is compiled and kept for as long as the kind is served. Twenty bytes of a schema can become a megabyte, so that
//! the limit of one pattern is none for a definition, which has room for a hundred thousand.

use std::collections::HashMap;

use serde_json::Value;
use watchkeeper_cel::limits::MAX_SCHEMA_REGEX_BYTES;
use watchkeeper_cel::pattern::compiled_size;

/// The room that is left, and what patterns have been found to take.
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

    /// Takes room for the patterns of a schema; false if there is too little.
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
    fn usual_patterns_fit_and_a_crowd_of_large_ones_does_not() {
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
    }
}
