//! The fields that the attributes of a kind refer to by path.

use serde_json::Value;

use crate::structural::SchemaError;

/// Refuses a path that leads to no field: a server would accept it, and show an empty column or scale nothing.
///
/// The names of a path are checked up to the first index, filter or escape, and up to a field with free content.
pub(crate) fn check(attribute: &str, path: &str, schema: &Value) -> Result<(), SchemaError> {
    let (mut field, mut walked) = (schema, String::new());
    for step in path.strip_prefix('.').unwrap_or(path).split('.') {
        let name = step.split('[').next().unwrap_or_default();
        let is_metadata = walked.is_empty() && ["metadata", "apiVersion", "kind"].contains(&name);
        if is_metadata || name.is_empty() || name.contains('\\') || has_free_content(field) {
            return Ok(());
        }
        if !walked.is_empty() {
            walked.push('.');
        }
        walked.push_str(name);
        field = match (field["properties"].get(name), field.get("additionalProperties")) {
            (Some(field), _) | (None, Some(field)) => field,
            (None, None) => {
                return Err(SchemaError {
                    path: walked,
                    problem: format!("there is no such field, but {attribute} refers to it"),
                });
            }
        };
        if name != step {
            return Ok(());
        }
    }
    Ok(())
}

fn has_free_content(field: &Value) -> bool {
    field["x-kubernetes-preserve-unknown-fields"] == true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_is_refused_at_the_first_name_that_is_no_field() {
        let text = json!({"type": "string"});
        let free = json!({"x-kubernetes-preserve-unknown-fields": true});
        let ports = json!({"type": "array", "items": {"properties": {"port": text}}});
        let spec = json!({"properties": {"engine": text, "free": free, "ports": ports, "labels": {"additionalProperties": text}}});
        let schema = json!({"properties": {"spec": spec}});
        let check = |path: &str| check("the column", path, &schema).map_err(|error| error.path);
        for path in [
            ".spec.engine",
            ".spec.free.any.thing",
            ".spec.labels.any",
            r".spec.labels.app\.kubernetes\.io/name",
            ".spec.ports[0].port",
            ".spec.ports[?(@.port==80)].nothing",
            ".metadata.creationTimestamp",
            "..engine",
        ] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
        for (path, expected) in [
            (".spec.egine", "spec.egine"),
            (".spec.port[0].port", "spec.port"),
            (".spec.engine.kind", "spec.engine.kind"),
            (".spec.labels.any.more", "spec.labels.any.more"),
            (".status.ready", "status"),
        ] {
            assert_eq!(check(path), Err(expected.to_owned()), "{path}");
        }
    }
}
