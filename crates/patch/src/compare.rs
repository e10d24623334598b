//! Compares two states of an object by field paths, as managers own them.
//!
//! A path with a new or another value is *changed*, one that is only in the old state is *removed*. A new map or list
//! is a path itself (`data`), and so is everything in it (`data.k`): the manager that creates a map owns the map too.
//! A field that is `null` is present but empty.
//!
//! Two states are nearly always almost equal. The differences are found without the schema ([`Difference`]); paths
//! are built only there.

use std::cmp::Ordering;

use serde_json::{Map, Value};
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::field_set::{FieldSet, Node, PathElement};
use crate::structure::{KeyedList, Place, Structure, identified, identity, is_same_item};

/// The largest number of item comparisons; beyond it, items are sorted.
const MAX_IN_PLACE: usize = 1000;

/// The difference between two states of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Paths that are new or have another value.
    pub changed: FieldSet,
    /// Paths that only the old state has.
    pub removed: FieldSet,
}

/// Compares two states of an object of the given type.
pub fn compare(schema: &Schema, root: TypeId, old: &Value, new: &Value) -> Comparison {
    compare_at(schema, root, old, new, &Difference::between(old, new))
}

/// Like [`compare`], with a known difference.
pub(crate) fn compare_at(
    schema: &Schema,
    root: TypeId,
    old: &Value,
    new: &Value,
    difference: &Difference,
) -> Comparison {
    let found = both(Place::root(schema, root), old, new, difference);
    Comparison {
        changed: found.changed.below,
        removed: found.removed.below,
    }
}

impl Comparison {
    /// True if the two states are equal.
    pub fn is_same(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// The difference between two states of one value, as paths.
#[derive(Default)]
struct Paths {
    changed: Node,
    removed: Node,
}

impl Paths {
    /// Another value without parts.
    fn changed() -> Self {
        Self {
            changed: Node::MEMBER,
            ..Self::default()
        }
    }

    fn only_old(removed: Node) -> Self {
        Self {
            removed,
            ..Self::default()
        }
    }

    fn only_new(changed: Node) -> Self {
        Self {
            changed,
            ..Self::default()
        }
    }

    /// Adds the difference of a child.
    fn add(&mut self, element: impl Fn() -> PathElement, below: Self) {
        self.changed.below.add(&element, below.changed);
        self.removed.below.add(&element, below.removed);
    }
}

/// Compares two values, given their difference.
fn both(place: Place<'_>, old: &Value, new: &Value, difference: &Difference) -> Paths {
    if difference.is_nowhere() {
        return Paths::default();
    }
    let structure = place.structure();
    match structure {
        Structure::Scalar | Structure::Atomic => Paths::changed(),
        // A value that changed its JSON type has no parts in common.
        Structure::Deduced if !(old.is_object() && new.is_object()) => deduced(place, old, new),
        Structure::Struct(_) | Structure::Map(_) | Structure::Deduced => {
            match (old.as_object(), new.as_object()) {
                (None, None) => Paths::changed(),
                (old, new) => maps(place, &structure, old, new, difference),
            }
        }
        // A list that is empty, and was not there, is a value without parts.
        Structure::Set(_) | Structure::Keyed(_) if old.is_null() && as_list(new).is_empty() => {
            Paths::changed()
        }
        Structure::Set(item) | Structure::Keyed(KeyedList { item, .. }) => {
            let (old, new) = (as_list(old), as_list(new));
            let found = in_place(item, &structure, old, new, difference);
            found.unwrap_or_else(|| lists(item, &structure, old, new))
        }
    }
}

/// True if a changed keyed list has an item without any key field. Nobody can own such an item, and Kubernetes records
/// nothing of the write that brings it.
pub(crate) fn omits_key(place: Place<'_>, value: &Value, difference: &Difference) -> bool {
    if difference.is_nowhere() {
        return false;
    }
    let structure = place.structure();
    match (&structure, value) {
        (Structure::Struct(_) | Structure::Map(_), Value::Object(fields)) => {
            fields.iter().any(|(name, value)| {
                let child = place.child(&structure, name);
                child.is_some_and(|child| omits_key(child, value, difference.member(name)))
            })
        }
        (Structure::Keyed(list), Value::Array(items)) => {
            let mut items = items.iter().enumerate();
            items.any(|(index, item)| {
                !list.has_key(item) || omits_key(list.item, item, difference.item(index))
            })
        }
        _ => false,
    }
}

/// Two values without a schema, one of which is not an object: all of the new one is changed.
fn deduced(place: Place<'_>, old: &Value, new: &Value) -> Paths {
    Paths {
        changed: only(place, new),
        removed: Node {
            member: false,
            ..only(place, old)
        },
    }
}

fn maps(
    place: Place<'_>,
    structure: &Structure<'_>,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    difference: &Difference,
) -> Paths {
    let mut found = Paths::default();
    for (name, old, new) in side_by_side(old.into_iter().flatten(), new.into_iter().flatten()) {
        let below = difference.member(name);
        if new.is_some() && below.is_nowhere() {
            continue;
        }
        // Undeclared fields have no owner.
        let Some(child) = place.child(structure, name) else {
            continue;
        };
        let below = match (old, new) {
            (Some(old), Some(new)) => both(child, old, new, below),
            (Some(old), None) => Paths::only_old(only(child, old)),
            (None, Some(new)) => Paths::only_new(only(child, new)),
            (None, None) => continue,
        };
        found.add(|| PathElement::field(name), below);
    }
    found
}

/// Compares two lists whose items kept their positions, as nearly all do. Only items that differ are compared. `None`
/// if an item moved, or if several items have the same identity.
fn in_place(
    item: Place<'_>,
    structure: &Structure<'_>,
    old: &[Value],
    new: &[Value],
    difference: &Difference,
) -> Option<Paths> {
    let Difference::Items(items) = difference else {
        return None;
    };
    let differ = || items.iter().enumerate().filter(|(_, below)| !below.is_nowhere());
    if old.len() != new.len() || differ().count() * new.len() > MAX_IN_PLACE {
        return None;
    }
    let mut found = Paths::default();
    for (index, below) in differ() {
        let (before, after) = (&old[index], &new[index]);
        let is_it = |other: &&Value| is_same_item(structure, other, after);
        if !is_it(&before) || old.iter().filter(is_it).count() > 1 || new.iter().filter(is_it).count() > 1 {
            return None;
        }
        let element = identity(structure, after)?;
        found.add(|| element.clone(), both(item, before, after, below));
    }
    Some(found)
}

fn lists(item: Place<'_>, structure: &Structure<'_>, old: &[Value], new: &[Value]) -> Paths {
    let (old, new) = (identified(structure, old), identified(structure, new));
    let mut found = Paths::default();
    for (element, old, new) in side_by_side(groups(&old), groups(&new)) {
        let below = match (old, new) {
            (Some([(_, old)]), Some([(_, new)])) => both(item, old, new, &Difference::between(old, new)),
            // Several items with the same identity are compared as one value.
            (Some(old), Some(new)) if old == new => continue,
            (Some(_), Some(_)) => Paths::changed(),
            (Some(old), None) => Paths::only_old(only_item(item, old)),
            (None, Some(new)) => Paths::only_new(only_item(item, new)),
            (None, None) => continue,
        };
        found.add(|| element.clone(), below);
    }
    found
}

/// A value that only one state has: its path, and everything below it.
fn only(place: Place<'_>, value: &Value) -> Node {
    let structure = place.structure();
    let mut below = FieldSet::new();
    match (&structure, value) {
        (Structure::Struct(_) | Structure::Map(_) | Structure::Deduced, Value::Object(fields)) => {
            for (name, value) in fields {
                if let Some(child) = place.child(&structure, name) {
                    below.add(|| PathElement::field(name), only(child, value));
                }
            }
        }
        (Structure::Set(item), Value::Array(items)) => below = only_items(*item, &structure, items),
        (Structure::Keyed(list), Value::Array(items)) => below = only_items(list.item, &structure, items),
        _ => {}
    }
    Node { member: true, below }
}

fn only_items(item: Place<'_>, structure: &Structure<'_>, items: &[Value]) -> FieldSet {
    let mut set = FieldSet::new();
    for (element, values) in groups(&identified(structure, items)) {
        set.add(|| element.clone(), only_item(item, values));
    }
    set
}

fn only_item(item: Place<'_>, values: &[(PathElement, &Value)]) -> Node {
    match values {
        [(_, value)] => only(item, value),
        _ => Node::MEMBER,
    }
}

/// The items by identity, in order.
fn groups<'i, 'v>(
    items: &'i [(PathElement, &'v Value)],
) -> impl Iterator<Item = (&'i PathElement, &'i [(PathElement, &'v Value)])> {
    let groups = items.chunk_by(|(one, _), (other, _)| one == other);
    groups.map(|group| (&group[0].0, group))
}

/// Merges two sorted sequences: each key once, with the value of either side.
fn side_by_side<K: Ord, T>(
    old: impl Iterator<Item = (K, T)>,
    new: impl Iterator<Item = (K, T)>,
) -> impl Iterator<Item = (K, Option<T>, Option<T>)> {
    let (mut old, mut new) = (old.peekable(), new.peekable());
    std::iter::from_fn(move || {
        let order = match (old.peek(), new.peek()) {
            (Some((one, _)), Some((other, _))) => one.cmp(other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let mut old = || old.next_if(|_| order.is_le());
        let mut new = || new.next_if(|_| order.is_ge());
        match (old(), new()) {
            (Some((key, old)), new) => Some((key, Some(old), new.map(|(_, new)| new))),
            (None, Some((key, new))) => Some((key, None, Some(new))),
            (None, None) => None,
        }
    })
}

/// The items of a list; none for `null` and other values.
pub(crate) fn as_list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn compared(old: &[Value], new: &[Value]) -> Comparison {
        let schema = Schema::builtin();
        let object = |ports: &[Value]| json!({"spec": {"ports": ports}});
        compare(
            schema,
            schema.kind("v1", "Service").unwrap(),
            &object(old),
            &object(new),
        )
    }

    fn ports() -> impl Strategy<Value = Vec<Value>> {
        let ports = prop::collection::btree_map(1..6u16, "[a-c]", 0..5);
        ports.prop_map(|ports| {
            let port = |(port, name)| json!({"port": port, "name": name});
            ports.into_iter().map(port).collect()
        })
    }

    proptest! {
        #[test]
        fn items_are_compared_wherever_they_stand(old in ports(), new in ports()) {
            let turned: Vec<Value> = new.iter().rev().cloned().collect();
            prop_assert_eq!(compared(&old, &new), compared(&old, &turned));
        }
    }

    #[test]
    fn several_items_under_one_identity_are_one_value() {
        let port = |name: &str| json!({"port": 1, "name": name});
        let change = compared(&[port("a"), port("b")], &[port("a"), port("c")]);
        assert_eq!(
            change.changed.paths(),
            ["spec.ports[port=1,protocol=\"TCP\"]"].map(|path| format!(".{path}"))
        );
        let change = compared(&[port("a")], &[port("b")]);
        assert_eq!(
            change.changed.paths(),
            [".spec.ports[port=1,protocol=\"TCP\"].name"]
        );
    }
}
