//! Config maps and secrets: keys, sizes, and data that is never to change.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use watchkeeper_meta::{FieldError, FieldPath};
use watchkeeper_wire::canonical::{json_type, read_body};

use super::check::{immutable, set_default, text};
use super::formats::{MAX_DATA_BYTES, data_key, decoded_len, each, entries};
use super::{Hooks, PLAIN};

/// Whom a token secret belongs to.
const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

pub(super) const CONFIG_MAP: Hooks = Hooks {
    faults: config_map_faults,
    update_faults: |_, map, live| frozen_faults(map, live, &["immutable", "data", "binaryData"]),
    ..PLAIN
};

pub(super) const SECRET: Hooks = Hooks {
    default: |secret| {
        set_default(secret, "type", "Opaque");
        encode_string_data(secret);
    },
    faults: secret_faults,
    update_faults: |_, secret, live| {
        let mut faults = Vec::new();
        immutable(
            &mut faults,
            &FieldPath::new("type"),
            &secret["type"],
            &live["type"],
        );
        faults.extend(frozen_faults(secret, live, &["immutable", "data"]));
        faults
    },
    ..PLAIN
};

/// `stringData` is a convenience for writers: it becomes part of `data` and is never shown.
fn encode_string_data(secret: &mut Value) {
    let Some(Value::Object(texts)) = secret
        .as_object_mut()
        .and_then(|fields| fields.remove("stringData"))
    else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    if !secret["data"].is_object() {
        secret["data"] = json!({});
    }
    for (key, value) in texts {
        secret["data"][key] = json!(BASE64.encode(value.as_str().unwrap_or_default()));
    }
}

fn config_map_faults(map: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let mut size = 0;
    for (bag, other) in [("data", "binaryData"), ("binaryData", "data")] {
        for (key, value) in entries(map, &format!("/{bag}")) {
            let path = FieldPath::new(bag).key(key);
            each(&mut faults, &path, key, data_key(key));
            if map[other].get(key).is_some() {
                each(
                    &mut faults,
                    &path,
                    key,
                    [format!("duplicate of key present in {other}")],
                );
            }
            let value = value.as_str().unwrap_or_default();
            size += if bag == "data" {
                value.len()
            } else {
                decoded_len(value)
            };
        }
    }
    if size > MAX_DATA_BYTES {
        faults.push(FieldError::too_long(&FieldPath::new(""), MAX_DATA_BYTES));
    }
    faults
}

fn secret_faults(secret: &Value) -> Vec<FieldError> {
    let data = FieldPath::new("data");
    let mut faults = Vec::new();
    let mut size = 0;
    for (key, value) in entries(secret, "/data") {
        each(&mut faults, &data.key(key), key, data_key(key));
        size += decoded_len(value.as_str().unwrap_or_default());
    }
    if size > MAX_DATA_BYTES {
        faults.push(FieldError::too_long(&data, MAX_DATA_BYTES));
    }
    type_faults(secret, &data, &mut faults);
    faults
}

/// What a secret of a well-known type must hold.
fn type_faults(secret: &Value, data: &FieldPath, faults: &mut Vec<FieldError>) {
    let has = |key: &str| secret["data"].get(key).is_some();
    let missing = |key: &str| FieldError::required(&data.key(key), "");
    match text(secret, "/type") {
        "kubernetes.io/service-account-token" => {
            let owner = secret["metadata"]["annotations"][SERVICE_ACCOUNT_NAME].as_str();
            if owner.unwrap_or_default().is_empty() {
                let annotations = FieldPath::new("metadata").child("annotations");
                faults.push(FieldError::required(&annotations.key(SERVICE_ACCOUNT_NAME), ""));
            }
        }
        "kubernetes.io/dockercfg" => faults.extend(json_faults(secret, data, ".dockercfg")),
        "kubernetes.io/dockerconfigjson" => faults.extend(json_faults(secret, data, ".dockerconfigjson")),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            faults.extend(["username", "password"].map(missing));
        }
        "kubernetes.io/ssh-auth" if text(secret, "/data/ssh-privatekey").is_empty() => {
            faults.push(missing("ssh-privatekey"));
        }
        "kubernetes.io/tls" => {
            let absent = ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key));
            faults.extend(absent.map(missing));
        }
        _ => {}
    }
}

fn json_faults(secret: &Value, data: &FieldPath, key: &str) -> Option<FieldError> {
    let path = data.key(key);
    let Some(encoded) = secret["data"].get(key).and_then(Value::as_str) else {
        return Some(FieldError::required(&path, ""));
    };
    let decoded = BASE64.decode(encoded).unwrap_or_default();
    let why = match read_body(&decoded) {
        Err(error) => error.to_string(),
        Ok(read) if read.value.is_object() || read.value.is_null() => return None,
        Ok(read) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(&read.value)
        ),
    };
    Some(FieldError::invalid(&path, "<secret contents redacted>", why))
}

/// What changed of an object that says it never will.
fn frozen_faults(object: &Value, live: &Value, fields: &[&str]) -> Vec<FieldError> {
    if live["immutable"] != true {
        return Vec::new();
    }
    let changed = fields.iter().filter(|name| object.get(name) != live.get(name));
    let why = "field is immutable when `immutable` is set";
    changed
        .map(|name| FieldError::forbidden(&FieldPath::new(name), why))
        .collect()
}
