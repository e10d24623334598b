//! Removes null entries from the maps of custom objects, unless the schema makes them nullable. Null fields are
//! handled by defaulting (`kinds::fill_from_schema`); null items of lists are refused.

use serde_json::Value;

/// Removes the null map entries of an object.
pub(crate) fn drop_entries(schema: &Value, object: &mut Value) {
    // Few objects have nulls; the others skip the walk along the schema.
    if has_null(object) {
        drop_below(schema, object);
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

fn drop_below(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => {
            let entries = schema.get("additionalProperties").filter(|it| it.is_object());
            let is_field = |name: &str| schema["properties"].get(name).is_some();
            let means_nothing = entries.is_some_and(|entries| entries["nullable"] != true);
            members.retain(|name, value| !(value.is_null() && means_nothing && !is_field(name)));
            for (name, value) in members {
                if let Some(below) = schema["properties"].get(name).or(entries) {
                    drop_below(below, value);
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| drop_below(&schema["items"], item)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_map_entries_are_removed() {
        let check = |schema: Value, mut object: Value, expected: Value| {
            drop_entries(&schema, &mut object);
            assert_eq!(object, expected, "{schema}");
        };
        let map = |values: Value| json!({"type": "object", "additionalProperties": values});
        let texts = map(json!({"type": "string"}));
        check(texts.clone(), json!({"a": null, "b": "c"}), json!({"b": "c"}));
        let nullable = map(json!({"type": "string", "nullable": true}));
        check(nullable, json!({"a": null}), json!({"a": null}));
        let nested = json!({"properties": {"list": {"items": map(texts)}}});
        check(
            nested,
            json!({"list": [{"x": {"a": null}, "y": null}, null]}),
            json!({"list": [{"x": {}}, null]}),
        );
        let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        check(free, json!({"a": null}), json!({"a": null}));
    }
}
