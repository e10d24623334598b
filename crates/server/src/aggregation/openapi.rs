//! Merges the OpenAPI v2 document of another server into this server's.
//!
//! Only the paths of its group version are merged, with the definitions they refer to. A definition whose name is
//! taken is renamed `_v2`, `_v3` and so on, as in kube-aggregator.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

const REFERENCE: &str = "#/definitions/";

/// Merges another server's document of a group version.
pub(crate) fn merge_v2(document: &mut Value, other: &Value, group: &str, version: &str) {
    let root = format!("/apis/{group}/{version}/");
    let mut added = Map::new();
    for (path, item) in other["paths"].as_object().into_iter().flatten() {
        if format!("{path}/").starts_with(&root) {
            added.insert(path.clone(), item.clone());
        }
    }
    let mut needed = BTreeSet::new();
    let mut paths = Value::Object(added);
    collect_references(&paths, &other["definitions"], &mut needed);
    let names = names(&needed, &document["definitions"], &other["definitions"]);
    rename(&mut paths, &names);
    for (name, new_name) in &names {
        let mut definition = other["definitions"][name].clone();
        rename(&mut definition, &names);
        document["definitions"][new_name] = definition;
    }
    if let (Some(all), Value::Object(added)) = (document["paths"].as_object_mut(), paths) {
        all.extend(added);
    }
}

/// The definitions a value refers to, directly or indirectly.
fn collect_references(value: &Value, definitions: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            let reference = members.get("$ref").and_then(Value::as_str);
            if let Some(name) = reference.and_then(|text| text.strip_prefix(REFERENCE))
                && !definitions[name].is_null()
                && found.insert(name.to_owned())
            {
                collect_references(&definitions[name], definitions, found);
            }
            members
                .values()
                .for_each(|it| collect_references(it, definitions, found));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|it| collect_references(it, definitions, found)),
        _ => {}
    }
}

/// The new name of each definition. An equal existing definition keeps its name.
fn names(needed: &BTreeSet<String>, taken: &Value, own: &Value) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for name in needed {
        let mut new_name = name.clone();
        let mut number = 2;
        while !taken[&new_name].is_null() && taken[&new_name] != own[name] {
            new_name = format!("{name}_v{number}");
            number += 1;
        }
        names.insert(name.clone(), new_name);
    }
    names
}

fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref") {
                let name = reference.strip_prefix(REFERENCE).and_then(|name| names.get(name));
                if let Some(name) = name {
                    *reference = format!("{REFERENCE}{name}");
                }
            }
            members.values_mut().for_each(|it| rename(it, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| rename(it, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_the_group_version_are_merged_with_their_definitions() {
        let mut document = json!({
            "paths": {"/api/v1/": {}},
            "definitions": {"meta": {"type": "object"}, "shared": {"type": "object"}},
        });
        let other = json!({
            "paths": {
                "/apis/g/v1/things": {"get": {"schema": {"$ref": "#/definitions/thing"}}},
                "/apis/g/v10/things": {},
                "/version/": {"get": {"schema": {"$ref": "#/definitions/info"}}},
            },
            "definitions": {
                "thing": {"properties": {"m": {"$ref": "#/definitions/meta"}, "s": {"$ref": "#/definitions/shared"}}},
                "meta": {"type": "string"}, "shared": {"type": "object"}, "info": {},
            },
        });
        merge_v2(&mut document, &other, "g", "v1");
        let expected = json!({
            "paths": {"/api/v1/": {}, "/apis/g/v1/things": {"get": {"schema": {"$ref": "#/definitions/thing"}}}},
            "definitions": {
                "meta": {"type": "object"}, "meta_v2": {"type": "string"}, "shared": {"type": "object"},
                "thing": {"properties": {
                    "m": {"$ref": "#/definitions/meta_v2"}, "s": {"$ref": "#/definitions/shared"}}},
            },
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn recursive_definitions_are_merged() {
        let mut document = json!({"paths": {}, "definitions": {}});
        let other = json!({
            "paths": {"/apis/g/v1/": {"$ref": "#/definitions/a"}},
            "definitions": {"a": {"items": {"$ref": "#/definitions/a"}}},
        });
        merge_v2(&mut document, &other, "g", "v1");
        assert_eq!(document["definitions"], other["definitions"]);
    }
}
