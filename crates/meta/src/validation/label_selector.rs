//! A `LabelSelector` inside an object: `matchLabels` and `matchExpressions`.

use serde_json::Value;

use super::{label_value, labels, qualified_name};
use crate::field_error::{FieldError, FieldErrors, FieldPath};

/// Validates a `LabelSelector` object; a missing one is valid.
pub fn label_selector(selector: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = labels(&selector["matchLabels"], &path.child("matchLabels"));
    let path = path.child("matchExpressions");
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    for (index, expression) in expressions.enumerate() {
        errors.append(requirement(expression, &path.index(index)));
    }
    errors
}

fn requirement(expression: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let values: Vec<&str> = expression["values"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match expression["operator"].as_str().unwrap_or_default() {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
            &path.child("values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            &path.child("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.push(FieldError::invalid(
            &path.child("operator"),
            other,
            "not a valid selector operator",
        )),
    }
    let key = expression["key"].as_str().unwrap_or_default();
    let broken = |path: FieldPath, value: &str, reasons: Vec<String>| {
        let value = value.to_owned();
        reasons
            .into_iter()
            .map(move |reason| FieldError::invalid(&path, value.as_str(), reason))
    };
    errors.extend(broken(path.child("key"), key, qualified_name(key)));
    for (index, value) in values.iter().enumerate() {
        errors.extend(broken(
            path.child("values").index(index),
            value,
            label_value(value),
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(selector: Value, errors: &[&str]) {
        let found = label_selector(&selector, &FieldPath::from("spec.selector"));
        assert_eq!(
            found.iter().map(FieldError::to_string).collect::<Vec<_>>(),
            errors,
            "{selector}"
        );
    }

    #[test]
    fn selectors_in_objects_are_checked() {
        check(Value::Null, &[]);
        check(
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
            &[],
        );
        check(
            json!({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}),
            &[
                r#"spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator"#,
            ],
        );
        check(
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn"}]}),
            &[
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ],
        );
        check(
            json!({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]}),
            &[
                "spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ],
        );
    }
}
