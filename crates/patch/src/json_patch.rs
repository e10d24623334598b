//! JSON patch (RFC 6902), as a Kubernetes server applies it.
//!
//! The operations run in order on the object. The first that fails ends the patch, and the caller drops the
//! half-changed value. Where Kubernetes deviates from the RFC, so does this module:
//!
//! - `replace` of a missing key of an object adds it, and `copy` from one copies `null`;
//! - an array index may be negative and then counts from the end;
//! - text before the first slash of a path is ignored;
//! - a missing `value` is `null`;

mod between;

use serde_json::Value;
use watchkeeper_wire::canonical::json_type;
use watchkeeper_wire::limits::NESTING_LIMIT;
use watchkeeper_wire::tree_size::{TREE_LIMIT, text_size, tree_size};

pub use between::between;

/// The limit of Kubernetes.
pub const MAX_OPERATIONS: usize = 10_000;

/// Kubernetes' limit on a request body: `copy` must not grow an object beyond what could be sent.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The number of values that the operations of one patch may pass in the object: those that they move along in a list,
/// and those that they nest deeper. A short patch can otherwise pass a large object ten thousand times.
pub const MAX_STEPS: usize = 1 << 25;

/// The reason a patch does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonPatchError {
    /// The patch is not a list of operations.
    #[error("json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp")]
    NotAList {
        /// Its type, in Go's words.
        found: &'static str,
    },
    /// Too many operations.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}")]
    TooManyOperations {
        /// The number of operations.
        count: usize,
    },
    /// An unknown operation, or one with a missing member.
    #[error("operation {index} is not valid: {reason}")]
    Malformed {
        /// The index of the operation.
        index: usize,
        /// The error.
        reason: &'static str,
    },
    /// A path that does not exist.
    #[error("{op} operation does not apply: doc is missing path: {path:?}: missing value")]
    MissingPath {
        /// The operation.
        op: &'static str,
        /// The path.
        path: String,
    },
    /// A field to remove that the object does not have.
    #[error("error in {op} for path: '{path}': Unable to remove nonexistent key: {key}: missing value")]
    MissingKey {
        /// The operation.
        op: &'static str,
        /// The path.
        path: String,
        /// The last part of the path.
        key: String,
    },
    /// An array index that is not a number or out of range.
    #[error("{op} operation does not apply: {path} is not an index of the list")]
    BadIndex {
        /// The operation.
        op: &'static str,
        /// The path.
        path: String,
    },
    /// A `test` that does not hold.
    #[error("testing value {path} failed")]
    TestFailed {
        /// The path.
        path: String,
    },
    /// A value nested too deep: later walks of the object must not overflow the stack.
    #[error("{op} operation does not apply: {path} would hold more than {NESTING_LIMIT} levels")]
    TooDeep {
        /// The operation.
        op: &'static str,
        /// The path.
        path: String,
    },
    /// `copy` operations that copy too much in total.
    #[error("copy operations exceed {MAX_COPIED_BYTES} bytes or {TREE_LIMIT} values")]
    CopiesTooMuch,
    /// Operations that pass too many values of the object in total.
    #[error("operations pass more than {MAX_STEPS} values")]
    TooManySteps,
}

/// Applies `patch`, a list of operations, to `document`. After an error `document` is half-changed.
///
/// ```
/// use serde_json::json;
/// use watchkeeper_patch::json_patch;
///
/// let mut object = json!({"spec": {"replicas": 1}});
/// let patch = json!([
///     {"op": "test", "path": "/spec/replicas", "value": 1},
///     {"op": "replace", "path": "/spec/replicas", "value": 2},
/// ]);
/// json_patch::apply(&mut object, &patch).unwrap();
/// assert_eq!(object, json!({"spec": {"replicas": 2}}));
/// ```
pub fn apply(document: &mut Value, patch: &Value) -> Result<(), JsonPatchError> {
    // In Go, `null` is an empty list.
    if patch.is_null() {
        return Ok(());
    }
    let operations = patch.as_array().ok_or(JsonPatchError::NotAList {
        found: json_type(patch),
    })?;
    if operations.len() > MAX_OPERATIONS {
        return Err(JsonPatchError::TooManyOperations {
            count: operations.len(),
        });
    }
    let mut budget = Budget::default();
    for (index, operation) in operations.iter().enumerate() {
        let malformed = |reason| JsonPatchError::Malformed { index, reason };
        match Operation::read(operation).map_err(malformed)? {
            Operation::Add { path, value } => {
                check_depth("add", path, &value, &mut budget)?;
                add(document, "add", path, value, &mut budget)?;
            }
            Operation::Remove { path } => drop(remove(document, "remove", path, &mut budget)?),
            Operation::Replace { path: "", value } => *document = value,
            Operation::Replace { path, value } => {
                check_depth("replace", path, &value, &mut budget)?;
                *replaceable(document, path)? = value;
            }
            Operation::Move { from, path } => {
                let value = remove(document, "move", from, &mut budget)?;
                if levels(path) > levels(from) {
                    check_depth("move", path, &value, &mut budget)?;
                }
                add(document, "move", path, value, &mut budget)?;
            }
            Operation::Copy { from, path } => {
                let value = find(document, "copy", from)?.cloned().unwrap_or_default();
                budget.copy(&value)?;
                check_depth("copy", path, &value, &mut budget)?;
                add(document, "copy", path, value, &mut budget)?;
            }
            Operation::Test { path, value } => {
                let found = if path.is_empty() {
                    Some(&*document)
                } else {
                    find(document, "test", path)?
                };
                if found.unwrap_or(&Value::Null) != &value {
                    return Err(JsonPatchError::TestFailed {
                        path: path.to_owned(),
                    });
                }
            }
        }
    }
    Ok(())
}

/// What the operations of one patch have used up.
#[derive(Default)]
struct Budget {
    copied_bytes: usize,
    copied_values: usize,
    steps: usize,
}

impl Budget {
    fn copy(&mut self, value: &Value) -> Result<(), JsonPatchError> {
        self.copied_bytes += text_size(value);
        self.copied_values += 1 + tree_size(value);
        match self.copied_bytes > MAX_COPIED_BYTES || self.copied_values > TREE_LIMIT {
            true => Err(JsonPatchError::CopiesTooMuch),
            false => Ok(()),
        }
    }

    fn pass(&mut self, values: usize) -> Result<(), JsonPatchError> {
        self.steps += values;
        match self.steps > MAX_STEPS {
            true => Err(JsonPatchError::TooManySteps),
            false => Ok(()),
        }
    }
}

/// Unknown members of operations, as a server warns of them: `[0].extra`.
pub fn unknown_members(patch: &Value) -> impl Iterator<Item = String> + '_ {
    let operations = patch.as_array().into_iter().flatten().enumerate();
    operations.flat_map(|(index, operation)| {
        let members = operation.as_object().into_iter().flatten().map(|(name, _)| name);
        let unknown = members.filter(|name| !matches!(name.as_str(), "op" | "path" | "from" | "value"));
        unknown.map(move |name| format!("[{index}].{name}"))
    })
}

enum Operation<'a> {
    Add { path: &'a str, value: Value },
    Remove { path: &'a str },
    Replace { path: &'a str, value: Value },
    Move { from: &'a str, path: &'a str },
    Copy { from: &'a str, path: &'a str },
    Test { path: &'a str, value: Value },
}

impl<'a> Operation<'a> {
    fn read(operation: &'a Value) -> Result<Self, &'static str> {
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let path = text("path").ok_or("no path");
        let from = text("from").ok_or("no from");
        let value = || operation.get("value").cloned().unwrap_or_default();
        Ok(match text("op") {
            Some("add") => Self::Add {
                path: path?,
                value: value(),
            },
            Some("remove") => Self::Remove { path: path? },
            Some("replace") => Self::Replace {
                path: path?,
                value: value(),
            },
            Some("move") => Self::Move {
                from: from?,
                path: path?,
            },
            Some("copy") => Self::Copy {
                from: from?,
                path: path?,
            },
            Some("test") => Self::Test {
                path: path?,
                value: value(),
            },
            _ => return Err("unknown op"),
        })
    }
}

/// The container at the end of a path, and the last segment.
fn parent<'v>(
    document: &'v mut Value,
    op: &'static str,
    path: &str,
) -> Result<(&'v mut Value, String), JsonPatchError> {
    let missing = || JsonPatchError::MissingPath {
        op,
        path: path.to_owned(),
    };
    let mut segments = path.split('/').map(unescape);
    // Text before the first slash is ignored.
    segments.next();
    let mut segments: Vec<String> = segments.collect();
    let last = segments.pop().ok_or_else(missing)?;
    let mut container = document;
    for segment in segments {
        container = match container {
            Value::Object(fields) => fields.get_mut(&segment),
            Value::Array(items) => position(&segment, items.len()).and_then(|index| items.get_mut(index)),
            _ => None,
        }
        .ok_or_else(missing)?;
    }
    match container {
        Value::Object(_) | Value::Array(_) => Ok((container, last)),
        _ => Err(missing()),
    }
}

/// The value at a path; `None` for a missing key of an object, which some operations allow.
fn find<'v>(
    document: &'v mut Value,
    op: &'static str,
    path: &str,
) -> Result<Option<&'v Value>, JsonPatchError> {
    let (container, last) = parent(document, op, path)?;
    match container {
        Value::Object(fields) => Ok(fields.get(&last)),
        Value::Array(items) => {
            let index = position(&last, items.len()).ok_or_else(|| bad_index(op, path))?;
            items.get(index).map(Some).ok_or_else(|| bad_index(op, path))
        }
        _ => Ok(None),
    }
}

/// The value a `replace` writes to; a missing key of an object is created.
fn replaceable<'v>(document: &'v mut Value, path: &str) -> Result<&'v mut Value, JsonPatchError> {
    const OP: &str = "replace";
    let (container, last) = parent(document, OP, path)?;
    match container {
        Value::Object(fields) => Ok(fields.entry(last).or_insert(Value::Null)),
        Value::Array(items) => {
            let index = position(&last, items.len());
            index
                .and_then(|index| items.get_mut(index))
                .ok_or_else(|| bad_index(OP, path))
        }
        _ => Err(JsonPatchError::MissingPath {
            op: OP,
            path: path.to_owned(),
        }),
    }
}

/// Refuses a value that would be nested too deep at its path. Operations build on each other: a few that copy an
/// object into itself would otherwise exceed any stack.
fn check_depth(
    op: &'static str,
    path: &str,
    value: &Value,
    budget: &mut Budget,
) -> Result<(), JsonPatchError> {
    match fits(
        value,
        (NESTING_LIMIT as usize).saturating_sub(levels(path)),
        budget,
    )? {
        true => Ok(()),
        false => Err(JsonPatchError::TooDeep {
            op,
            path: path.to_owned(),
        }),
    }
}

/// True if a value has at most so many levels.
fn fits(value: &Value, levels: usize, budget: &mut Budget) -> Result<bool, JsonPatchError> {
    let below: &mut dyn Iterator<Item = &Value> = match value {
        Value::Array(items) => &mut items.iter(),
        Value::Object(fields) => &mut fields.values(),
        _ => return Ok(true),
    };
    let Some(levels) = levels.checked_sub(1) else {
        return Ok(false);
    };
    for value in below {
        budget.pass(1)?;
        if !fits(value, levels, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The number of levels above the value at a path.
fn levels(path: &str) -> usize {
    path.matches('/').count()
}

fn add(
    document: &mut Value,
    op: &'static str,
    path: &str,
    value: Value,
    budget: &mut Budget,
) -> Result<(), JsonPatchError> {
    let (container, last) = parent(document, op, path)?;
    match container {
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        Value::Array(items) => {
            // The list gains an item: -1 and `-` both mean the end.
            let index = if last == "-" {
                Some(items.len())
            } else {
                position(&last, items.len() + 1)
            };
            match index {
                Some(index) if index <= items.len() => {
                    budget.pass(items.len() - index)?;
                    items.insert(index, value);
                }
                _ => return Err(bad_index(op, path)),
            }
        }
        _ => {
            return Err(JsonPatchError::MissingPath {
                op,
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}

fn remove(
    document: &mut Value,
    op: &'static str,
    path: &str,
    budget: &mut Budget,
) -> Result<Value, JsonPatchError> {
    let (container, last) = parent(document, op, path)?;
    match container {
        Value::Object(fields) => fields.remove(&last).ok_or_else(|| JsonPatchError::MissingKey {
            op,
            path: path.to_owned(),
            key: last,
        }),
        Value::Array(items) => match position(&last, items.len()) {
            Some(index) if index < items.len() => {
                budget.pass(items.len() - index)?;
                Ok(items.remove(index))
            }
            _ => Err(bad_index(op, path)),
        },
        _ => Err(JsonPatchError::MissingPath {
            op,
            path: path.to_owned(),
        }),
    }
}

/// An index into a list of `len` items; negative ones count from the end.
fn position(segment: &str, len: usize) -> Option<usize> {
    let index: i64 = segment.parse().ok()?;
    if index >= 0 {
        return usize::try_from(index).ok();
    }
    len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
}

fn bad_index(op: &'static str, path: &str) -> JsonPatchError {
    JsonPatchError::BadIndex {
        op,
        path: path.to_owned(),
    }
}

/// `~1` is a slash and `~0` a tilde, decoded in this order, so that `~01` is `~1`.
pub(crate) fn unescape(segment: &str) -> String {
    if !segment.contains('~') {
        return segment.to_owned();
    }
    segment.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(document: Value, patch: Value, result: Value) {
        let mut patched = document.clone();
        let outcome = apply(&mut patched, &patch);
        assert_eq!(outcome, Ok(()), "{document} + {patch}");
        assert_eq!(patched, result, "{document} + {patch}");
    }

    fn check_error(mut document: Value, patch: Value, text: &str) {
        assert_eq!(
            apply(&mut document, &patch).unwrap_err().to_string(),
            text,
            "{patch}"
        );
    }

    #[test]
    fn copies_within_copies_stay_shallow() {
        // Each operation copies the whole into its own innermost part, so that the depth doubles.
        let mut operations = vec![json!({"op": "add", "path": "/a", "value": {}})];
        let innermost = |depth: usize| format!("/a{}", "/b".repeat(depth));
        for doubling in 0..20 {
            let path = innermost(1 << doubling);
            operations.push(json!({"op": "copy", "from": "/a", "path": path}));
        }
        let refused = apply(&mut json!({}), &Value::Array(operations)).unwrap_err();
        let path = innermost(64);
        assert_eq!(refused, JsonPatchError::TooDeep { op: "copy", path });
    }

    #[test]
    fn copies_of_many_small_values_are_limited() {
        let items = vec![json!({}); 10_000];
        let copies = (0..10).map(|index| json!({"op": "copy", "from": "/a", "path": format!("/b{index}")}));
        let refused = apply(&mut json!({"a": items}), &copies.collect()).unwrap_err();
        assert_eq!(refused, JsonPatchError::CopiesTooMuch);
    }

    #[test]
    fn values_that_are_passed_again_and_again_are_limited() {
        let document = json!({"a": vec![0; 20_000], "b": {}});
        let repeated = |operations: &[Value]| -> Value {
            let all = operations.iter().cycle().take(MAX_OPERATIONS);
            all.cloned().collect()
        };
        let deeper = [
            json!({"op": "move", "from": "/a", "path": "/b/a"}),
            json!({"op": "move", "from": "/b/a", "path": "/a"}),
        ];
        for operations in [
            &deeper[..],
            &[json!({"op": "add", "path": "/a/0", "value": 0})],
            &[json!({"op": "remove", "path": "/a/0"})],
            &[json!({"op": "move", "from": "/a/-1", "path": "/a/0"})],
        ] {
            let refused = apply(&mut document.clone(), &repeated(operations)).unwrap_err();
            assert_eq!(refused, JsonPatchError::TooManySteps, "{operations:?}");
        }
        // Nothing is passed at the end of a list, or by a value that stays at its depth.
        for operations in [
            &[json!({"op": "add", "path": "/a/-", "value": 0})],
            &[json!({"op": "move", "from": "/a", "path": "/a"})],
        ] {
            assert_eq!(apply(&mut document.clone(), &repeated(operations)), Ok(()));
        }
    }

    /// Appendix A of RFC 6902, in its order.
    #[test]
    fn the_cases_of_the_rfc() {
        check(
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/baz", "value": "qux"}]),
            json!({"baz": "qux", "foo": "bar"}),
        );
        check(
            json!({"foo": ["bar", "baz"]}),
            json!([{"op": "add", "path": "/foo/1", "value": "qux"}]),
            json!({"foo": ["bar", "qux", "baz"]}),
        );
        check(
            json!({"baz": "qux", "foo": "bar"}),
            json!([{"op": "remove", "path": "/baz"}]),
            json!({"foo": "bar"}),
        );
        check(
            json!({"foo": ["bar", "qux", "baz"]}),
            json!([{"op": "remove", "path": "/foo/1"}]),
            json!({"foo": ["bar", "baz"]}),
        );
        check(
            json!({"baz": "qux", "foo": "bar"}),
            json!([{"op": "replace", "path": "/baz", "value": "boo"}]),
            json!({"baz": "boo", "foo": "bar"}),
        );
        check(
            json!({"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}}),
            json!([{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}]),
            json!({"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}}),
        );
        check(
            json!({"foo": ["all", "grass", "cows", "eat"]}),
            json!([{"op": "move", "from": "/foo/1", "path": "/foo/3"}]),
            json!({"foo": ["all", "cows", "eat", "grass"]}),
        );
        check(
            json!({"baz": "qux", "foo": ["a", 2, "c"]}),
            json!([
                {"op": "test", "path": "/baz", "value": "qux"},
                {"op": "test", "path": "/foo/1", "value": 2},
            ]),
            json!({"baz": "qux", "foo": ["a", 2, "c"]}),
        );
        check_error(
            json!({"baz": "qux"}),
            json!([{"op": "test", "path": "/baz", "value": "bar"}]),
            "testing value /baz failed",
        );
        check(
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/child", "value": {"grandchild": {}}}]),
            json!({"foo": "bar", "child": {"grandchild": {}}}),
        );
        check(
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}]),
            json!({"foo": "bar", "baz": "qux"}),
        );
        check_error(
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/baz/bat", "value": "qux"}]),
            "add operation does not apply: doc is missing path: \"/baz/bat\": missing value",
        );
        check(
            json!({"/": 9, "~1": 10}),
            json!([{"op": "test", "path": "/~01", "value": 10}]),
            json!({"/": 9, "~1": 10}),
        );
        check_error(
            json!({"/": 9, "~1": 10}),
            json!([{"op": "test", "path": "/~01", "value": "10"}]),
            "testing value /~01 failed",
        );
        check(
            json!({"foo": ["bar"]}),
            json!([{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}]),
            json!({"foo": ["bar", ["abc", "def"]]}),
        );
    }

    #[test]
    fn a_whole_document_is_replaced() {
        check(
            json!({"a": 1}),
            json!([{"op": "replace", "path": "", "value": {"b": 2}}]),
            json!({"b": 2}),
        );
    }

    #[test]
    fn where_kubernetes_differs_from_the_rfc() {
        check(
            json!({}),
            json!([{"op": "replace", "path": "/a", "value": 1}]),
            json!({"a": 1}),
        );
        check(
            json!({}),
            json!([{"op": "copy", "from": "/a", "path": "/b"}]),
            json!({"b": null}),
        );
        check(
            json!({}),
            json!([{"op": "add", "path": "a/b", "value": 1}]),
            json!({"b": 1}),
        );
        check(
            json!({}),
            json!([{"op": "add", "path": "/a"}]),
            json!({"a": null}),
        );
        check(
            json!([1, 2]),
            json!([{"op": "remove", "path": "/-1"}]),
            json!([1]),
        );
        check(
            json!([1, 2]),
            json!([{"op": "add", "path": "/-1", "value": 3}]),
            json!([1, 2, 3]),
        );
    }

    #[test]
    fn members_that_mean_nothing_are_named() {
        let patch =
            json!([{"op": "add", "path": "/a"}, {"op": "test", "path": "/a", "extra": 1, "value": 1}]);
        assert_eq!(unknown_members(&patch).collect::<Vec<_>>(), ["[1].extra"]);
    }

    #[test]
    fn bad_patches_are_named() {
        check_error(
            json!({}),
            json!({"op": "add"}),
            "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        );
        check_error(
            json!({}),
            json!([{"op": "merge", "path": "/a"}]),
            "operation 0 is not valid: unknown op",
        );
        check_error(
            json!({}),
            json!([{"op": "move", "path": "/a"}]),
            "operation 0 is not valid: no from",
        );
        check_error(
            json!({"a": [1]}),
            json!([{"op": "replace", "path": "/a/1", "value": 0}]),
            "replace operation does not apply: /a/1 is not an index of the list",
        );
        check_error(
            json!({}),
            Value::Array(vec![json!({}); MAX_OPERATIONS + 1]),
            "The allowed maximum operations in a JSON patch is 10000, got 10001",
        );
    }

    #[test]
    fn copies_cannot_blow_an_object_up() {
        // Each step copies everything so far to a place inside it.
        let doubling = (0..64).map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/{n}")}));
        check_error(
            json!({"a": {"text": "0123456789".repeat(100)}}),
            doubling.collect(),
            "copy operations exceed 3145728 bytes or 1048576 values",
        );
    }
}
