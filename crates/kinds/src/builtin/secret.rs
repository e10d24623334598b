//! Secret: bytes by key. Well-known types require certain keys.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use watchkeeper_wire::canonical::{json_type, read_body};

use crate::fields::Selectable;
use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::data::{check_frozen, check_key};
use crate::rules::defaulting::fill_empty;
use crate::rules::formats::{MAX_DATA_BYTES, decoded_len};
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::map_len;

/// The annotation that names the service account of a token secret.
const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// The kind served as `secrets`.
pub static KIND: Kind = Kind {
    group: "",
    name: "Secret",
    plural: "secrets",
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    counted_by_plural: true,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Type", |row| json!(row.text("/type"))),
    Column::text("Data", |row| json!(map_len(row.object, "/data"))),
    Column::AGE,
];

const SELECTABLE: &[Selectable] = &[Selectable::at("type", &["/type"])];

const HOOKS: Hooks = Hooks {
    default: |secret| {
        fill_empty(secret, "type", "Opaque");
        encode_string_data(secret);
    },
    check: check_secret,
    check_change: |change, errors| {
        let (new, live) = (change.new.field("type"), change.live.field("type"));
        new.must_stay(&live, errors);
        check_frozen(change, &["immutable", "data"], errors);
    },
    change_first: true,
    heeds: Some(|key| key == SERVICE_ACCOUNT_NAME),
    ..PLAIN
};

/// Merges `stringData`, which is write-only, into `data`.
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

fn check_secret(secret: &Place<'_, '_>, errors: &mut Errors) {
    let data = secret.field("data");
    let mut size = 0;
    for (key, entry) in data.entries() {
        check_key(key, &entry, errors);
        size += decoded_len(entry.text());
    }
    if size > MAX_DATA_BYTES {
        errors.push(data.too_long(MAX_DATA_BYTES));
    }
    check_type(secret, &data, errors);
}

/// Checks the keys that a well-known type requires.
fn check_type(secret: &Place<'_, '_>, data: &Place<'_, '_>, errors: &mut Errors) {
    let needed: &[&str] = match secret.field("type").text() {
        "kubernetes.io/service-account-token" => {
            let metadata = secret.field("metadata");
            let annotations = metadata.field("annotations");
            annotations.entry(SERVICE_ACCOUNT_NAME).must_be_set(errors);
            return;
        }
        "kubernetes.io/dockercfg" => return check_json(&data.entry(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => return check_json(&data.entry(".dockerconfigjson"), errors),
        "kubernetes.io/ssh-auth" => return data.entry("ssh-privatekey").must_be_set(errors),
        "kubernetes.io/basic-auth" if data.entry("username").is_set() || data.entry("password").is_set() => {
            &[]
        }
        "kubernetes.io/basic-auth" => &["username", "password"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => &[],
    };
    for key in needed.iter().map(|key| data.entry(key)) {
        if !key.is_set() {
            errors.push(key.required(""));
        }
    }
}

fn check_json(entry: &Place<'_, '_>, errors: &mut Errors) {
    if !entry.is_set() {
        errors.push(entry.required(""));
        return;
    }
    let decoded = BASE64.decode(entry.text()).unwrap_or_default();
    let why = match read_body(&decoded) {
        Err(error) => error.to_string(),
        Ok(read) if read.value.is_object() || read.value.is_null() => return,
        Ok(read) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(&read.value)
        ),
    };
    errors.push(entry.invalid_for("<secret contents redacted>", why));
}
