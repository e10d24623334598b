//! Which OpenAPI schemas a custom kind may have: structural ones, in which every field has one type wherever it is
//! spoken of, and nothing that would make pruning or merging ambiguous.

use serde_json::Value;
use watchkeeper_cel::pattern::compile;
use watchkeeper_meta::{FieldError, FieldErrors, FieldPath};
use watchkeeper_wire::limits::NESTING_LIMIT;

use crate::custom::expressions::{definition_faults, rule_faults};
use crate::custom::rules::Rules;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Words of JSON Schema that Kubernetes does not know.
const UNSUPPORTED: [&str; 7] = [
    "$ref",
    "id",
    "definitions",
    "dependencies",
    "patternProperties",
    "additionalItems",
    "$schema",
];

/// What a schema within `allOf` and the like may not repeat: the schema around it says it.
const ONLY_OUTSIDE: [(&str, &str); 8] = [
    ("type", "must be empty to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("nullable", "must be false to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
];

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Field,
    Item,
}

/// What is wrong with the schema at a path. Rules that are expressions are compiled if nothing else is: they take their
/// types from it.
pub(crate) fn faults(path: &FieldPath, schema: &Value) -> FieldErrors {
    let mut faults = FieldErrors::new();
    check(path, schema, Level::Root, 0, &mut faults);
    if faults.is_empty() {
        faults = definition_faults(path, schema);
    }
    faults
}

fn check(path: &FieldPath, schema: &Value, level: Level, depth: u32, faults: &mut FieldErrors) {
    if depth > NESTING_LIMIT {
        let why = format!("nested deeper than {NESTING_LIMIT} levels");
        return faults.push(FieldError::forbidden(path, why));
    }
    if let Some(items) = schema.get("items") {
        let items_path = path.child("items");
        match items {
            Value::Object(_) => check(&items_path, items, Level::Item, depth + 1, faults),
            _ => faults.push(FieldError::forbidden(
                &items_path,
                "items must be a schema object and not an array",
            )),
        }
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = path.child("properties").key(name);
        if level == Level::Root && name == "metadata" {
            check_metadata(&path, inner, faults);
        } else {
            check(&path, inner, Level::Field, depth + 1, faults);
        }
    }
    check_additional(path, schema, depth, faults);
    check_words(path, schema, faults);
    check_junctors(path, schema, depth, faults);
    if schema["$ref"].is_null() {
        check_type(path, schema, level, faults);
    }
    check_list(path, schema, faults);
    check_map(path, schema, faults);
    check_pattern(path, schema, faults);
    check_default(path, schema, level, faults);
    rule_faults(path, schema, faults);
}

fn check_additional(path: &FieldPath, schema: &Value, depth: u32, faults: &mut FieldErrors) {
    let Some(additional) = schema.get("additionalProperties") else {
        return;
    };
    let path = path.child("additionalProperties");
    let has_properties = schema["properties"].as_object().is_some_and(|it| !it.is_empty());
    match additional {
        _ if has_properties => {
            let why = "additionalProperties and properties are mutual exclusive";
            faults.push(FieldError::forbidden(&path, why));
        }
        inner => {
            if inner.is_object() {
                check(&path, inner, Level::Field, depth + 1, faults);
            }
        }
    }
}

fn check_words(path: &FieldPath, schema: &Value, faults: &mut FieldErrors) {
    for word in UNSUPPORTED {
        if schema.get(word).is_some_and(|value| !value.is_null()) {
            let why = format!("{word} is not supported");
            faults.push(FieldError::forbidden(&path.child(word), why));
        }
    }
    if schema["uniqueItems"] == true {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        faults.push(FieldError::forbidden(&path.child("uniqueItems"), why));
    }
}

fn check_type(path: &FieldPath, schema: &Value, level: Level, faults: &mut FieldErrors) {
    let at = path.child("type");
    let is_set = |name: &str| schema[name] == true;
    let kind = schema["type"].as_str().unwrap_or_default();
    if is_set("x-kubernetes-embedded-resource") {
        check_embedded(path, schema, kind, faults);
    } else if kind.is_empty() {
        let is_free = is_set("x-kubernetes-int-or-string") || is_set("x-kubernetes-preserve-unknown-fields");
        let why = match level {
            Level::Root => "must not be empty at the root",
            _ if is_free || is_int_or_string_pattern(schema) => return,
            Level::Field => "must not be empty for specified object fields",
            Level::Item => "must not be empty for specified array items",
        };
        return faults.push(FieldError::required(&at, why));
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        faults.push(FieldError::forbidden(&at, why));
        return;
    }
    if level == Level::Root && kind != "object" {
        faults.push(FieldError::invalid(&at, kind, "must be object at the root"));
    }
    if !kind.is_empty() && !TYPES.contains(&kind) {
        faults.push(FieldError::not_supported(&at, kind, &TYPES));
    } else if is_set("x-kubernetes-preserve-unknown-fields") && !matches!(kind, "object" | "") {
        let why = "must be object if x-kubernetes-preserve-unknown-fields is true";
        faults.push(FieldError::invalid(&at, kind, why));
    }
}

/// The older way to say that a value is a number or a text.
fn is_int_or_string_pattern(schema: &Value) -> bool {
    let types = schema["anyOf"].as_array().into_iter().flatten();
    types
        .map(|it| it["type"].as_str())
        .eq([Some("integer"), Some("string")])
}

fn check_embedded(path: &FieldPath, schema: &Value, kind: &str, faults: &mut FieldErrors) {
    if schema.get("additionalProperties").is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        faults.push(FieldError::forbidden(&path.child("additionalProperties"), why));
    }
    let is_empty = schema["properties"].as_object().is_none_or(|it| it.is_empty());
    if is_empty && schema["x-kubernetes-preserve-unknown-fields"] != true {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        faults.push(FieldError::required(&path.child("properties"), why));
    }
    let why = "must be object if x-kubernetes-embedded-resource is true";
    match kind {
        "object" => {}
        "" => faults.push(FieldError::required(&path.child("type"), why)),
        kind => faults.push(FieldError::invalid(&path.child("type"), kind, why)),
    }
}

/// How apply treats an object, and what becomes of fields nobody knows.
fn check_map(path: &FieldPath, schema: &Value, faults: &mut FieldErrors) {
    let word = schema["x-kubernetes-map-type"].as_str().unwrap_or_default();
    if !matches!(word, "" | "atomic" | "granular") {
        let path = path.child("x-kubernetes-map-type");
        faults.push(FieldError::not_supported(&path, word, &["atomic", "granular"]));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        faults.push(FieldError::invalid(&path, false, "must be true or undefined"));
    }
}

/// The server knows what metadata is; a schema may only narrow down names.
fn check_metadata(path: &FieldPath, schema: &Value, faults: &mut FieldErrors) {
    if schema["type"] != "object" {
        faults.push(FieldError::invalid(
            &path.child("type"),
            schema["type"].clone(),
            "must be object",
        ));
    }
    let names = |value: &Value| {
        let mut names = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str());
        names.all(|name| matches!(name, "name" | "generateName"))
    };
    let mut words = schema
        .as_object()
        .into_iter()
        .flatten()
        .map(|(word, _)| word.as_str());
    let is_plain = words.all(|word| matches!(word, "type" | "properties" | "description"));
    if !is_plain || !names(&schema["properties"]) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        faults.push(FieldError::forbidden(path, why));
    }
}

fn check_list(path: &FieldPath, schema: &Value, faults: &mut FieldErrors) {
    let list_type = path.child("x-kubernetes-list-type");
    if schema["type"] == "array" && schema["items"].is_null() {
        faults.push(FieldError::required(&path.child("items"), "must be specified"));
    }
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let keys: Vec<&Value> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let word = schema["x-kubernetes-list-type"].as_str().unwrap_or_default();
    if !word.is_empty() && schema["type"] != "array" {
        let at = path.child("type");
        let why = "must be array if x-kubernetes-list-type is specified";
        faults.push(match schema["type"].as_str() {
            None => FieldError::required(&at, why),
            Some(kind) => FieldError::invalid(&at, kind, why),
        });
    }
    match word {
        "" if !keys.is_empty() => {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            faults.push(FieldError::required(&list_type, why));
        }
        "atomic" | "set" if !keys.is_empty() => {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            faults.push(FieldError::invalid(&list_type, word, why));
        }
        "set" => check_set(path, schema, faults),
        "" | "atomic" => {}
        "map" if keys.is_empty() => {
            let why = "must not be empty if x-kubernetes-list-type is map";
            faults.push(FieldError::required(&keys_path, why));
        }
        "map" => check_keys(path, schema, &keys, faults),
        other => faults.push(FieldError::not_supported(
            &list_type,
            other,
            &["atomic", "set", "map"],
        )),
    }
}

/// The items of a set are told apart as wholes.
fn check_set(path: &FieldPath, schema: &Value, faults: &mut FieldErrors) {
    let (items, at) = (&schema["items"], path.child("items"));
    let word = match items["type"].as_str() {
        Some("object") => "x-kubernetes-map-type",
        Some("array") => "x-kubernetes-list-type",
        _ => return,
    };
    if items[word] != "atomic" {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        faults.push(FieldError::invalid(&at.child(word), items[word].clone(), why));
    }
}

/// The keys of a list are plain fields that every item has.
fn check_keys(path: &FieldPath, schema: &Value, keys: &[&Value], faults: &mut FieldErrors) {
    let (items, at) = (&schema["items"], path.child("items"));
    if items["type"] != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        return faults.push(FieldError::invalid(&at.child("type"), items["type"].clone(), why));
    }
    for key in keys.iter().filter_map(|key| key.as_str()) {
        let Some(field) = items["properties"].get(key) else {
            let at = path.child("x-kubernetes-list-map-keys");
            let shown = schema["x-kubernetes-list-map-keys"].clone();
            let why = "entries must all be names of item properties";
            faults.push(FieldError::invalid(&at, shown, why));
            continue;
        };
        let at = at.child("properties").key(key);
        if matches!(field["type"].as_str(), Some("object" | "array")) {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            faults.push(FieldError::invalid(&at.child("type"), field["type"].clone(), why));
        }
        let mut required = items["required"].as_array().into_iter().flatten();
        if field.get("default").is_none() && !required.any(|name| name == key) {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                       property";
            faults.push(FieldError::required(&at.child("default"), why));
        }
    }
}

fn check_pattern(path: &FieldPath, schema: &Value, faults: &mut FieldErrors) {
    let Some(pattern) = schema["pattern"].as_str() else {
        return;
    };
    if let Err(error) = compile(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        faults.push(FieldError::invalid(&path.child("pattern"), pattern, why));
    }
}

/// A default must be in order itself.
fn check_default(path: &FieldPath, schema: &Value, level: Level, faults: &mut FieldErrors) {
    let Some(default) = schema.get("default").filter(|default| !default.is_null()) else {
        return;
    };
    let path = path.child("default");
    if level == Level::Root {
        return faults.push(FieldError::forbidden(&path, "must not be set at the root"));
    }
    if !knows_all(schema, default) {
        let why = "must not have unknown fields";
        return faults.push(FieldError::invalid(&path, default.clone(), why));
    }
    let found = Rules::compile(schema).faults(default, None);
    faults.append(found.map(|fault| {
        let within = match fault.field.as_str() {
            "<nil>" => path.clone(),
            inner if inner.starts_with('[') => FieldPath::from(format!("{path}{inner}")),
            inner => path.child(inner),
        };
        FieldError {
            field: within,
            ..fault
        }
    }));
}

/// Whether a schema specifies all there is in a value, so that nothing of it would be pruned.
fn knows_all(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return true;
    }
    match value {
        Value::Object(fields) => fields.iter().all(|(name, value)| {
            let known = schema["properties"].get(name);
            match known.or_else(|| schema.get("additionalProperties")) {
                Some(inner) => inner == true || knows_all(inner, value),
                None => schema["x-kubernetes-embedded-resource"] == true,
            }
        }),
        Value::Array(items) => items.iter().all(|item| knows_all(&schema["items"], item)),
        _ => true,
    }
}

fn check_junctors(path: &FieldPath, schema: &Value, depth: u32, faults: &mut FieldErrors) {
    for word in ["allOf", "anyOf", "oneOf"] {
        for (index, inner) in schema[word].as_array().into_iter().flatten().enumerate() {
            let is_pattern = word == "anyOf" && is_int_or_string_pattern(schema);
            if word != "allOf" {
                forbid_rules(&path.child(word).index(index), inner, depth + 1, faults);
            }
            check_nested(
                &path.child(word).index(index),
                inner,
                is_pattern,
                depth + 1,
                faults,
            );
        }
    }
    if let Some(inner) = schema.get("not") {
        forbid_rules(&path.child("not"), inner, depth + 1, faults);
        check_nested(&path.child("not"), inner, false, depth + 1, faults);
    }
}

/// Rules that are expressions hold always; there are none for what need not hold.
fn forbid_rules(path: &FieldPath, schema: &Value, depth: u32, faults: &mut FieldErrors) {
    if depth > NESTING_LIMIT {
        return;
    }
    let word = "x-kubernetes-validations";
    if schema[word].as_array().is_some_and(|rules| !rules.is_empty()) {
        faults.push(FieldError::forbidden(
            &path.child(word),
            "must be empty to be structural",
        ));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        forbid_rules(&path.child("properties").key(name), inner, depth + 1, faults);
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(word) {
            forbid_rules(&path.child(word), inner, depth + 1, faults);
        }
    }
    for (index, inner) in schema["allOf"].as_array().into_iter().flatten().enumerate() {
        forbid_rules(&path.child("allOf").index(index), inner, depth + 1, faults);
    }
}

fn check_nested(path: &FieldPath, schema: &Value, may_type: bool, depth: u32, faults: &mut FieldErrors) {
    if depth > NESTING_LIMIT {
        let why = format!("nested deeper than {NESTING_LIMIT} levels");
        return faults.push(FieldError::forbidden(path, why));
    }
    for (word, why) in ONLY_OUTSIDE {
        let is_said = !matches!(schema.get(word), None | Some(Value::Null | Value::Bool(false)));
        if is_said && !(may_type && word == "type") {
            faults.push(FieldError::forbidden(&path.child(word), why));
        }
    }
    check_pattern(path, schema, faults);
    rule_faults(path, schema, faults);
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        check_nested(
            &path.child("properties").key(name),
            inner,
            false,
            depth + 1,
            faults,
        );
    }
    if let Some(items) = schema.get("items") {
        check_nested(&path.child("items"), items, false, depth + 1, faults);
    }
    check_junctors(path, schema, depth, faults);
}
