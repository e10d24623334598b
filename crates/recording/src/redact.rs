//! Masks data before it is recorded: the data of Secrets, and fields that the user names.

use serde_json::{Map, Value};
use watchkeeper_wire::{Object, ObjectOptions, WireError};

/// Replaces a masked value.
const MASK: &str = "redacted";
/// The same in base64, as required in the data of a Secret.
const MASK_BASE64: &str = "cmVkYWN0ZWQ=";

/// The annotation in which `kubectl apply` stores the whole manifest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields to mask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redaction {
    /// Mask `data` and `stringData` of Secrets.
    pub secrets: bool,
    paths: Vec<(String, Vec<Step>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Each,
}

/// An invalid path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} is not a path of fields such as spec.token, .spec.env[*].value or data['tls.key']")]
pub struct RedactPathError {
    path: String,
}

impl Redaction {
    /// Masks the data of Secrets, and these paths in objects of any kind: `spec.token`,
    /// `spec.containers[*].env[*].value`, `data['tls.key']`.
    ///
    /// ```
    /// use watchkeeper_recording::Redaction;
    ///
    /// assert!(Redaction::new(&["spec.containers[*].env[*].value"]).is_ok());
    /// assert!(Redaction::new(&["spec..token"]).is_err());
    /// ```
    pub fn new<P: AsRef<str>>(paths: &[P]) -> Result<Self, RedactPathError> {
        let parsed = paths.iter().map(|path| {
            let path = path.as_ref();
            let steps = parse(path).ok_or_else(|| RedactPathError {
                path: path.to_owned(),
            });
            Ok((path.to_owned(), steps?))
        });
        Ok(Self {
            secrets: true,
            paths: parsed.collect::<Result<_, _>>()?,
        })
    }

    /// A description for the header of the recording.
    pub fn describe(&self) -> Vec<String> {
        let secrets = self.secrets.then(|| "data of Secrets".to_owned());
        let paths = self.paths.iter().map(|(path, _)| path.clone());
        secrets.into_iter().chain(paths).collect()
    }

    /// The masked object.
    pub fn apply(&self, object: &Object) -> Result<Object, WireError> {
        let is_secret =
            self.secrets && object.kind() == "Secret" && object.group_version_kind().group.is_empty();
        if !is_secret && self.paths.is_empty() {
            return Ok(object.clone());
        }
        let mut value = object.to_value()?;
        value["kind"] = object.kind().into();
        value["apiVersion"] = object.api_version().into();
        if is_secret {
            mask_secret(&mut value);
        }
        for (_, steps) in &self.paths {
            mask(&mut value, steps);
        }
        let keep = ObjectOptions {
            keep_managed_fields: true,
        };
        Object::from_json(value.to_string().as_bytes(), &keep)
    }
}

fn mask_secret(secret: &mut Value) {
    for field in ["data", "stringData"] {
        let values = secret.get_mut(field).and_then(Value::as_object_mut);
        for value in values.into_iter().flat_map(Map::values_mut) {
            *value = MASK_BASE64.into();
        }
    }
    let annotations = secret
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut);
    if let Some(applied) = annotations.and_then(|annotations| annotations.get_mut(LAST_APPLIED)) {
        *applied = MASK.into();
    }
}

fn mask(value: &mut Value, steps: &[Step]) {
    match (steps.split_first(), value) {
        (None, Value::Object(fields)) => fields.values_mut().for_each(|value| mask(value, &[])),
        (None, Value::Array(items)) => items.iter_mut().for_each(|value| mask(value, &[])),
        (None, Value::String(text)) => *text = MASK.to_owned(),
        (None, other) => *other = Value::Null,
        (Some((Step::Field(name), rest)), Value::Object(fields)) => {
            if let Some(value) = fields.get_mut(name) {
                mask(value, rest);
            }
        }
        (Some((Step::Each, rest)), Value::Object(fields)) => {
            fields.values_mut().for_each(|value| mask(value, rest));
        }
        (Some((Step::Each, rest)), Value::Array(items)) => {
            items.iter_mut().for_each(|value| mask(value, rest));
        }
        (Some(_), _) => {}
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('.').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (inside, after) = inner.split_once(']')?;
            steps.push(match inside {
                "*" => Step::Each,
                quoted => {
                    let name = quoted.strip_prefix('\'')?.strip_suffix('\'')?;
                    Step::Field(name.to_owned())
                }
            });
            rest = after.strip_prefix('.').unwrap_or(after);
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() || after == "." {
            return None;
        }
        steps.push(match name {
            "*" => Step::Each,
            name => Step::Field(name.to_owned()),
        });
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    (!steps.is_empty()).then_some(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(paths: &[&str], object: Value, expected: Value) {
        let object = Object::from_json(object.to_string().as_bytes(), &ObjectOptions::default()).unwrap();
        let masked = Redaction::new(paths).unwrap().apply(&object).unwrap();
        assert_eq!(masked.to_value().unwrap(), expected, "{paths:?}");
    }

    #[test]
    fn all_copies_of_secret_data_are_masked() {
        let secret = |data: &str, applied: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": data}, "type": "Opaque",
                "metadata": {"name": "a", "annotations": {LAST_APPLIED: applied}}})
        };
        check(
            &[],
            secret("aHVudGVyMg==", r#"{"data":{"password":"aHVudGVyMg=="}}"#),
            secret(MASK_BASE64, MASK),
        );
    }

    #[test]
    fn the_values_at_paths_are_masked() {
        let pod = |value: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": value}]}]}})
        };
        check(&["spec.containers[*].env[*].value"], pod("x"), pod(MASK));
        check(&["spec.volumes[*].secret"], pod("x"), pod("x"));
        let map = |value: Value| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
                "data": {"tls.key": value, "other": "y"}})
        };
        check(&["data['tls.key']"], map(json!("x")), map(json!(MASK)));
        for wrong in ["", ".", "a..b", "a[", "a[x]", "a."] {
            assert!(Redaction::new(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
