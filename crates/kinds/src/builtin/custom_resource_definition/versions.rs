//! Validation of a definition's versions: names, the storage version, and the parts of each besides the schema.
//!
//! Kubernetes moves parts that all versions share to the top level, and its errors name them there: the schema of a
//! definition with one version is `spec.validation`, not `spec.versions[0].schema`.

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_cel::limits::MAX_SCHEMA_REGEX_BYTES;
use watchkeeper_meta::validation::dns1035_label;
use watchkeeper_meta::{FieldError, FieldPath, go_json};

use super::patterns::PatternBudget;
use super::schema;
use crate::rules::place::{Errors, Place};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

/// The longest `deprecationWarning`.
const MAX_WARNING_BYTES: usize = 256;

/// The largest number of versions. Kubernetes has no limit; encoded watch events are shared per version, and the key of
/// the shared encoding has five bits for it.
const MAX_VERSIONS: usize = 32;

/// The largest number of selectable fields, as in Kubernetes.
const MAX_SELECTABLE: usize = 8;

pub(crate) fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    let versions = spec.field("versions");
    let list: Vec<&Value> = versions.items().map(|version| version.value()).collect();
    for version in versions.items() {
        let schema = version.field("schema");
        let schema = schema.field("openAPIV3Schema");
        if !schema.is_set() {
            errors.push(schema.required(""));
        }
    }
    for version in versions.items() {
        let name = version.field("name");
        let problems = dns1035_label(name.text());
        if !problems.is_empty() {
            errors.push(name.invalid(problems.join(",")));
        }
    }
    versions
        .items()
        .for_each(|version| check_deprecation(&version, errors));
    if list.len() > MAX_VERSIONS {
        errors.push(versions.too_many(MAX_VERSIONS));
    }
    let mut names: Vec<&str> = list.iter().filter_map(|it| it["name"].as_str()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        errors.push(versions.invalid_in_go(in_go(&versions, &list), "must contain unique version names"));
    }
    if list.iter().filter(|it| it["storage"] == true).count() != 1 {
        errors.push(versions.invalid_in_go(
            in_go(&versions, &list),
            "must have exactly one version marked as storage version",
        ));
    }
    check_first(spec, &list, errors);
    check_schemas(&list, errors);
    each(&list, "subresources", |path, value| {
        check_subresources(path, value, errors)
    });
    each(&list, "additionalPrinterColumns", |path, value| {
        check_columns(path, value, errors);
    });
    for (index, version) in list.iter().enumerate() {
        let path = common(&list, "selectableFields", index);
        if let Some(path) = path {
            check_selectable(&path, version, errors);
        }
    }
}

/// Checks `deprecationWarning`.
fn check_deprecation(version: &Place<'_, '_>, errors: &mut Errors) {
    let warning = version.field("deprecationWarning");
    if !warning.is_set() {
        return;
    }
    if !version.field("deprecated").is_true() {
        return errors.push(warning.invalid("can only be set for deprecated versions"));
    }
    let text = warning.text();
    if text.len() > MAX_WARNING_BYTES {
        let why = format!("must be <= {MAX_WARNING_BYTES} characters long");
        errors.push(warning.invalid(why));
    }
    if text.is_empty() {
        errors.push(warning.invalid("must not be an empty string"));
    }
    let unprintable = text.char_indices().find(|(_, char)| !is_printable(*char));
    if let Some((index, _)) = unprintable {
        errors.push(warning.invalid(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        )));
    }
}

/// True if Go's `unicode.IsPrint` holds. Rust's debug form escapes the same characters.
fn is_printable(char: char) -> bool {
    matches!(char, '\\' | '"' | '\'')
        || (char == ' ' || !char.is_whitespace()) && char.escape_debug().count() == 1
}

/// Checks the deprecated `spec.version`, which must name the first version.
fn check_first(spec: &Place<'_, '_>, versions: &[&Value], errors: &mut Errors) {
    let first = versions.first().and_then(|version| version["name"].as_str());
    let Some(name) = first.filter(|name| !name.is_empty()) else {
        return;
    };
    let problems = dns1035_label(name);
    if !problems.is_empty() {
        errors.push(spec.field("version").invalid_for(name, problems.join(",")));
    }
}

/// The path errors use for a part of a version; `None` if all versions share it and it was checked already.
fn common(versions: &[&Value], name: &str, index: usize) -> Option<FieldPath> {
    let spec = FieldPath::new("spec");
    match versions.iter().all(|version| version[name] == versions[0][name]) {
        true => (index == 0).then(|| spec.child(name)),
        false => Some(spec.child("versions").index(index).child(name)),
    }
}

/// Calls `check` for each distinct part of that name.
fn each(versions: &[&Value], name: &str, mut check: impl FnMut(&FieldPath, &Value)) {
    for (index, version) in versions.iter().enumerate() {
        if let Some(path) = common(versions, name, index) {
            check(&path, &version[name]);
        }
    }
}

fn check_schemas(versions: &[&Value], errors: &mut Errors) {
    let is_common = versions
        .iter()
        .all(|version| version["schema"] == versions[0]["schema"]);
    let mut patterns = PatternBudget::new();
    for (index, version) in versions.iter().enumerate() {
        let own = FieldPath::new("spec")
            .child("versions")
            .index(index)
            .child("schema");
        let Some(found) = version["schema"].get("openAPIV3Schema") else {
            continue;
        };
        let path = match is_common {
            true => FieldPath::new("spec").child("validation"),
            false => own,
        };
        let path = path.child("openAPIV3Schema");
        // Each version compiles its own patterns, even if they are equal.
        if !patterns.has_room_for(found) {
            let why = format!("patterns take more than {MAX_SCHEMA_REGEX_BYTES} bytes when compiled");
            return errors.push(FieldError::forbidden(&path, why));
        }
        if is_common && index > 0 {
            continue;
        }
        errors.append(schema::errors(&path, found));
    }
}

fn check_subresources(path: &FieldPath, subresources: &Value, errors: &mut Errors) {
    let Some(scale) = subresources.get("scale").filter(|scale| !scale.is_null()) else {
        return;
    };
    let path = path.child("scale");
    let mut check = |name: &str, roots: &[&str], is_optional: bool| {
        let path = path.child(name);
        let text = scale[name].as_str().unwrap_or_default();
        let is_below = |root: &&str| text.strip_prefix(*root).is_some_and(|rest| rest.starts_with('.'));
        match text {
            "" if is_optional => {}
            "" => errors.push(FieldError::required(&path, "")),
            text if !text.starts_with('.') => errors.push(FieldError::invalid(&path, text, NOT_SIMPLE)),
            _ if roots.iter().any(is_below) => {}
            text => {
                let either = if roots.len() > 1 { "either " } else { "" };
                let why = format!("should be a json path under {either}{}", roots.join(" or "));
                errors.push(FieldError::invalid(&path, text, why));
            }
        }
    };
    check("specReplicasPath", &[".spec"], false);
    check("statusReplicasPath", &[".status"], false);
    check("labelSelectorPath", &[".spec", ".status"], true);
}

fn check_columns(path: &FieldPath, columns: &Value, errors: &mut Errors) {
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let path = path.index(index);
        let text = |name: &str| column[name].as_str().unwrap_or_default();
        match text("type") {
            "" => errors.push(FieldError::required(
                &path.child("type"),
                format!("must be one of {}", COLUMN_TYPES.join(",")),
            )),
            kind if COLUMN_TYPES.contains(&kind) => {}
            kind => errors.push(FieldError::invalid(
                &path.child("type"),
                kind,
                format!("must be one of {}", COLUMN_TYPES.join(",")),
            )),
        }
        if !text("format").is_empty() && !COLUMN_FORMATS.contains(&text("format")) {
            let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(FieldError::invalid(&path.child("format"), text("format"), why));
        }
        if text("name").is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        let json_path = text("jsonPath");
        let at = path.child("JSONPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !json_path.starts_with('.') {
            errors.push(FieldError::invalid(&at, json_path, NOT_SIMPLE));
        }
    }
}

fn check_selectable(path: &FieldPath, version: &Value, errors: &mut Errors) {
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut seen = HashSet::new();
    for (index, field) in version["selectableFields"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let at = path.index(index).child("jsonPath");
        let text = field["jsonPath"].as_str().unwrap_or_default();
        let found = match selectable_field(text, schema) {
            _ if text.is_empty() => {
                errors.push(FieldError::required(&at, ""));
                continue;
            }
            Err(why) => {
                errors.push(FieldError::invalid(
                    &at,
                    text,
                    format!("is an invalid path: {why}"),
                ));
                continue;
            }
            Ok(found) => found,
        };
        if text == ".metadata" || text.starts_with(".metadata.") {
            errors.push(FieldError::invalid(
                &at,
                text,
                "must not point to fields in metadata",
            ));
        }
        if !matches!(found["type"].as_str(), Some("string" | "boolean" | "integer")) {
            errors.push(FieldError::invalid(&at, text, NOT_PLAIN));
        }
        if !seen.insert(text) {
            errors.push(FieldError::duplicate(&at, text));
        }
    }
    if seen.len() > MAX_SELECTABLE {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE));
    }
}

const NOT_PLAIN: &str = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";

/// The schema of the field that a simple path names, or why there is none.
fn selectable_field<'s>(path: &str, mut schema: &'s Value) -> Result<&'s Value, String> {
    let mut rest = path;
    while !rest.is_empty() {
        let name = match rest.strip_prefix('.') {
            Some(name) => name,
            None if rest.starts_with('[') => return Err("array notation is not allowed".to_owned()),
            None => {
                let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
                return Err(format!("expected [ or . but got: {}", &rest[..end]));
            }
        };
        if name.is_empty() {
            return Err("unexpected end of JSON path".to_owned());
        }
        let end = name.find(['.', '[', ']']).unwrap_or(name.len());
        let inner = match schema.get("properties") {
            Some(properties) => properties.get(&name[..end]),
            None => schema.get("additionalProperties"),
        };
        schema = inner.ok_or("does not refer to a valid field")?;
        rest = &name[end..];
    }
    Ok(schema)
}

const NOT_SIMPLE: &str = "must be a simple json path starting with .";

/// Formats versions as Go prints its structs, without the parts moved to the top level.
fn in_go(place: &Place<'_, '_>, versions: &[&Value]) -> String {
    if !place.is_set() {
        return "null".to_owned();
    }
    let printed: Vec<String> = versions
        .iter()
        .map(|version| {
            let text = |name: &str| go_json(&version[name]);
            let flag = |name: &str| version[name] == true;
            let warning = version.get("deprecationWarning").unwrap_or(&json!(null)).clone();
            format!(
                "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":null,\
                 \"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
                text("name"),
                flag("served"),
                flag("storage"),
                flag("deprecated"),
                go_json(&warning),
            )
        })
        .collect();
    format!("[{}]", printed.join(","))
}
