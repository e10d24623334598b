//! The difference between two states of an object, field by field.
//!
//! Lists whose items have keys are compared by key, not by index: `spec.containers[name=web].image`. For built-in kinds
//! the keys come from the schema; for custom kinds, `name`, `type` or the like is used if every item has one.
//!
//! ```
//! use serde_json::json;
//! use watchkeeper_meta::GroupVersionKind;
//! use watchkeeper_recording::changes;
//!
//! let pod = |image| json!({"spec": {"containers": [{"name": "log", "image": "a"}, {"name": "web", "image": image}]}});
//! let found = changes(&GroupVersionKind::new("", "v1", "Pod"), &pod("web:1"), &pod("web:2"));
//! assert_eq!(found[0].to_string(), r#"spec.containers[name=web].image: "web:1" → "web:2""#);
//! ```

use std::fmt;

use serde_json::{Map, Value};
use watchkeeper_meta::GroupVersionKind;
use watchkeeper_wire::schema::{Field, ListType, Schema, Shape, TypeId};

/// Keys of list items tried if there is no schema, in this order.
const GUESSED_KEYS: [&str; 5] = ["name", "type", "key", "uid", "ip"];

/// A changed field.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The path of the field.
    pub path: FieldPath,
    /// The old value; `None` if there was none.
    pub old: Option<Value>,
    /// The new value; `None` if there is none.
    pub new: Option<Value>,
}

/// The path of a field in an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldPath(Vec<PathStep>);

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum PathStep {
    /// A field of an object.
    Field(String),
    /// The list item with these keys.
    Item(Vec<(String, Value)>),
    /// The list item at this index.
    Index(usize),
}

/// The fields that differ between two states of an object, sorted by name. A subtree that exists in only one state is
/// one change.
pub fn changes(kind: &GroupVersionKind, old: &Value, new: &Value) -> Vec<Change> {
    let schema = Schema::builtin();
    let place = match schema.kind(&kind.api_version(), &kind.kind) {
        Some(id) => Place::Struct(schema, id),
        None => Place::Unknown,
    };
    let mut walk = Walk::default();
    walk.compare(place, Some(old), Some(new));
    walk.found
}

impl FieldPath {
    /// Its steps.
    pub fn steps(&self) -> &[PathStep] {
        &self.0
    }

    /// The last field; empty if the path ends with an item.
    pub fn last_field(&self) -> &str {
        match self.0.last() {
            Some(PathStep::Field(name)) => name,
            _ => "",
        }
    }

    /// True if the path starts with these fields.
    pub fn starts_with(&self, fields: &[&str]) -> bool {
        let mut steps = self.0.iter();
        let mut fields = fields.iter();
        fields.all(|field| matches!(steps.next(), Some(PathStep::Field(name)) if name == field))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Field(name) if name.contains(['.', '[', '"']) => write!(f, "[{name:?}]")?,
                PathStep::Field(name) if index == 0 => f.write_str(name)?,
                PathStep::Field(name) => write!(f, ".{name}")?,
                PathStep::Index(index) => write!(f, "[{index}]")?,
                PathStep::Item(keys) => {
                    let keys = keys.iter().map(|(name, value)| match value {
                        Value::String(text) => format!("{name}={text}"),
                        other => format!("{name}={other}"),
                    });
                    write!(f, "[{}]", keys.collect::<Vec<_>>().join(","))?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, "{}: {old} → {new}", self.path),
            (None, Some(new)) => write!(f, "+ {}: {new}", self.path),
            (Some(old), None) => write!(f, "- {}: {old}", self.path),
            (None, None) => write!(f, "{}", self.path),
        }
    }
}

/// A position in the schema.
#[derive(Clone, Copy)]
enum Place<'s> {
    Struct(&'s Schema, TypeId),
    Field(&'s Schema, &'s Field),
    Shape(&'s Schema, &'s Shape),
    Unknown,
}

impl<'s> Place<'s> {
    fn shape(self) -> Option<(&'s Schema, &'s Shape)> {
        match self {
            Self::Field(schema, field) => Some((schema, &field.shape)),
            Self::Shape(schema, shape) => Some((schema, shape)),
            Self::Struct(..) | Self::Unknown => None,
        }
    }

    fn member(self, name: &str) -> Self {
        let of = |schema: &'s Schema, id| match schema.field(id, name) {
            Some(field) => Self::Field(schema, field),
            None => Self::Unknown,
        };
        match (self, self.shape()) {
            (Self::Struct(schema, id), _) | (_, Some((schema, &Shape::Struct(id)))) => of(schema, id),
            (_, Some((schema, Shape::Map(value)))) => Self::Shape(schema, value),
            _ => Self::Unknown,
        }
    }

    fn item(self) -> Self {
        match self.shape() {
            Some((schema, Shape::List(item) | Shape::ListMessage(item))) => Self::Shape(schema, item),
            _ => Self::Unknown,
        }
    }

    /// The keys of list items in the schema; empty if there are none.
    fn keys(self) -> Vec<&'s str> {
        match self {
            Self::Field(_, field) if field.list_type == Some(ListType::Map) => {
                field.list_map_keys.iter().map(|key| &**key).collect()
            }
            Self::Field(_, field) if field.patch.merge => {
                field.patch_merge_key.as_deref().into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}

#[derive(Default)]
struct Walk {
    path: Vec<PathStep>,
    found: Vec<Change>,
}

impl Walk {
    fn compare(&mut self, place: Place<'_>, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(old), Some(new)) if old == new => {}
            (Some(Value::Object(old)), Some(Value::Object(new))) => self.members(place, old, new),
            (Some(Value::Array(old)), Some(Value::Array(new))) => self.items(place, old, new),
            (old, new) => self.found.push(Change {
                path: FieldPath(self.path.clone()),
                old: old.cloned(),
                new: new.cloned(),
            }),
        }
    }

    fn below(&mut self, step: PathStep, place: Place<'_>, old: Option<&Value>, new: Option<&Value>) {
        self.path.push(step);
        self.compare(place, old, new);
        self.path.pop();
    }

    fn members(&mut self, place: Place<'_>, old: &Map<String, Value>, new: &Map<String, Value>) {
        let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let step = PathStep::Field(name.clone());
            self.below(step, place.member(name), old.get(name), new.get(name));
        }
    }

    fn items(&mut self, place: Place<'_>, old: &[Value], new: &[Value]) {
        let keys = place.keys();
        let keys = match keyed(old, &keys) && keyed(new, &keys) {
            true => keys,
            false => guessed(old, new),
        };
        if !keys.is_empty() {
            return self.keyed_items(place, &keys, old, new);
        }
        let have_parts = old
            .iter()
            .chain(new)
            .any(|item| item.is_object() || item.is_array());
        if old.len() == new.len() && have_parts {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                self.below(PathStep::Index(index), place.item(), Some(old), Some(new));
            }
            return;
        }
        self.found.push(Change {
            path: FieldPath(self.path.clone()),
            old: Some(Value::Array(old.to_vec())),
            new: Some(Value::Array(new.to_vec())),
        });
    }

    /// Compares items in the order of the old list, then new ones. A different order alone is not a change of a list
    /// with keys.
    fn keyed_items(&mut self, place: Place<'_>, keys: &[&str], old: &[Value], new: &[Value]) {
        for item in old {
            let step = PathStep::Item(key_of(item, keys));
            let other = new.iter().find(|other| is_same(item, other, keys));
            self.below(step, place.item(), Some(item), other);
        }
        for item in new
            .iter()
            .filter(|item| !old.iter().any(|other| is_same(item, other, keys)))
        {
            self.below(PathStep::Item(key_of(item, keys)), place.item(), None, Some(item));
        }
    }
}

fn key_of(item: &Value, keys: &[&str]) -> Vec<(String, Value)> {
    let found = keys
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), item.get(key)?.clone())));
    found.collect()
}

fn is_same(one: &Value, other: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| one.get(key) == other.get(key))
}

/// True if all items have the first key, and no two have the same keys.
fn keyed(items: &[Value], keys: &[&str]) -> bool {
    let has_key = |item: &Value| keys.iter().any(|key| item.get(key).is_some());
    !keys.is_empty()
        && items.iter().all(has_key)
        && items
            .iter()
            .enumerate()
            .all(|(index, item)| !items[..index].iter().any(|other| is_same(item, other, keys)))
}

fn guessed(old: &[Value], new: &[Value]) -> Vec<&'static str> {
    let is_text = |item: &Value, key: &str| item.get(key).is_some_and(Value::is_string);
    let fits = |key: &&&str| {
        let all = old.iter().chain(new).all(|item| is_text(item, key));
        all && keyed(old, &[key]) && keyed(new, &[key])
    };
    GUESSED_KEYS.iter().find(fits).copied().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(kind: (&'static str, &'static str, &'static str), old: Value, new: Value, expected: Expect) {
        let kind = GroupVersionKind::new(kind.0, kind.1, kind.2);
        let found = changes(&kind, &old, &new);
        let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
        expected.assert_eq(&lines.join("\n"));
    }

    const POD: (&str, &str, &str) = ("", "v1", "Pod");

    #[test]
    fn list_items_are_matched_by_the_keys_of_the_schema() {
        let port = |number, protocol: &str| json!({"containerPort": number, "protocol": protocol});
        check(
            POD,
            json!({"spec": {"containers": [{"name": "a", "ports": [port(80, "TCP"), port(53, "UDP")]}]}}),
            json!({"spec": {"containers": [{"name": "b"}, {"name": "a", "ports": [port(53, "TCP"), port(53, "UDP")]}]}}),
            expect![[r#"
                - spec.containers[name=a].ports[containerPort=80,protocol=TCP]: {"containerPort":80,"protocol":"TCP"}
                + spec.containers[name=a].ports[containerPort=53,protocol=TCP]: {"containerPort":53,"protocol":"TCP"}
                + spec.containers[name=b]: {"name":"b"}"#]],
        );
    }

    #[test]
    fn conditions_are_matched_by_type_and_names_with_dots_are_quoted() {
        check(
            POD,
            json!({"metadata": {"labels": {"app.kubernetes.io/name": "a"}},
                "status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            json!({"metadata": {"labels": {"app.kubernetes.io/name": "b"}},
                "status": {"conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]}}),
            expect![[r#"
                metadata.labels["app.kubernetes.io/name"]: "a" → "b"
                status.conditions[type=Ready].status: "False" → "True"
                + status.conditions[type=Initialized]: {"status":"True","type":"Initialized"}"#]],
        );
    }

    #[test]
    fn kinds_without_a_schema_are_compared_by_guessed_keys() {
        check(
            ("example.com", "v1", "Site"),
            json!({"spec": {"hosts": ["a", "b"], "routes": [{"name": "x", "to": 1}, {"name": "y", "to": 2}]}}),
            json!({"spec": {"hosts": ["a", "c"], "routes": [{"name": "y", "to": 3}, {"name": "x", "to": 1}]}}),
            expect![[r#"
                spec.hosts: ["a","b"] → ["a","c"]
                spec.routes[name=y].to: 2 → 3"#]],
        );
    }

    #[test]
    fn lists_without_keys_are_compared_by_index() {
        let rule = |verb: &str| json!({"apiGroups": [""], "verbs": [verb]});
        check(
            ("rbac.authorization.k8s.io", "v1", "Role"),
            json!({"rules": [rule("get"), rule("list")]}),
            json!({"rules": [rule("get"), rule("watch")]}),
            expect![[r#"rules[1].verbs: ["list"] → ["watch"]"#]],
        );
        check(
            ("rbac.authorization.k8s.io", "v1", "Role"),
            json!({"rules": [rule("get")]}),
            json!({"rules": []}),
            expect![[r#"rules: [{"apiGroups":[""],"verbs":["get"]}] → []"#]],
        );
    }
}
