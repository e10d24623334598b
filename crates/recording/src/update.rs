//! One update for display: the relevant fields, the irrelevant ones, and the authors.

use serde::Serialize;
use serde_json::Value;
use watchkeeper_meta::GroupVersionKind;
use watchkeeper_wire::{Object, WireError};

use crate::changes::{Change, PathStep, changes};

/// The difference between two states of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// The fields that changed.
    pub changes: Vec<Change>,
    /// Irrelevant changes: versions, managed fields, heartbeats.
    pub folded: Vec<Change>,
    /// The authors, according to managed fields.
    pub authors: Vec<Author>,
}

/// A field manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Author {
    /// Its name: by default the start of the user agent.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// `status` and the like; empty for the object itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// The time in whole seconds; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub time: String,
}

impl Update {
    /// The difference between two states; a new object has no old state.
    pub fn between(old: Option<&Object>, new: &Object) -> Result<Self, WireError> {
        let new_value = new.to_value()?;
        let Some(old) = old else {
            return Ok(Self {
                authors: authors(&Value::Null, &new_value, &[]),
                ..Self::default()
            });
        };
        let old_value = old.to_value()?;
        Ok(Self::between_values(
            new.group_version_kind(),
            &old_value,
            &new_value,
        ))
    }

    /// The difference between two states of an object, as JSON.
    pub fn between_values(kind: &GroupVersionKind, old: &Value, new: &Value) -> Self {
        let found = changes(kind, old, new);
        // A list states the type of its items once, an event each time.
        let found = found.into_iter().filter(|change| {
            !change.path.starts_with(&["kind"]) && !change.path.starts_with(&["apiVersion"])
        });
        let (folded, changes): (Vec<_>, Vec<_>) = found.partition(is_noise);
        let authors = authors(old, new, &changes);
        Self {
            changes,
            folded,
            authors,
        }
    }

    /// Treats all changes as relevant.
    pub fn unfold(&mut self) {
        self.changes.append(&mut self.folded);
    }
}

impl Author {
    /// The author of the newest entry in an object's managed fields. [`Update::between`] is more precise, but needs the
    /// managed fields of the previous state.
    pub fn latest(object: &Object) -> Option<Self> {
        let value = object.to_value().ok()?;
        // Times are RFC 3339 in UTC, so they sort as text. Of two equal times the later entry counts.
        let newest = entries(&value)
            .iter()
            .max_by_key(|entry| entry["time"].as_str())?;
        Some(author(newest))
    }
}

/// True for fields that change with every write, or with time.
fn is_noise(change: &Change) -> bool {
    let path = &change.path;
    path.starts_with(&["metadata", "managedFields"])
        || path.starts_with(&["metadata", "resourceVersion"])
        || path.starts_with(&["spec", "renewTime"])
        || matches!(path.last_field(), "lastHeartbeatTime" | "lastProbeTime")
}

/// The authors of `new`: the managers with a new entry or a new time. Times have whole seconds, so managers of changed
/// fields that none of these own count as well.
fn authors(old: &Value, new: &Value, changes: &[Change]) -> Vec<Author> {
    let (before, now) = (entries(old), entries(new));
    // A manager that loses a field to another keeps its time.
    let is_same = |one: &Value, other: &Value| {
        let parts = ["manager", "operation", "subresource", "time"];
        parts.iter().all(|part| one[*part] == other[*part])
    };
    let is_new = |entry: &Value| !before.iter().any(|other| is_same(entry, other));
    let mut has_written: Vec<bool> = now.iter().map(is_new).collect();
    for change in changes {
        let mut owners = (0..now.len()).filter(|&index| owns(&now[index]["fieldsV1"], change));
        let first = owners.next();
        if let Some(first) = first
            && !has_written[first]
            && !owners.any(|owner| has_written[owner])
        {
            has_written[first] = true;
        }
    }
    let written = now
        .iter()
        .zip(has_written)
        .filter(|(_, has_written)| *has_written);
    written.map(|(entry, _)| author(entry)).collect()
}

fn entries(object: &Value) -> &[Value] {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    entries.map_or(&[], Vec::as_slice)
}

fn author(entry: &Value) -> Author {
    let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    Author {
        manager: text("manager"),
        operation: text("operation"),
        subresource: text("subresource"),
        time: text("time"),
    }
}

/// True if a field set contains the changed field or one of its parents.
fn owns(fields: &Value, change: &Change) -> bool {
    let mut set = fields;
    for step in change.path.steps() {
        let name = match step {
            PathStep::Field(name) => format!("f:{name}"),
            PathStep::Item(keys) => {
                let keys: serde_json::Map<_, _> = keys.iter().cloned().collect();
                format!("k:{}", Value::Object(keys))
            }
            PathStep::Index(_) => return set.as_object().is_some_and(serde_json::Map::is_empty),
        };
        match set.get(&name) {
            Some(below) => set = below,
            None => return set.as_object().is_some_and(serde_json::Map::is_empty) && set != fields,
        }
    }
    true
}

impl std::fmt::Display for Author {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.subresource.as_str() {
            "" => write!(f, "{} ({})", self.manager, self.operation),
            subresource => write!(f, "{} ({} of {subresource})", self.manager, self.operation),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(version: u32, replicas: u32, managed: Value) -> Value {
        json!({"metadata": {"name": "web", "resourceVersion": version.to_string(), "managedFields": managed},
            "spec": {"replicas": replicas}})
    }

    fn entry(manager: &str, second: u32, fields: Value) -> Value {
        json!({"manager": manager, "operation": "Update", "time": format!("2026-01-01T00:00:0{second}Z"), "fieldsV1": fields})
    }

    #[test]
    fn the_writer_is_the_manager_whose_entry_changed() {
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        let old = deployment(1, 1, json!([entry("kubectl", 1, replicas.clone())]));
        let new = deployment(
            2,
            2,
            json!([entry("kubectl", 1, json!({})), entry("scaler", 2, replicas)]),
        );
        let update = Update::between_values(&GroupVersionKind::new("apps", "v1", "Deployment"), &old, &new);
        let changes: Vec<_> = update.changes.iter().map(ToString::to_string).collect();
        assert_eq!(changes, ["spec.replicas: 1 → 2"]);
        assert_eq!(update.folded.len(), 2, "managed fields and the version");
        let authors: Vec<_> = update.authors.iter().map(ToString::to_string).collect();
        assert_eq!(authors, ["scaler (Update)"]);
    }

    #[test]
    fn one_state_tells_who_wrote_last() {
        let managed = json!([entry("scaler", 2, json!({})), entry("kubectl", 1, json!({}))]);
        let mut state = deployment(1, 1, managed);
        state["apiVersion"] = json!("apps/v1");
        state["kind"] = json!("Deployment");
        let keep = watchkeeper_wire::ObjectOptions {
            keep_managed_fields: true,
        };
        let object = Object::from_json(state.to_string().as_bytes(), &keep).unwrap();
        assert_eq!(Author::latest(&object).unwrap().to_string(), "scaler (Update)");
    }

    #[test]
    fn who_writes_twice_in_a_second_is_found_by_the_fields() {
        let managed = json!([
            entry("kubectl", 1, json!({"f:metadata": {"f:labels": {}}})),
            entry("scaler", 1, json!({"f:spec": {"f:replicas": {}}})),
        ]);
        let (old, new) = (deployment(1, 1, managed.clone()), deployment(2, 2, managed));
        let update = Update::between_values(&GroupVersionKind::new("apps", "v1", "Deployment"), &old, &new);
        let authors: Vec<_> = update.authors.iter().map(ToString::to_string).collect();
        assert_eq!(authors, ["scaler (Update)"]);
    }
}
