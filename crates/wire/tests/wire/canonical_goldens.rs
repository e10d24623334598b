//! Objects answered by a real server are canonical already: nothing may change and nothing may be unknown.
//!
//! The recordings are not part of the project; without them the test says so and passes.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use watchkeeper_wire::canonical::canonicalize;
use watchkeeper_wire::protobuf::{Message, encode_body};
use watchkeeper_wire::schema::Schema;

fn json_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            json_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
}

/// Every object in a server's answers, at any depth of a recording.
fn objects<'a>(value: &'a Value, is_answer: bool, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(members) => {
            if is_answer && members.contains_key("apiVersion") && members.contains_key("kind") {
                found.push(value);
                return;
            }
            for (name, member) in members {
                objects(member, is_answer || name == "response" || name == "frames", found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| objects(item, is_answer, found)),
        _ => {}
    }
}

fn check(object: &Value) -> Result<bool, String> {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let Some(id) = Schema::builtin().kind(text("apiVersion"), text("kind")) else {
        return Ok(false);
    };
    let read = canonicalize(Schema::builtin(), id, object.clone()).map_err(|error| error.to_string())?;
    if let Some(complaint) = read.unknown.first() {
        return Err(complaint.to_string());
    }
    if &read.value != object {
        return Err(format!("is printed as {}\nnot as {object}", read.value));
    }
    if text("kind") != "Table" {
        let body = encode_body(Schema::builtin(), object).map_err(|error| error.to_string())?;
        let message = Message::open(Schema::builtin(), &body).map_err(|error| error.to_string())?;
        let again = message.to_value().map_err(|error| error.to_string())?;
        let text = message.to_json().map_err(|error| error.to_string())?;
        if serde_json::from_slice::<Value>(&text).ok().as_ref() != Some(&again) {
            return Err(format!(
                "is {} as text\nnot {again}",
                String::from_utf8_lossy(&text)
            ));
        }
        let mut expected = object.clone();
        drop_inner_types(&mut expected);
        if again != expected {
            return Err(format!("is {again} after protobuf\nnot {object}"));
        }
    }
    Ok(true)
}

/// Nested objects have no envelope in protobuf, and so no kind: the items of a list, and the claims of a stateful
/// set.
fn drop_inner_types(object: &mut Value) {
    let items = object.get_mut("items").and_then(Value::as_array_mut);
    for item in items.into_iter().flatten() {
        drop_type(item);
        drop_inner_types(item);
    }
    let claims = object.pointer_mut("/spec/volumeClaimTemplates");
    let claims = claims.and_then(Value::as_array_mut);
    claims.into_iter().flatten().for_each(drop_type);
}

fn drop_type(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
}

#[test]
fn recorded_answers_are_canonical_and_survive_protobuf() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens");
    let mut files = Vec::new();
    json_files(&folder, &mut files);
    if files.is_empty() {
        // Not `eprintln!`: its output is hidden in a passing test.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: no recordings in {}",
            folder.display()
        );
        return;
    }
    let (mut checked, mut failures) = (0, Vec::new());
    for file in &files {
        let recording: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let is_codec = file.parent().is_some_and(|parent| parent.ends_with("codec"));
        let mut found = Vec::new();
        objects(&recording, is_codec, &mut found);
        for object in found {
            match check(object) {
                Ok(known) => checked += usize::from(known),
                Err(reason) => failures.push(format!("{}: {reason}", file.display())),
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {checked} failed\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(checked > 500, "only {checked} objects were found");
}
