//! `/testing/v1/openapi.json`: the OpenAPI document of the testing API. Operations are those that are served; the
//! schemas are in `schemas.json`, and a test compares them with actual answers.

use serde_json::{Map, Value, json};

use super::operation::{Description, Operation};

/// The OpenAPI document.
pub(super) fn document() -> Value {
    let schemas: Value = serde_json::from_str(include_str!("schemas.json")).expect("the schemas are JSON");
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Watchkeeper testing API",
            "version": "v1",
            "description": "Served to administrators by `watchkeeper up --testing`. Durations are Go's: `1m30s`.",
        },
        "security": [{"token": []}],
        "paths": paths(),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn paths() -> Map<String, Value> {
    let mut paths = Map::new();
    for operation in Operation::ALL {
        let described = operation.described();
        let path = format!("/testing/v1/{}", described.path);
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[described.method.to_ascii_lowercase()] = of(&described);
    }
    paths
}

fn of(described: &Description) -> Value {
    let mut operation = json!({
        "operationId": described.id,
        "summary": described.summary,
        "responses": {
            "200": {"description": described.answer, "content": content(described.answer)},
            "default": {"description": "The error, as a Kubernetes Status", "content": content("Status")},
        },
    });
    if let Some((schema, example)) = &described.body {
        let mut content = content(schema);
        content["application/json"]["example"] = example.clone();
        operation["requestBody"] = json!({"content": content});
    }
    if described.path.contains("{id}") {
        let number = json!({"type": "integer", "minimum": 1});
        operation["parameters"] = json!([{"name": "id", "in": "path", "required": true, "schema": number}]);
    }
    operation
}

fn content(schema: &str) -> Value {
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let list = schema.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let schema = match list {
        Some(name) => json!({"type": "array", "items": reference(name)}),
        None => reference(schema),
    };
    json!({"application/json": {"schema": schema}})
}
