//! Strategic merge patch: a merge patch that merges lists by the keys of their items.
//!
//! The schema states for each list whether its items merge, and by which key. A patch may carry directives:
//!
//! - `$patch: replace | delete`: in a map, replaces it with the patch or deletes it; in an item of a list, replaces
//!   the list with the other items or deletes the item with the same key;
//! - `$retainKeys: [a, b]`: drops all other keys of the map (members of a union);
//! - `$setElementOrder/list: [...]`: the order of the resulting list;
//! - `$deleteFromPrimitiveList/list: [...]`: removes these scalars from a list.
//!
//! Example, containers merging by name: live `[a, b, c]`, patch `[{c, image: 2}, {d}]` gives `[a, b, c(image 2), d]`:
//! the patch's items in its order, the server's own in their places.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use watchkeeper_wire::schema::{Field, Schema, Shape, TypeId};
use watchkeeper_wire::tree_size::text_size;

use crate::go_text::{go_type, go_value};

pub(crate) const DIRECTIVE: &str = "$patch";
pub(crate) const RETAIN_KEYS: &str = "$retainKeys";
pub(crate) const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
pub(crate) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// The bytes of an object's lists, written as JSON, that one patch may pass. Items of a patch that all mean the same item
/// of the object would otherwise each merge the lists in it.
pub const MAX_PASSED_BYTES: usize = 1 << 24;

/// The reason a strategic merge patch does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StrategicError {
    /// An item of a merging list without its merge key.
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The item.
        item: String,
        /// The missing key.
        key: String,
    },
    /// A `$patch` that is neither `replace` nor `delete`.
    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownDirective {
        /// Its value.
        directive: String,
        /// The map that contains it.
        map: String,
    },
    /// `$retainKeys` is no list, or omits a key that the patch sets.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// `$setElementOrder` lacks an item that the patch sets, or orders them differently.
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    Order {
        /// The items of the patch.
        patch: String,
        /// The items of the order.
        order: String,
    },
    /// `$setElementOrder`, or what it orders, is not a list.
    #[error("expected a []interface {{}}, but received a {found}")]
    NotAList {
        /// The Go type found.
        found: &'static str,
    },
    /// `$patch: merge` in an item of a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeInList,
    /// A list to merge whose first item is a list.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// The items of a list and its patch have several types.
    #[error("list element types are not identical: [{live} {patch}]")]
    MixedItems {
        /// The list.
        live: String,
        /// Its patch.
        patch: String,
    },
    /// Items that merge with long lists again and again.
    #[error("merged lists have more than {MAX_PASSED_BYTES} bytes")]
    TooLarge,
}

impl StrategicError {
    /// True if Kubernetes answers "bad request".
    pub fn is_bad_request(&self) -> bool {
        matches!(self, Self::RetainKeys)
    }

    /// The error for a value that should be a list.
    fn not_a_list(value: &Value) -> Self {
        Self::NotAList {
            found: match value {
                Value::Null => "%!s(<nil>)",
                value => go_type(value),
            },
        }
    }
}

/// Applies `patch` to `target`, an object of the given type.
pub fn apply(
    schema: &Schema,
    root: TypeId,
    target: &mut Map<String, Value>,
    patch: Map<String, Value>,
) -> Result<(), StrategicError> {
    merge_map(
        Context {
            schema,
            id: Some(root),
        },
        target,
        patch,
        &mut Budget(MAX_PASSED_BYTES),
    )
}

/// The bytes that may still be passed.
struct Budget(usize);

impl Budget {
    fn pass(&mut self, items: &[Value]) -> Result<(), StrategicError> {
        for item in items {
            let left = self.0.checked_sub(1 + text_size(item));
            self.0 = left.ok_or(StrategicError::TooLarge)?;
        }
        Ok(())
    }
}

/// The schema of a map's fields: a type for a struct, none for a plain map.
#[derive(Clone, Copy)]
pub(crate) struct Context<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) id: Option<TypeId>,
}

/// The merge strategy of a list or map field.
pub(crate) struct Strategy<'s> {
    pub(crate) merge: bool,
    pub(crate) replace: bool,
    /// True if the members of the map exclude each other.
    pub(crate) retain_keys: bool,
    pub(crate) merge_key: Option<&'s str>,
    /// The schema of the field's value, or of its items.
    pub(crate) inner: Context<'s>,
}

impl<'s> Context<'s> {
    pub(crate) fn strategy(self, name: &str) -> Strategy<'s> {
        let field = self.id.and_then(|id| self.schema.field(id, name));
        Strategy {
            merge: field.is_some_and(|field| field.patch.merge),
            replace: field.is_some_and(|field| field.patch.replace),
            retain_keys: field.is_some_and(|field| field.patch.retain_keys),
            merge_key: field.and_then(|field| field.patch_merge_key.as_deref()),
            inner: Context {
                schema: self.schema,
                id: field.and_then(struct_of),
            },
        }
    }
}

fn struct_of(field: &Field) -> Option<TypeId> {
    match &field.shape {
        Shape::Struct(id) => Some(*id),
        Shape::List(item) => match **item {
            Shape::Struct(id) => Some(id),
            _ => None,
        },
        _ => None,
    }
}

fn merge_map(
    context: Context<'_>,
    target: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    budget: &mut Budget,
) -> Result<(), StrategicError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                *target = patch;
            }
            Some("delete") => target.clear(),
            _ => return Err(unknown_directive(directive, &Value::Object(patch.clone()))),
        }
        return Ok(());
    }
    retain_keys(target, &mut patch)?;
    set_element_orders(context, target, &mut patch, budget)?;
    for (name, value) in patch {
        if let Some(name) = name.strip_prefix(DELETE_FROM_LIST) {
            delete_from_list(target, name, value, budget)?;
        } else if value.is_null() {
            target.remove(&name);
        } else {
            merge_field(context, target, name, value, budget)?;
        }
    }
    Ok(())
}

fn merge_field(
    context: Context<'_>,
    target: &mut Map<String, Value>,
    name: String,
    value: Value,
    budget: &mut Budget,
) -> Result<(), StrategicError> {
    let strategy = context.strategy(&name);
    match (target.get_mut(&name), value) {
        (Some(Value::Object(live)), Value::Object(patch)) if !strategy.replace => {
            merge_map(strategy.inner, live, patch, budget)
        }
        (Some(Value::Array(live)), Value::Array(patch)) if strategy.merge => {
            let merged = merge_list(&strategy, std::mem::take(live), patch, budget)?;
            *live = merged;
            Ok(())
        }
        (_, value) => {
            match without_directives(value) {
                Some(value) => target.insert(name, value),
                None => target.remove(&name),
            };
            Ok(())
        }
    }
}

/// Keeps only the keys the directive names. It must name every key the patch sets.
fn retain_keys(
    target: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), StrategicError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let keys = keys.as_array().ok_or(StrategicError::RetainKeys)?;
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let named = |key: &str| keys.contains(key);
    if patch
        .iter()
        .any(|(key, value)| !key.starts_with('$') && !value.is_null() && !named(key))
    {
        return Err(StrategicError::RetainKeys);
    }
    target.retain(|key, _| named(key));
    Ok(())
}

/// Merges each list that comes with an order, and sorts it in that order.
fn set_element_orders(
    context: Context<'_>,
    target: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    budget: &mut Budget,
) -> Result<(), StrategicError> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ELEMENT_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let name = directive[SET_ELEMENT_ORDER.len()..].to_owned();
        let order = list(patch.remove(&directive))?;
        let strategy = context.strategy(&name);
        let live = match target.get_mut(&name) {
            None => Vec::new(),
            Some(Value::Array(live)) => std::mem::take(live),
            Some(other) => return Err(StrategicError::not_a_list(other)),
        };
        let changes = list(patch.remove(&name))?;
        check_order(&strategy, &changes, &order)?;
        if live.is_empty() && changes.is_empty() {
            continue;
        }
        let before = places(&strategy, &live);
        let merged = merge_list(&strategy, live, changes, budget)?;
        let merged = in_order(&strategy, merged, &order, &before);
        target.insert(name, Value::Array(merged));
    }
    Ok(())
}

/// The items of a list; none if it is missing.
fn list(value: Option<Value>) -> Result<Vec<Value>, StrategicError> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(StrategicError::not_a_list(&other)),
    }
}

/// The items of the patch must all be in the order, in the same sequence.
fn check_order(strategy: &Strategy<'_>, patch: &[Value], order: &[Value]) -> Result<(), StrategicError> {
    let mut rest = order.iter();
    let changes = patch
        .iter()
        .filter(|item| item.get(DIRECTIVE).is_none_or(|directive| directive != "delete"));
    for item in changes.filter(|item| item.get(DIRECTIVE).is_none_or(|directive| directive != "replace")) {
        if !rest.any(|ordered| same(strategy, ordered, item)) {
            return Err(StrategicError::Order {
                patch: go_value(&Value::Array(patch.to_vec())),
                order: go_value(&Value::Array(order.to_vec())),
            });
        }
    }
    Ok(())
}

fn merge_list(
    strategy: &Strategy<'_>,
    live: Vec<Value>,
    patch: Vec<Value>,
    budget: &mut Budget,
) -> Result<Vec<Value>, StrategicError> {
    budget.pass(&live)?;
    same_types(&live, &patch)?;
    if !patch.iter().chain(&live).any(Value::is_object) {
        let merged = unique(live.iter().chain(&patch));
        return Ok(in_order(strategy, merged, &patch, &places(strategy, &live)));
    }
    let before = places(strategy, &live);
    let mut merged = live;
    let mut items = Vec::with_capacity(patch.len());
    let mut replace = false;
    let mut deleted = HashSet::new();
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            items.push(item);
            continue;
        };
        match directive.as_str() {
            Some("replace") => replace = true,
            Some("delete") => {
                merge_key(strategy, &item)?;
                deleted.extend(Identity::of(strategy, &item));
            }
            Some("merge") => return Err(StrategicError::MergeInList),
            _ => return Err(unknown_directive(directive, &item)),
        }
    }
    if replace {
        return Ok(items.into_iter().filter_map(without_directives).collect());
    }
    if !deleted.is_empty() {
        merged.retain(|live| Identity::of(strategy, live).is_none_or(|live| !deleted.contains(&live)));
    }
    let mut places = places(strategy, &merged);
    for item in &items {
        merge_key(strategy, item)?;
        let identity = Identity::of(strategy, item);
        let place = identity.as_ref().and_then(|identity| places.get(identity));
        match (place.map(|place| &mut merged[*place]), item.clone()) {
            (Some(Value::Object(live)), Value::Object(change)) => {
                merge_map(strategy.inner, live, change, budget)?
            }
            (_, item) => {
                if let (Some(identity), Some(item)) = (identity, without_directives(item)) {
                    places.entry(identity).or_insert(merged.len());
                    merged.push(item);
                }
            }
        }
    }
    Ok(in_order(strategy, merged, &items, &before))
}

/// The items of a list and its patch must all have the same type, and may not be lists.
fn same_types(live: &[Value], patch: &[Value]) -> Result<(), StrategicError> {
    let items = || live.iter().chain(patch);
    let text = |items: &[Value]| go_value(&Value::Array(items.to_vec()));
    match items().next() {
        Some(Value::Array(_)) => Err(StrategicError::ListOfLists),
        Some(first) if items().any(|item| go_type(item) != go_type(first)) => {
            Err(StrategicError::MixedItems {
                live: text(live),
                patch: text(patch),
            })
        }
        _ => Ok(()),
    }
}

/// The merged list: the patch's items in the patch's order, and each of the server's own items before the first item
/// of the patch that it preceded.
fn in_order(strategy: &Strategy<'_>, merged: Vec<Value>, order: &[Value], before: &Places) -> Vec<Value> {
    let order = places(strategy, order);
    let mut result = Vec::with_capacity(merged.len());
    let (mut wanted, mut own) = (Vec::new(), Vec::new());
    for item in merged {
        let identity = Identity::of(strategy, &item);
        let place = |places: &Places| places.get(identity.as_ref()?).copied();
        match (place(&order), place(before)) {
            (Some(ordered), stood) => wanted.push((ordered, stood, item)),
            (None, stood) => own.push((stood, item)),
        }
    }
    wanted.sort_by_key(|(ordered, ..)| *ordered);
    own.sort_by_key(|(stood, _)| *stood);
    let mut own = own.into_iter().peekable();
    for (_, stood, item) in wanted {
        let stood_before = |own: Option<usize>| matches!((own, stood), (Some(own), Some(item)) if own < item);
        while let Some((_, first)) = own.next_if(|(own, _)| stood_before(*own)) {
            result.push(first);
        }
        result.push(item);
    }
    result.extend(own.map(|(_, item)| item));
    result
}

/// The identity of a list item, as a hash key: lists can be as long as a body, and comparing all pairs of items would
/// then take minutes.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    /// The value of the merge key, if it is text.
    Text(String),
    /// The value of the merge key, if it is not text.
    Key(String),
    /// The whole item.
    Whole(String),
}

impl Identity {
    /// Equal for items that are the [`same`]; `None` for an item without its key, which equals no other.
    fn of(strategy: &Strategy<'_>, item: &Value) -> Option<Self> {
        match (strategy.merge_key, item) {
            (Some(key), Value::Object(fields)) => Some(match fields.get(key)? {
                Value::String(text) => Self::Text(text.clone()),
                other => Self::Key(other.to_string()),
            }),
            _ => Some(Self::Whole(item.to_string())),
        }
    }
}

/// The positions of a list's items.
type Places = HashMap<Identity, usize>;

/// The position of each item of a list; the first of several that are the same.
fn places(strategy: &Strategy<'_>, list: &[Value]) -> Places {
    let items = list.iter().enumerate().rev();
    let places = items.filter_map(|(place, item)| Some((Identity::of(strategy, item)?, place)));
    places.collect()
}

/// True if two items of a list have the same identity.
pub(crate) fn same(strategy: &Strategy<'_>, a: &Value, b: &Value) -> bool {
    match (strategy.merge_key, a, b) {
        (Some(key), Value::Object(a), Value::Object(b)) => a.get(key).is_some() && a.get(key) == b.get(key),
        _ => a == b,
    }
}

pub(crate) fn merge_key(strategy: &Strategy<'_>, item: &Value) -> Result<(), StrategicError> {
    let key = strategy.merge_key.unwrap_or_default();
    match item.get(key) {
        Some(_) => Ok(()),
        None => Err(StrategicError::NoMergeKey {
            item: go_value(item),
            key: key.to_owned(),
        }),
    }
}

/// Deletes scalars from a list; null deletes the list. Any other value changes nothing.
fn delete_from_list(
    target: &mut Map<String, Value>,
    name: &str,
    gone: Value,
    budget: &mut Budget,
) -> Result<(), StrategicError> {
    match (target.get_mut(name), gone) {
        (_, Value::Null) => {
            target.remove(name);
        }
        (Some(Value::Array(live)), Value::Array(gone)) => {
            budget.pass(live)?;
            same_types(live, &gone)?;
            let gone: HashSet<String> = gone.iter().map(Value::to_string).collect();
            live.retain(|item| !gone.contains(&item.to_string()));
        }
        _ => {}
    }
    Ok(())
}

fn unique<'a>(items: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    items
        .filter(|item| seen.insert(item.to_string()))
        .cloned()
        .collect()
}

/// A value that has nothing to merge with: directives and nulls are dropped. `None` for a map with `$patch`, whatever
/// it says.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(fields) => {
            if fields.contains_key(DIRECTIVE) {
                return None;
            }
            let kept = fields
                .into_iter()
                .filter(|(name, value)| !is_directive(name) && !value.is_null());
            let kept = kept.filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().filter_map(without_directives).collect()),
        scalar => scalar,
    })
}

fn is_directive(name: &str) -> bool {
    name == RETAIN_KEYS || name.starts_with(SET_ELEMENT_ORDER) || name.starts_with(DELETE_FROM_LIST)
}

fn unknown_directive(directive: &Value, map: &Value) -> StrategicError {
    StrategicError::UnknownDirective {
        directive: go_value(directive),
        map: go_value(map),
    }
}

#[cfg(test)]
mod tests;
