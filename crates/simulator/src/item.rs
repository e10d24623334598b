//! An object with its decoded content.

use std::ops::{Deref, Index};

use serde_json::{Value, json};
use watchkeeper_runtime::controller::Request;
use watchkeeper_wire::Object;

/// An object, decoded once. Missing fields read as empty: `""`, `0`, no entries.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    object: Object,
    value: Value,
}

impl Item {
    /// Decodes an object. One that cannot be decoded is logged and reads as empty.
    pub(crate) fn read(object: &Object) -> Self {
        let value = object.to_value().unwrap_or_else(|error| {
            tracing::warn!(object = %object.key(), %error, "object cannot be read");
            json!({})
        });
        Self {
            object: object.clone(),
            value,
        }
    }

    /// The object with only these fields of its parts decoded, to be kept for long: a decoded object takes ten times as
    /// much memory as its bytes.
    pub(crate) fn with_only(&self, fields: &[(&str, &str)]) -> Self {
        let mut value = json!({});
        for (part, field) in fields {
            if let Some(found) = self.value[part].get(field) {
                value[part][field] = found.clone();
            }
        }
        Self {
            object: self.object.clone(),
            value,
        }
    }

    /// The object to reconcile, unless it is missing or being deleted.
    pub(crate) fn living(request: &Request) -> Option<Self> {
        let object = request.object.as_ref()?;
        (!object.is_deleting()).then(|| Self::read(object))
    }

    /// The decoded object.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// A field by its JSON pointer.
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.value.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    pub(crate) fn number(&self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or_default()
    }

    pub(crate) fn list(&self, pointer: &str) -> &[Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    /// True if a condition has the status `True`.
    pub(crate) fn holds(&self, kind: &str) -> bool {
        let mut conditions = self.list("/status/conditions").iter();
        conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
    }

    /// True if there is a condition of this type, whatever its status.
    pub(crate) fn has_condition(&self, kind: &str) -> bool {
        let mut conditions = self.list("/status/conditions").iter();
        conditions.any(|condition| condition["type"] == kind)
    }

    /// True if the status already contains this.
    pub(crate) fn says(&self, status: &Value) -> bool {
        tells(&self["status"], status)
    }

    /// An owner reference that makes this object the controller.
    pub(crate) fn as_controller(&self) -> Value {
        let mut reference = self.as_owner();
        reference["controller"] = json!(true);
        reference["blockOwnerDeletion"] = json!(true);
        reference
    }

    /// An owner reference to this object.
    pub(crate) fn as_owner(&self) -> Value {
        json!({
            "apiVersion": self.api_version(),
            "kind": self.kind(),
            "name": self.name(),
            "uid": self.uid(),
        })
    }
}

/// True if a value already contains these fields. A missing field equals an empty one.
fn tells(known: &Value, new: &Value) -> bool {
    match new {
        Value::Object(fields) => fields.iter().all(|(name, new)| tells(&known[name], new)),
        Value::Null => known.is_null(),
        Value::Number(number) if known.is_null() => number.as_i64() == Some(0),
        Value::String(text) if known.is_null() => text.is_empty(),
        Value::Array(items) if known.is_null() => items.is_empty(),
        new => known == new,
    }
}

impl Deref for Item {
    type Target = Object;

    fn deref(&self) -> &Object {
        &self.object
    }
}

impl Index<&str> for Item {
    type Output = Value;

    fn index(&self, name: &str) -> &Value {
        &self.value[name]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use watchkeeper_wire::ObjectOptions;

    /// An object for unit tests.
    pub(crate) fn item(value: &Value) -> Item {
        let bytes = serde_json::to_vec(value).unwrap();
        Item::read(&Object::from_json(&bytes, &ObjectOptions::default()).unwrap())
    }

    #[test]
    fn a_kept_item_has_only_the_fields_that_are_asked_for() {
        let node = item(&json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "one", "labels": {"disk": "ssd"}},
            "spec": {"podCIDR": "10.0.0.0/24", "unschedulable": true}, "status": {"phase": "Running"},
        }));
        let kept = node.with_only(&[
            ("metadata", "labels"),
            ("spec", "unschedulable"),
            ("spec", "taints"),
        ]);
        let fields = json!({"metadata": {"labels": {"disk": "ssd"}}, "spec": {"unschedulable": true}});
        assert_eq!(*kept.value(), fields);
        assert_eq!(kept.name(), "one");
    }

    #[test]
    fn a_status_says_what_is_there_and_nothing_is_nothing() {
        let set = item(&json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "status": {"replicas": 3},
        }));
        assert!(set.says(&json!({"replicas": 3, "readyReplicas": 0, "conditions": []})));
        assert!(!set.says(&json!({"replicas": 3, "readyReplicas": 1})));
        assert!(!set.says(&json!({"replicas": 0})));
    }
}
