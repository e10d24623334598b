//! Converts the discovery of another server to the form of aggregated discovery.

use serde_json::{Value, json};

/// The resources of a group version in an aggregated document; `None` if it has none.
pub(super) fn from_aggregated(document: &Value, group: &str, version: &str) -> Option<Vec<Value>> {
    let mut groups = document["items"].as_array()?.iter();
    let found = groups.find(|it| it["metadata"]["name"] == group)?;
    let mut versions = found["versions"].as_array()?.iter();
    let found = versions.find(|it| it["version"] == version)?;
    let resources = found["resources"].as_array();
    Some(resources.cloned().unwrap_or_default())
}

/// The resources of an `APIResourceList`; `None` if it is not one.
pub(super) fn from_legacy(list: &Value, group: &str, version: &str) -> Option<Vec<Value>> {
    let all = list["resources"].as_array()?;
    let named = |it: &Value| it["name"].as_str().unwrap_or_default().to_owned();
    let mut resources = Vec::new();
    for resource in all.iter().filter(|it| !named(it).contains('/')) {
        let plural = named(resource);
        let mut entry = json!({
            "resource": plural,
            "responseKind": response_kind(resource, group, version),
            "scope": if resource["namespaced"] == true { "Namespaced" } else { "Cluster" },
            "singularResource": resource["singularName"].as_str().unwrap_or_default(),
            "verbs": resource["verbs"],
        });
        for list in ["shortNames", "categories"] {
            if resource[list].is_array() {
                entry[list] = resource[list].clone();
            }
        }
        let parts = all.iter().filter_map(|it| {
            let name = named(it);
            let part = name.strip_prefix(&*plural)?.strip_prefix('/')?;
            Some(json!({
                "subresource": part,
                "responseKind": response_kind(it, group, version),
                "verbs": it["verbs"],
            }))
        });
        let parts: Vec<Value> = parts.collect();
        if !parts.is_empty() {
            entry["subresources"] = json!(parts);
        }
        resources.push(entry);
    }
    Some(resources)
}

fn response_kind(resource: &Value, group: &str, version: &str) -> Value {
    let or = |name: &str, default: &str| {
        let text = resource[name].as_str().unwrap_or_default();
        if text.is_empty() {
            default.to_owned()
        } else {
            text.to_owned()
        }
    };
    json!({"group": or("group", group), "version": or("version", version), "kind": resource["kind"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legacy_list_becomes_an_aggregated_one() {
        let list = json!({"resources": [
            {"name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics", "verbs": ["get"]},
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["list"],
             "shortNames": ["th"]},
            {"name": "things/scale", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale",
             "verbs": ["get"]},
        ]});
        let expected = json!([
            {"resource": "nodes", "responseKind": {"group": "g", "version": "v1", "kind": "NodeMetrics"},
             "scope": "Cluster", "singularResource": "", "verbs": ["get"]},
            {"resource": "things", "responseKind": {"group": "g", "version": "v1", "kind": "Thing"},
             "scope": "Namespaced", "singularResource": "thing", "verbs": ["list"], "shortNames": ["th"],
             "subresources": [{"subresource": "scale", "verbs": ["get"],
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}]},
        ]);
        assert_eq!(json!(from_legacy(&list, "g", "v1").unwrap()), expected);
        assert_eq!(from_legacy(&json!({"kind": "Status"}), "g", "v1"), None);
    }

    #[test]
    fn a_group_version_is_extracted_from_an_aggregated_document() {
        let document = json!({"items": [{"metadata": {"name": "g"}, "versions": [
            {"version": "v2", "resources": []}, {"version": "v1", "resources": [{"resource": "things"}]}]}]});
        assert_eq!(
            from_aggregated(&document, "g", "v1"),
            Some(vec![json!({"resource": "things"})])
        );
        assert_eq!(from_aggregated(&document, "g", "v3"), None);
        assert_eq!(from_aggregated(&document, "h", "v1"), None);
    }
}
