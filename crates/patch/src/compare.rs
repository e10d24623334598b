//! Which fields differ between two states of an object, as paths that managers can own.
//!
//! What is in the new state alone is *added*, in the old alone *removed*, in both with another value *modified*.
//! A map or list that is added is a path itself (`data`), and so is everything in it (`data.k`): whoever brings a
//! map into being owns the map too. A field that is `null` is there, only empty.

use serde_json::{Map, Value};
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::field_set::{FieldSet, PathElement};
use crate::structure::{Items, Place, Structure, identified};

/// How one state of an object differs from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Paths that only the new state has.
    pub added: FieldSet,
    /// Paths that both have, with different values.
    pub modified: FieldSet,
    /// Paths that only the old state has.
    pub removed: FieldSet,
}

/// Compares two states of an object of the given type.
pub fn compare(schema: &Schema, root: TypeId, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk {
        found: Comparison::default(),
        path: Vec::new(),
    };
    walk.both(Place::root(schema, root), old, new);
    walk.found
}

impl Comparison {
    /// Whether the two states are the same.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// What the new state sets anew or differently.
    pub fn changed(&self) -> FieldSet {
        self.added.clone().union(&self.modified)
    }
}

struct Walk {
    found: Comparison,
    path: Vec<PathElement>,
}

/// Which of the two states a value is alone in.
#[derive(Clone, Copy)]
enum Only {
    Old,
    New,
}

impl Walk {
    fn both(&mut self, place: Place<'_>, old: &Value, new: &Value) {
        if old == new {
            return;
        }
        let structure = place.structure();
        match structure {
            Structure::Scalar | Structure::Atomic => self.found.modified.insert(&self.path),
            Structure::Struct(_) | Structure::Map(_) => match (old.as_object(), new.as_object()) {
                (None, None) => self.found.modified.insert(&self.path),
                (old, new) => self.maps(place, &structure, old, new),
            },
            Structure::Set(item) => self.lists(item, &structure, old, new),
            Structure::Keyed(list) => self.lists(list.item, &structure, old, new),
        }
    }

    fn maps(
        &mut self,
        place: Place<'_>,
        structure: &Structure<'_>,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
    ) {
        for (name, value) in old.into_iter().flatten() {
            let Some(child) = place.child(structure, name) else {
                continue;
            };
            self.at(PathElement::field(name), |walk| {
                match new.and_then(|new| new.get(name)) {
                    Some(new) => walk.both(child, value, new),
                    None => walk.only(Only::Old, child, value),
                }
            });
        }
        for (name, value) in new.into_iter().flatten() {
            let (Some(child), false) = (
                place.child(structure, name),
                old.is_some_and(|old| old.contains_key(name)),
            ) else {
                continue;
            };
            self.at(PathElement::field(name), |walk| {
                walk.only(Only::New, child, value)
            });
        }
    }

    fn lists(&mut self, item: Place<'_>, structure: &Structure<'_>, old: &Value, new: &Value) {
        let items = |value| identified(structure, as_list(value));
        let (old, new) = (items(old), items(new));
        for (element, values) in &old {
            let others = new.iter().find(|(other, _)| other == element);
            self.at(element.clone(), |walk| match (values.as_slice(), others) {
                ([old], Some((_, new))) if let [new] = new.as_slice() => walk.both(item, old, new),
                (old, Some((_, new))) if old == new.as_slice() => {}
                // Several under one identity are one value, like anything that cannot be told apart.
                (_, Some(_)) => walk.found.modified.insert(&walk.path),
                (_, None) => walk.only_item(Only::Old, item, values),
            });
        }
        for (element, values) in new
            .iter()
            .filter(|(element, _)| !old.iter().any(|(o, _)| o == element))
        {
            self.at(element.clone(), |walk| walk.only_item(Only::New, item, values));
        }
    }

    /// A value that one state has alone: its path, and all that is below it.
    fn only(&mut self, side: Only, place: Place<'_>, value: &Value) {
        self.only_path(side);
        let structure = place.structure();
        match (&structure, value) {
            (Structure::Struct(_) | Structure::Map(_), Value::Object(fields)) => {
                for (name, value) in fields {
                    let Some(child) = place.child(&structure, name) else {
                        continue;
                    };
                    self.at(PathElement::field(name), |walk| walk.only(side, child, value));
                }
            }
            (Structure::Set(item), Value::Array(items)) => self.only_items(side, *item, &structure, items),
            (Structure::Keyed(list), Value::Array(items)) => {
                self.only_items(side, list.item, &structure, items);
            }
            _ => {}
        }
    }

    fn only_items(&mut self, side: Only, item: Place<'_>, structure: &Structure<'_>, items: &[Value]) {
        for (element, values) in identified(structure, items) {
            self.at(element, |walk| walk.only_item(side, item, &values));
        }
    }

    fn only_item(&mut self, side: Only, item: Place<'_>, values: &Items<'_>) {
        match values.as_slice() {
            [value] => self.only(side, item, value),
            _ => self.only_path(side),
        }
    }

    fn only_path(&mut self, side: Only) {
        match side {
            Only::Old => self.found.removed.insert(&self.path),
            Only::New => self.found.added.insert(&self.path),
        }
    }

    /// Runs `step` one path element further down.
    fn at(&mut self, element: PathElement, step: impl FnOnce(&mut Self)) {
        self.path.push(element);
        step(self);
        self.path.pop();
    }
}

/// The items of a list; none for `null` and for what is no list.
pub(crate) fn as_list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
