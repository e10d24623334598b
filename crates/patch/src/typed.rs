//! The changes server-side apply makes to a live object: merging a configuration and removing fields.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::field_set::{FieldSet, PathElement, Step};
use crate::structure::{Place, Structure, identity, is_same_item, with_named_fields};

/// Merges the configuration into the live object.
pub fn merge(schema: &Schema, root: TypeId, live: &mut Value, config: &Value) {
    merge_at(Place::root(schema, root), live, config);
}

/// The paths of atomic lists, maps and structs in a configuration: merging it replaces them as a whole.
pub fn atomics(schema: &Schema, root: TypeId, config: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find_atomics(Place::root(schema, root), config, String::new(), &mut found);
    found
}

fn find_atomics(place: Place<'_>, config: &Value, path: String, found: &mut Vec<String>) {
    let structure = place.structure();
    match (&structure, config) {
        (Structure::Atomic, Value::Object(_) | Value::Array(_)) => found.push(path),
        (Structure::Struct(id), Value::Object(fields)) => {
            for (name, value) in fields {
                if let Some(child) = place.field(*id, name) {
                    find_atomics(child, value, format!("{path}.{name}"), found);
                }
            }
        }
        (Structure::Keyed(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                find_atomics(list.item, item, format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// Removes the fields of `set` from the object, each with everything below it.
pub fn remove(schema: &Schema, root: TypeId, object: &mut Value, set: &FieldSet) {
    remove_at(Place::root(schema, root), object, set);
}

/// The set with every struct field that leads to one of its paths added.
pub fn ensure_named_fields(schema: &Schema, root: TypeId, set: &FieldSet) -> FieldSet {
    with_named_fields(Place::root(schema, root), set)
}

fn merge_at(place: Place<'_>, live: &mut Value, config: &Value) {
    let structure = place.structure();
    match (&structure, &mut *live, config) {
        (
            Structure::Struct(_) | Structure::Map(_) | Structure::Deduced,
            Value::Object(live),
            Value::Object(config),
        ) => {
            for (name, value) in config {
                match live.get_mut(name) {
                    // Equal values need no merge.
                    Some(live) if *live == *value => {}
                    Some(live) => match place.child(&structure, name) {
                        Some(child) => merge_at(child, live, value),
                        None => live.clone_from(value),
                    },
                    None => drop(live.insert(name.clone(), value.clone())),
                }
            }
        }
        (Structure::Set(item), Value::Array(live), Value::Array(config)) => {
            merge_lists(*item, &structure, live, config);
        }
        (Structure::Keyed(list), Value::Array(live), Value::Array(config)) => {
            merge_lists(list.item, &structure, live, config);
        }
        (_, live, config) => live.clone_from(config),
    }
}

/// Merges two lists: the items of the configuration in its order, and each item only the live list has before the
/// shared item it preceded. Neither side's order is reversed.
///
/// Live `[a, x, b, y]` and configuration `[n, a, b, m]` give `[n, a, x, b, y, m]`.
fn merge_lists(item: Place<'_>, structure: &Structure<'_>, live: &mut Vec<Value>, config: &[Value]) {
    let is_same = |(live, config): (&Value, &Value)| is_same_item(structure, live, config);
    if live.len() == config.len() && live.iter().zip(config).all(is_same) {
        let pairs = live.iter_mut().zip(config);
        return pairs.for_each(|(live, config)| merge_at(item, live, config));
    }
    let identify = |items: &[Value]| -> Vec<Option<PathElement>> {
        items.iter().map(|item| identity(structure, item)).collect()
    };
    let (live_ids, config_ids) = (identify(live), identify(config));
    let configured: HashSet<_> = config_ids.iter().collect();
    // Of several items with the same identity the first counts.
    let places = live_ids.iter().enumerate().rev();
    let places: HashMap<_, _> = places.map(|(place, id)| (id, place)).collect();
    let mut live_items: Vec<Option<Value>> = live.drain(..).map(Some).collect();
    let merged_item = |index: usize, live_items: &mut Vec<Option<Value>>| {
        let place = places.get(&config_ids[index]);
        let live = place.and_then(|place| live_items[*place].take());
        match live {
            Some(mut live) => {
                merge_at(item, &mut live, &config[index]);
                live
            }
            None => config[index].clone(),
        }
    };
    let mut merged = Vec::with_capacity(live_ids.len() + config.len());
    let mut next = 0;
    for (place, id) in live_ids.iter().enumerate() {
        if !configured.contains(id) {
            merged.extend(live_items[place].take());
            continue;
        }
        // At a shared item, add the configuration's items up to it, if it is the next shared one: shared items follow
        // the configuration's order.
        let next_shared = config_ids[next..]
            .iter()
            .position(|other| places.contains_key(other));
        if let Some(offset) = next_shared.filter(|offset| config_ids[next + offset] == *id) {
            for index in next..=next + offset {
                merged.push(merged_item(index, &mut live_items));
            }
            next += offset + 1;
        }
    }
    for index in next..config.len() {
        merged.push(merged_item(index, &mut live_items));
    }
    *live = merged;
}

fn remove_at(place: Place<'_>, value: &mut Value, set: &FieldSet) {
    let structure = place.structure();
    match (&structure, value) {
        (Structure::Struct(_) | Structure::Map(_) | Structure::Deduced, Value::Object(fields)) => {
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
