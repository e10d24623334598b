//! What server-side apply does with one configuration: which fields it sets, how it merges into the live object,
//! and how fields are taken out again.

use serde_json::{Map, Value};
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::field_set::{FieldSet, PathElement, Step};
use crate::go_text::go_value;
use crate::structure::{Place, Structure, Wants, identity, with_named_fields};

/// A configuration that does not fit the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ConfigurationError {
    /// Where, as `.spec.ports`.
    pub path: String,
    /// What is wrong there, in Kubernetes' words.
    pub problem: String,
}

/// The fields that a configuration sets.
///
/// A struct is not a field it sets, only what stands in it; keys of maps and items of keyed lists are. An empty
/// object or a `null` is set as such.
pub fn field_set(schema: &Schema, root: TypeId, config: &Value) -> Result<FieldSet, ConfigurationError> {
    let mut reader = SetReader {
        set: FieldSet::new(),
        path: Vec::new(),
    };
    reader.read(Place::root(schema, root), config)?;
    Ok(reader.set)
}

/// The live object with the configuration laid over it.
pub fn merge(schema: &Schema, root: TypeId, live: &Value, config: &Value) -> Value {
    merge_at(Place::root(schema, root), Some(live), config)
}

/// Takes the fields of `set` out of the object, each with all that is below it.
pub fn remove(schema: &Schema, root: TypeId, object: &mut Value, set: &FieldSet) {
    remove_at(Place::root(schema, root), object, set);
}

/// The set with every struct field that leads to one of its paths.
pub fn ensure_named_fields(schema: &Schema, root: TypeId, set: &FieldSet) -> FieldSet {
    with_named_fields(Place::root(schema, root), set)
}

struct SetReader {
    set: FieldSet,
    path: Vec<PathElement>,
}

impl SetReader {
    fn read(&mut self, place: Place<'_>, value: &Value) -> Result<(), ConfigurationError> {
        self.check_type(place, value)?;
        let structure = place.structure();
        match (&structure, value) {
            (Structure::Struct(_) | Structure::Map(_), Value::Object(fields)) => {
                self.read_fields(place, &structure, fields)
            }
            (Structure::Set(item), Value::Array(items)) => self.read_items(*item, &structure, items),
            (Structure::Keyed(list), Value::Array(items)) => self.read_items(list.item, &structure, items),
            // What stands in for a struct, map or keyed list as null is set by whoever holds it.
            (Structure::Struct(_) | Structure::Map(_) | Structure::Set(_) | Structure::Keyed(_), _) => Ok(()),
            (Structure::Scalar | Structure::Atomic, _) => {
                self.set.insert(&self.path);
                Ok(())
            }
        }
    }

    fn read_fields(
        &mut self,
        place: Place<'_>,
        structure: &Structure<'_>,
        fields: &Map<String, Value>,
    ) -> Result<(), ConfigurationError> {
        for (name, value) in fields {
            self.path.push(PathElement::field(name));
            let Some(child) = place.child(structure, name) else {
                return Err(self.error("field not declared in schema"));
            };
            self.read(child, value)?;
            let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
            if empty || matches!(structure, Structure::Map(_)) {
                self.set.insert(&self.path);
            }
            self.path.pop();
        }
        Ok(())
    }

    fn read_items(
        &mut self,
        item: Place<'_>,
        structure: &Structure<'_>,
        items: &[Value],
    ) -> Result<(), ConfigurationError> {
        let mut seen = std::collections::HashSet::new();
        for (index, value) in items.iter().enumerate() {
            let Some(element) = identity(structure, value) else {
                let Structure::Keyed(list) = structure else {
                    continue;
                };
                return Err(self.error(&format!(
                    "element {index}: associative list with keys has an element that omits all key fields \
                     [{}] (and doesn't have default values for any key fields)",
                    list.keys().join(" "),
                )));
            };
            if !seen.insert(element.clone()) {
                return Err(self.error(&format!("duplicate entries for key {element}")));
            }
            self.path.push(element);
            self.read(item, value)?;
            self.set.insert(&self.path);
            self.path.pop();
        }
        Ok(())
    }

    fn check_type(&self, place: Place<'_>, value: &Value) -> Result<(), ConfigurationError> {
        let expected = match (place.wants(), value) {
            (_, Value::Null) | (Wants::Anything, _) => return Ok(()),
            (Wants::Map, Value::Object(_)) | (Wants::List, Value::Array(_)) => return Ok(()),
            (Wants::Map, _) => "map",
            (Wants::List, _) => "list",
        };
        Err(self.error(&format!("expected {expected}, got &{{{}}}", go_value(value))))
    }

    fn error(&self, problem: &str) -> ConfigurationError {
        let path = self.path.iter().map(PathElement::to_string).collect();
        ConfigurationError {
            path,
            problem: problem.to_owned(),
        }
    }
}

fn merge_at(place: Place<'_>, live: Option<&Value>, config: &Value) -> Value {
    let structure = place.structure();
    match (&structure, live, config) {
        (Structure::Struct(_) | Structure::Map(_), Some(Value::Object(live)), Value::Object(config)) => {
            let mut merged = live.clone();
            for (name, value) in config {
                let value = match place.child(&structure, name) {
                    Some(child) => merge_at(child, live.get(name), value),
                    None => value.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Structure::Set(item), Some(Value::Array(live)), Value::Array(config)) => {
            merge_lists(*item, &structure, live, config)
        }
        (Structure::Keyed(list), Some(Value::Array(live)), Value::Array(config)) => {
            merge_lists(list.item, &structure, live, config)
        }
        _ => config.clone(),
    }
}

/// Both lists in one: items of the configuration in its order, and each item that only the live list has before
/// the shared item it stood before, so that neither side's order is turned around.
///
/// Live `[a, x, b, y]` and configuration `[n, a, b, m]` give `[n, a, x, b, y, m]`.
fn merge_lists(item: Place<'_>, structure: &Structure<'_>, live: &[Value], config: &[Value]) -> Value {
    let identify = |items: &[Value]| -> Vec<Option<PathElement>> {
        items.iter().map(|item| identity(structure, item)).collect()
    };
    let (live_ids, config_ids) = (identify(live), identify(config));
    let live_item =
        |id: &Option<PathElement>| live_ids.iter().position(|other| other == id).map(|i| &live[i]);
    let mut merged = Vec::with_capacity(live.len() + config.len());
    let mut next = 0;
    for (id, value) in live_ids.iter().zip(live) {
        if !config_ids.contains(id) {
            merged.push(value.clone());
            continue;
        }
        // A shared item draws in the configuration's items up to itself, unless a later live item will: shared
        // items follow the configuration's order.
        let next_shared = config_ids[next..]
            .iter()
            .position(|other| live_ids.contains(other));
        if let Some(offset) = next_shared.filter(|offset| config_ids[next + offset] == *id) {
            for index in next..=next + offset {
                merged.push(merge_at(item, live_item(&config_ids[index]), &config[index]));
            }
            next += offset + 1;
        }
    }
    for index in next..config.len() {
        merged.push(merge_at(item, live_item(&config_ids[index]), &config[index]));
    }
    Value::Array(merged)
}

fn remove_at(place: Place<'_>, value: &mut Value, set: &FieldSet) {
    let structure = place.structure();
    match (&structure, value) {
        (Structure::Struct(_) | Structure::Map(_), Value::Object(fields)) => {
            for element in set.elements() {
                let (Step::Field(name), Some((member, below))) = (element.step(), set.descend(element))
                else {
                    continue;
                };
                if member {
                    fields.remove(name);
                } else if let (Some(child), Some(value)) =
                    (place.child(&structure, name), fields.get_mut(name))
                {
                    remove_at(child, value, below);
                }
            }
        }
        (Structure::Set(item), Value::Array(items)) => remove_items(*item, &structure, items, set),
        (Structure::Keyed(list), Value::Array(items)) => remove_items(list.item, &structure, items, set),
        _ => {}
    }
}

fn remove_items(item: Place<'_>, structure: &Structure<'_>, items: &mut Vec<Value>, set: &FieldSet) {
    items.retain_mut(|value| {
        let Some((member, below)) = identity(structure, value).and_then(|id| set.descend(&id)) else {
            return true;
        };
        if !member {
            remove_at(item, value, below);
        }
        !member
    });
}
