//! Validation of structural schemas: every field has exactly one type, stated outside of `allOf` and its like, so that
//! pruning and merging are unambiguous.

use std::collections::HashSet;

use serde_json::Value;
use watchkeeper_cel::pattern::compile;
use watchkeeper_meta::{FieldError, FieldErrors, FieldPath};
use watchkeeper_wire::limits::NESTING_LIMIT;

use crate::custom::expressions::{definition_errors, rule_errors};
use crate::custom::rules::Rules;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The known formats, without dashes.
const FORMATS: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "double",
    "duration",
    "email",
    "float",
    "hexcolor",
    "hostname",
    "int32",
    "int64",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
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

/// JSON Schema keywords that Kubernetes rejects.
const UNSUPPORTED: [&str; 6] = [
    "$ref",
    "id",
    "definitions",
    "dependencies",
    "patternProperties",
    "additionalItems",
];

/// Keywords that schemas within `allOf`, `anyOf`, `oneOf` and `not` may not set.
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

/// The position of a schema, which decides how errors word a missing type.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Field,
    Item,
}

/// The errors of the schema at a path. CEL rules are compiled only if there are no others, since they take their types
/// from the schema.
pub(crate) fn errors(path: &FieldPath, schema: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if names_dialect(schema, 0) {
        // Kubernetes cannot convert such a schema and stops here.
        let why = "OpenAPIV3Schema 'schema' is not supported";
        return FieldError::invalid(path, "", why).into();
    }
    check(path, schema, Level::Root, 0, &mut errors);
    if errors.is_empty() {
        errors = definition_errors(path, schema);
    }
    errors
}

/// True if a schema, or one nested in it, sets `$schema`.
fn names_dialect(schema: &Value, depth: u32) -> bool {
    let inner = [
        "properties",
        "items",
        "additionalProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
    ];
    let within = |value: &Value| match value {
        Value::Array(schemas) => schemas.iter().any(|schema| names_dialect(schema, depth + 1)),
        value => names_dialect(value, depth + 1),
    };
    let text = schema.get("$schema").and_then(Value::as_str);
    depth <= NESTING_LIMIT
        && (text.is_some_and(|text| !text.is_empty())
            || inner.iter().any(|word| match (*word, schema.get(word)) {
                ("properties", Some(Value::Object(fields))) => fields.values().any(within),
                (_, Some(inner)) => within(inner),
                (_, None) => false,
            }))
}

fn check(path: &FieldPath, schema: &Value, level: Level, depth: u32, errors: &mut FieldErrors) {
    if depth > NESTING_LIMIT {
        let why = format!("nested deeper than {NESTING_LIMIT} levels");
        return errors.push(FieldError::forbidden(path, why));
    }
    if let Some(items) = schema.get("items") {
        let items_path = path.child("items");
        match items {
            Value::Object(_) => check(&items_path, items, Level::Item, depth + 1, errors),
            _ => errors.push(FieldError::forbidden(
                &items_path,
                "items must be a schema object and not an array",
            )),
        }
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = path.child("properties").key(name);
        if level == Level::Root && name == "metadata" {
            check_metadata(&path, inner, errors);
        } else {
            check(&path, inner, Level::Field, depth + 1, errors);
        }
    }
    if level == Level::Root || schema["x-kubernetes-embedded-resource"] == true {
        check_type_meta(path, schema, errors);
    }
    check_additional(path, schema, level, depth, errors);
    check_words(path, schema, errors);
    check_junctors(path, schema, depth, errors);
    check_type(path, schema, level, errors);
    check_list(path, schema, errors);
    check_map(path, schema, errors);
    check_pattern(path, schema, errors);
    check_default(path, schema, level, errors);
    rule_errors(path, schema, errors);
}

/// Checks that `apiVersion` and `kind` are strings.
fn check_type_meta(path: &FieldPath, schema: &Value, errors: &mut FieldErrors) {
    for name in ["apiVersion", "kind"] {
        let Some(field) = schema["properties"]
            .get(name)
            .filter(|field| field["type"] != "string")
        else {
            continue;
        };
        let at = path.child("properties").key(name).child("type");
        let kind = field["type"].as_str().unwrap_or_default();
        errors.push(FieldError::invalid(&at, kind, "must be string"));
    }
}

fn check_additional(path: &FieldPath, schema: &Value, level: Level, depth: u32, errors: &mut FieldErrors) {
    let Some(additional) = schema.get("additionalProperties") else {
        return;
    };
    let path = path.child("additionalProperties");
    let has_properties = schema["properties"].as_object().is_some_and(|it| !it.is_empty());
    match additional {
        _ if has_properties => {
            let why = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(&path, why));
        }
        inner => {
            if level == Level::Root {
                errors.push(FieldError::forbidden(&path, "must not be used at the root"));
            }
            if inner.is_object() {
                check(&path, inner, Level::Field, depth + 1, errors);
            }
        }
    }
}

fn check_words(path: &FieldPath, schema: &Value, errors: &mut FieldErrors) {
    for word in UNSUPPORTED {
        if schema.get(word).is_some_and(|value| !value.is_null()) {
            let why = format!("{word} is not supported");
            errors.push(FieldError::forbidden(&path.child(word), why));
        }
    }
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema[preserve] == false {
        let why = "must be true or undefined";
        errors.push(FieldError::invalid(&path.child(preserve), false, why));
    }
    if schema["uniqueItems"] == true {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(&path.child("uniqueItems"), why));
    }
}

/// True if a schema has keywords that stop Kubernetes from converting it.
fn has_unsupported(schema: &Value) -> bool {
    UNSUPPORTED
        .iter()
        .any(|word| schema.get(word).is_some_and(|value| !value.is_null()))
}

fn check_type(path: &FieldPath, schema: &Value, level: Level, errors: &mut FieldErrors) {
    let at = path.child("type");
    let is_set = |name: &str| schema[name] == true;
    let kind = schema["type"].as_str().unwrap_or_default();
    if is_set("x-kubernetes-embedded-resource") {
        check_embedded(path, schema, kind, errors);
    } else if kind.is_empty() {
        let is_free = is_set("x-kubernetes-int-or-string") || is_set("x-kubernetes-preserve-unknown-fields");
        let why = match level {
            Level::Root => "must not be empty at the root",
            _ if is_free || is_int_or_string_pattern(schema) || has_unsupported(schema) => return,
            Level::Field => "must not be empty for specified object fields",
            Level::Item => "must not be empty for specified array items",
        };
        return errors.push(FieldError::required(&at, why));
    }
    if kind == "array" && schema.get("items").is_none() {
        errors.push(FieldError::required(&path.child("items"), "must be specified"));
    }
    if level == Level::Root && schema["nullable"] == true {
        let why = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(&path.child("nullable"), why));
    }
    if kind == "null" {
        errors.push(FieldError::not_supported(&at, kind, &TYPES));
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(&at, why));
        return;
    }
    if level == Level::Root && kind != "object" {
        errors.push(FieldError::invalid(&at, kind, "must be object at the root"));
    }
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(&at, kind, &TYPES));
    } else if is_set("x-kubernetes-preserve-unknown-fields") && !matches!(kind, "object" | "") {
        let why = "must be object if x-kubernetes-preserve-unknown-fields is true";
        errors.push(FieldError::invalid(&at, kind, why));
    }
}

/// True for the older spelling of int-or-string: `anyOf` the two types.
fn is_int_or_string_pattern(schema: &Value) -> bool {
    let types = schema["anyOf"].as_array().into_iter().flatten();
    types
        .map(|it| it["type"].as_str())
        .eq([Some("integer"), Some("string")])
}

fn check_embedded(path: &FieldPath, schema: &Value, kind: &str, errors: &mut FieldErrors) {
    let is_empty = schema["properties"].as_object().is_none_or(|it| it.is_empty());
    if is_empty && schema["x-kubernetes-preserve-unknown-fields"] != true {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&path.child("properties"), why));
    }
    if schema.get("additionalProperties").is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), why));
    }
    let why = "must be object if x-kubernetes-embedded-resource is true";
    match kind {
        "object" => {}
        "" => errors.push(FieldError::required(&path.child("type"), why)),
        kind => errors.push(FieldError::invalid(&path.child("type"), kind, why)),
    }
}

/// Checks `metadata`: its schema is implied, and a definition may only restrict `name` and `generateName`.
fn check_metadata(path: &FieldPath, schema: &Value, errors: &mut FieldErrors) {
    if schema["type"] != "object" {
        errors.push(FieldError::invalid(
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
        errors.push(FieldError::forbidden(path, why));
    }
}

fn check_list(path: &FieldPath, schema: &Value, errors: &mut FieldErrors) {
    let list_type = path.child("x-kubernetes-list-type");
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
        errors.push(match schema["type"].as_str() {
            None => FieldError::required(&at, why),
            Some(kind) => FieldError::invalid(&at, kind, why),
        });
    }
    match word {
        "" if !keys.is_empty() => {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.push(FieldError::required(&list_type, why));
        }
        "atomic" | "set" if !keys.is_empty() => {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.push(FieldError::invalid(&list_type, word, why));
        }
        "" | "atomic" | "set" => {}
        "map" if keys.is_empty() => {
            let why = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(&keys_path, why));
        }
        "map" => check_keys(path, schema, &keys, errors),
        other => errors.push(FieldError::not_supported(
            &list_type,
            other,
            &["atomic", "set", "map"],
        )),
    }
    if word == "set" {
        check_set_items(&path.child("items"), &schema["items"], errors);
    }
}

/// Checks the items of a set: they must be scalar or atomic, since sets compare whole items.
fn check_set_items(path: &FieldPath, items: &Value, errors: &mut FieldErrors) {
    let word = match items["type"].as_str() {
        Some("object") => "x-kubernetes-map-type",
        Some("array") => "x-kubernetes-list-type",
        _ => "",
    };
    // A list is atomic by default; an object only if it says so.
    let is_default = word == "x-kubernetes-list-type" && items.get(word).is_none();
    if !word.is_empty() && items[word] != "atomic" && !is_default {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.push(FieldError::invalid(&path.child(word), items[word].clone(), why));
    }
    if items["nullable"] == true {
        let why = "cannot be nullable when x-kubernetes-list-type is set";
        errors.push(FieldError::forbidden(&path.child("nullable"), why));
    }
}

fn check_map(path: &FieldPath, schema: &Value, errors: &mut FieldErrors) {
    let name = "x-kubernetes-map-type";
    let Some(word) = schema[name].as_str() else {
        return;
    };
    if schema["type"] != "object" {
        let at = path.child("type");
        let why = "must be object if x-kubernetes-map-type is specified";
        errors.push(match schema["type"].as_str() {
            None => FieldError::required(&at, why),
            Some(kind) => FieldError::invalid(&at, kind, why),
        });
    }
    if !matches!(word, "atomic" | "granular") {
        let at = path.child(name);
        errors.push(FieldError::not_supported(&at, word, &["atomic", "granular"]));
    }
}

/// Checks the keys of a map list: required scalar properties of the items.
fn check_keys(path: &FieldPath, schema: &Value, keys: &[&Value], errors: &mut FieldErrors) {
    let (items, at) = (&schema["items"], path.child("items"));
    if items["type"] != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.push(FieldError::invalid(&at.child("type"), items["type"].clone(), why));
    }
    let names: HashSet<&str> = keys.iter().filter_map(|key| key.as_str()).collect();
    if names.len() < keys.len() {
        let word = "x-kubernetes-list-map-keys";
        let why = "must not contain duplicate entries";
        errors.push(FieldError::invalid(&path.child(word), schema[word].clone(), why));
    }
    let required = items["required"].as_array().into_iter().flatten();
    let required: HashSet<&str> = required.filter_map(Value::as_str).collect();
    for key in keys.iter().filter_map(|key| key.as_str()) {
        let Some(field) = items["properties"].get(key) else {
            let word = "x-kubernetes-list-map-keys";
            let why = "entries must all be names of item properties";
            errors.push(FieldError::invalid(&path.child(word), schema[word].clone(), why));
            continue;
        };
        let at = at.child("properties").key(key);
        if matches!(field["type"].as_str(), Some("object" | "array")) {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(&at.child("type"), field["type"].clone(), why));
        }
        if field.get("default").is_none() && !required.contains(key) {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                       property";
            errors.push(FieldError::required(&at.child("default"), why));
        }
    }
}

fn check_pattern(path: &FieldPath, schema: &Value, errors: &mut FieldErrors) {
    let Some(pattern) = schema["pattern"].as_str() else {
        return;
    };
    if let Err(error) = compile(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(&path.child("pattern"), pattern, why));
    }
}

/// Checks that a default is valid against its own schema.
fn check_default(path: &FieldPath, schema: &Value, level: Level, errors: &mut FieldErrors) {
    let Some(default) = schema.get("default").filter(|default| !default.is_null()) else {
        return;
    };
    let path = path.child("default");
    if level == Level::Root {
        return errors.push(FieldError::forbidden(&path, "must not be set at the root"));
    }
    if has_unknown(schema, default) {
        let why = "must not have unknown fields";
        errors.push(FieldError::invalid(&path, default.clone(), why));
    }
    let found = Rules::compile(schema).errors(default, None);
    errors.append(found.map(|error| {
        let within = match error.field.as_str() {
            "<nil>" => path.clone(),
            inner if inner.starts_with('[') => FieldPath::from(format!("{path}{inner}")),
            inner => path.child(inner),
        };
        FieldError {
            field: within,
            ..error
        }
    }));
}

/// Collects the unrecognized formats of a schema, spelled as written, some of them repeatedly.
pub(crate) fn unknown_formats<'s>(schema: &'s Value, found: &mut Vec<&'s str>) {
    if let Some(format) = schema["format"].as_str()
        && !FORMATS.contains(&&*format.replace('-', ""))
    {
        found.push(format);
    }
    for word in ["properties", "patternProperties", "definitions"] {
        let inner = schema[word].as_object().into_iter().flatten();
        inner.for_each(|(_, inner)| unknown_formats(inner, found));
    }
    for word in ["items", "additionalProperties", "not"] {
        if let Some(inner) = schema.get(word).filter(|inner| inner.is_object()) {
            unknown_formats(inner, found);
        }
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        let inner = schema[word].as_array().into_iter().flatten();
        inner.for_each(|inner| unknown_formats(inner, found));
    }
}

/// True if pruning would remove fields of a value.
fn has_unknown(schema: &Value, value: &Value) -> bool {
    let keeps_all = schema["x-kubernetes-preserve-unknown-fields"] == true
        || schema["x-kubernetes-embedded-resource"] == true;
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| {
            let additional = schema.get("additionalProperties").filter(|it| **it != false);
            match schema["properties"].get(name).or(additional) {
                Some(inner) => has_unknown(inner, value),
                None => !keeps_all,
            }
        }),
        Value::Array(items) => items.iter().any(|item| has_unknown(&schema["items"], item)),
        _ => false,
    }
}

fn check_junctors(path: &FieldPath, schema: &Value, depth: u32, errors: &mut FieldErrors) {
    for word in ["allOf", "anyOf", "oneOf"] {
        for (index, inner) in schema[word].as_array().into_iter().flatten().enumerate() {
            let is_pattern = word == "anyOf" && is_int_or_string_pattern(schema);
            if word != "allOf" {
                forbid_rules(&path.child(word).index(index), inner, depth + 1, errors);
            }
            check_nested(
                &path.child(word).index(index),
                inner,
                is_pattern,
                depth + 1,
                errors,
            );
        }
    }
    if let Some(inner) = schema.get("not") {
        forbid_rules(&path.child("not"), inner, depth + 1, errors);
        check_nested(&path.child("not"), inner, false, depth + 1, errors);
    }
}

/// Rejects CEL rules below `anyOf`, `oneOf` and `not`, where they need not hold.
fn forbid_rules(path: &FieldPath, schema: &Value, depth: u32, errors: &mut FieldErrors) {
    if depth > NESTING_LIMIT {
        return;
    }
    let word = "x-kubernetes-validations";
    if schema[word].as_array().is_some_and(|rules| !rules.is_empty()) {
        errors.push(FieldError::forbidden(
            &path.child(word),
            "must be empty to be structural",
        ));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        forbid_rules(&path.child("properties").key(name), inner, depth + 1, errors);
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(word) {
            forbid_rules(&path.child(word), inner, depth + 1, errors);
        }
    }
    for (index, inner) in schema["allOf"].as_array().into_iter().flatten().enumerate() {
        forbid_rules(&path.child("allOf").index(index), inner, depth + 1, errors);
    }
}

fn check_nested(path: &FieldPath, schema: &Value, may_type: bool, depth: u32, errors: &mut FieldErrors) {
    if depth > NESTING_LIMIT {
        let why = format!("nested deeper than {NESTING_LIMIT} levels");
        return errors.push(FieldError::forbidden(path, why));
    }
    for (word, why) in ONLY_OUTSIDE {
        let is_said = !matches!(schema.get(word), None | Some(Value::Null | Value::Bool(false)));
        if is_said && !(may_type && word == "type") {
            errors.push(FieldError::forbidden(&path.child(word), why));
        }
    }
    check_pattern(path, schema, errors);
    rule_errors(path, schema, errors);
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        check_nested(
            &path.child("properties").key(name),
            inner,
            false,
            depth + 1,
            errors,
        );
    }
    if let Some(items) = schema.get("items") {
        check_nested(&path.child("items"), items, false, depth + 1, errors);
    }
    check_junctors(path, schema, depth, errors);
}
