//! The keywords of a structural schema, and how they combine when two schemas are merged.

use serde_json::{Map, Value, json};

use super::{CLOSED, INT_OR_STRING, Node, PRESERVE};

/// Keywords that restrict values but not structure: only these may occur in `oneOf` and the like.
const RESTRICTIONS: [&str; 19] = [
    "enum",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "oneOf",
    "anyOf",
    "allOf",
    "not",
];

/// The formats kube-apiserver checks; it warns about others. Its `duration` is Go's, that of JSON Schema is ISO
/// 8601's and is therefore not included.
const FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "email",
    "hexcolor",
    "hostname",
    "int32",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-long-name",
    "k8s-short-name",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

pub(super) fn is_restriction(word: &str) -> bool {
    RESTRICTIONS.contains(&word)
}

/// True if a JSON Schema keyword has the same meaning in a structural schema.
pub(super) fn is_kept(word: &str) -> bool {
    is_restriction(word)
        || matches!(
            word,
            "description" | "default" | "nullable" | "externalDocs" | "example"
        )
        || word.starts_with("x-kubernetes-")
}

/// Sets the type of a value that has one of these. An empty list sets nothing.
pub(super) fn set_type(node: &mut Node, types: &[&str]) -> Result<(), String> {
    let mut types = types.to_vec();
    types.sort_unstable();
    types.dedup();
    match types[..] {
        [] => {}
        [one] => drop(node.insert("type".into(), one.into())),
        ["integer", "string"] => drop(node.insert(INT_OR_STRING.into(), true.into())),
        ["integer", "number"] => drop(node.insert("type".into(), "number".into())),
        ["object", "string"] => {
            return Err(
                "unit variants are text and variants with fields are objects, and a field has one type; \
                        give the unit variants braces, or the enum a `tag`"
                    .into(),
            );
        }
        _ => return Err(format!("a field has one type, not {}", types.join(" or "))),
    }
    Ok(())
}

/// The types of a schema; empty if it states none.
pub(super) fn types_of(node: &Node) -> Vec<&str> {
    match (node.get("type").and_then(Value::as_str), node.get(INT_OR_STRING)) {
        (Some(one), _) => vec![one],
        (None, Some(Value::Bool(true))) => vec!["integer", "string"],
        _ => Vec::new(),
    }
}

/// Converts bounds to Kubernetes' form: exclusive ones are a flag beside the bound, and integers have 32 or 64 bits.
pub(super) fn bounds(node: &mut Node) {
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(limit) = node.get(exclusive).filter(|limit| limit.is_number()).cloned() {
            node.insert(bound.into(), limit);
            node.insert(exclusive.into(), true.into());
        }
    }
    let Some(format) = node.get("format").and_then(Value::as_str) else {
        return;
    };
    let (format, limits) = match format {
        "int8" => (Some("int32"), Some((json!(i8::MIN), json!(i8::MAX)))),
        "int16" => (Some("int32"), Some((json!(i16::MIN), json!(i16::MAX)))),
        "uint8" => (Some("int32"), Some((json!(0), json!(u8::MAX)))),
        "uint16" => (Some("int32"), Some((json!(0), json!(u16::MAX)))),
        "uint32" => (Some("int64"), Some((json!(0), json!(u32::MAX)))),
        // Kubernetes integers have 64 bits.
        "uint" | "uint64" | "uint128" => (Some("int64"), Some((json!(0), json!(i64::MAX)))),
        "int" | "int64" | "int128" => (Some("int64"), None),
        "float" => (Some("float"), None),
        "double" => (Some("double"), None),
        other => (FORMATS.iter().copied().find(|known| *known == other), None),
    };
    match format {
        Some(format) => node.insert("format".into(), format.into()),
        None => node.remove("format"),
    };
    if let Some((minimum, maximum)) = limits {
        node.entry("minimum").or_insert(minimum);
        if maximum != json!(i64::MAX) {
            node.entry("maximum").or_insert(maximum);
        }
    }
}

/// A set is a list without duplicates. Objects in it are compared as a whole.
pub(super) fn set(node: &mut Node, words: &Map<String, Value>) {
    if !words.contains_key("x-kubernetes-list-type") {
        node.insert("x-kubernetes-list-type".into(), "set".into());
    }
}

/// Adds a keyword to a schema. If it already has it, both must hold.
pub(super) fn insert_conjoined(node: &mut Node, word: &str, value: Value) -> Result<(), String> {
    let Some(present) = node.get_mut(word) else {
        node.insert(word.to_owned(), value);
        return Ok(());
    };
    if *present == value {
        return Ok(());
    }
    match (word, present, value) {
        ("description" | "default", _, _) => {}
        ("properties", Value::Object(fields), Value::Object(others)) => {
            for (name, other) in others {
                match (fields.get_mut(&name), other) {
                    (Some(Value::Object(field)), Value::Object(other)) => {
                        for (word, value) in other {
                            insert_conjoined(field, &word, value)
                                .map_err(|problem| format!("`{name}`: {problem}"))?;
                        }
                    }
                    (_, other) => drop(fields.insert(name, other)),
                }
            }
        }
        ("required", Value::Array(names), Value::Array(others)) => {
            for name in others {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        ("type", Value::String(present), Value::String(other)) => {
            return Err(format!("a field has one type, not {present} and {other}"));
        }
        (CLOSED | "nullable", present, _) => *present = true.into(),
        (word, _, value) if is_restriction(word) => {
            let all = node.entry("allOf").or_insert_with(|| json!([]));
            if let Value::Array(all) = all {
                all.push(json!({word: value}));
            }
        }
        (word, _, _) => return Err(format!("`{word}` is stated twice")),
    }
    Ok(())
}

/// Adds the missing type to a complete schema. Without any restriction it is free-form.
pub(super) fn finish(mut node: Node) -> Result<Node, String> {
    node.remove(CLOSED);
    atomic_items(&mut node);
    nullable_values(&mut node);
    if !types_of(&node).is_empty() || node.get(PRESERVE) == Some(&Value::Bool(true)) {
        return Ok(node);
    }
    if node
        .keys()
        .all(|word| matches!(word.as_str(), "nullable" | "description"))
        && node.contains_key("nullable")
    {
        return Err("`null` is its only value; leave the field out".into());
    }
    match inferred_type(&node) {
        Some(name) => node.insert("type".into(), name.into()),
        None => node.insert(PRESERVE.into(), true.into()),
    };
    Ok(node)
}

/// Moves the `enum` of a nullable field into an `allOf`. A Kubernetes server refuses `null` for an `enum`, even if it is
/// listed, but not for one in an `allOf`.
fn nullable_values(node: &mut Node) {
    if node.get("nullable") != Some(&Value::Bool(true)) {
        return;
    }
    if let Some(Value::Array(mut values)) = node.remove("enum") {
        values.retain(|value| !value.is_null());
        // The type is inferred from the values, which are about to move.
        if let (true, Some(name)) = (types_of(node).is_empty(), type_of_all(&values)) {
            node.insert("type".into(), name.into());
        }
        let all = node.entry("allOf").or_insert_with(|| json!([]));
        if let Value::Array(all) = all {
            all.push(json!({"enum": values}));
        }
    }
}

fn inferred_type(node: &Node) -> Option<&'static str> {
    if node.contains_key("properties") || node.contains_key("additionalProperties") {
        return Some("object");
    }
    if node.contains_key("items") {
        return Some("array");
    }
    type_of_all(node.get("enum")?.as_array()?)
}

fn type_of_all(values: &[Value]) -> Option<&'static str> {
    let are = |is: fn(&Value) -> bool| values.iter().all(is);
    match () {
        () if are(Value::is_string) => Some("string"),
        () if are(Value::is_i64) => Some("integer"),
        () if are(Value::is_boolean) => Some("boolean"),
        () => None,
    }
}

/// The items of a set are compared as a whole.
fn atomic_items(node: &mut Node) {
    if node.get("x-kubernetes-list-type") != Some(&"set".into()) {
        return;
    }
    let Some(Value::Object(items)) = node.get_mut("items") else {
        return;
    };
    let word = match items.get("type").and_then(Value::as_str) {
        Some("object") => ("x-kubernetes-map-type", "atomic"),
        Some("array") => ("x-kubernetes-list-type", "atomic"),
        _ => return,
    };
    items.entry(word.0).or_insert(word.1.into());
}
