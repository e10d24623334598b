//! The difference between two states of a value.
//!
//! A write changes little of an object. Canonicalization, defaulting and field management all need to know what
//! changed. Both states are walked once, side by side, without a schema; the users then visit only the changes.

use serde_json::{Map, Value};

/// Up to this many changed members are searched linearly.
const FEW_MEMBERS: usize = 8;

/// The difference between an old and a new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// They are equal.
    Nowhere,
    /// Some members of an object differ.
    Members {
        /// The members that are new or differ, in order.
        changed: Vec<(String, Difference)>,
        /// True if members were removed.
        gone: bool,
    },
    /// A list: the difference of each item from the one at its index.
    Items(Vec<Difference>),
    /// The whole value: it is new, or the two cannot be compared part by part.
    Everywhere,
}

impl Difference {
    /// The difference between `old` and `new`.
    ///
    /// ```
    /// use serde_json::json;
    /// use watchkeeper_wire::difference::Difference;
    ///
    /// let difference = Difference::between(&json!({"a": 1, "b": [2]}), &json!({"a": 1, "b": [2, 3]}));
    /// assert_eq!(*difference.member("a"), Difference::Nowhere);
    /// assert_eq!(*difference.member("b").item(1), Difference::Everywhere);
    /// ```
    pub fn between(old: &Value, new: &Value) -> Self {
        Self::found(old, new).unwrap_or(Self::Nowhere)
    }

    fn found(old: &Value, new: &Value) -> Option<Self> {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => Self::in_members(old, new),
            (Value::Array(old), Value::Array(new)) => Self::in_items(old, new),
            (old, new) => (!is_same_leaf(old, new)).then_some(Self::Everywhere),
        }
    }

    fn in_members(old: &Map<String, Value>, new: &Map<String, Value>) -> Option<Self> {
        let (mut changed, mut gone) = (Vec::new(), false);
        let mut before = old.iter();
        let mut known = before.next();
        for (name, value) in new {
            // Nearly all names are equal; only others are compared for order.
            while let Some((other, _)) = known
                && other != name
                && other < name
            {
                gone = true;
                known = before.next();
            }
            let below = match known {
                Some((other, old)) if other == name => {
                    known = before.next();
                    if is_same_leaf(old, value) {
                        continue;
                    }
                    Self::found(old, value)
                }
                _ => Some(Self::Everywhere),
            };
            if let Some(below) = below {
                changed.push((name.clone(), below));
            }
        }
        gone |= known.is_some();
        (gone || !changed.is_empty()).then_some(Self::Members { changed, gone })
    }

    fn in_items(old: &[Value], new: &[Value]) -> Option<Self> {
        let mut pairs = old.iter().zip(new);
        let (mut same, mut first) = (0, None);
        // No list is allocated if nothing changed.
        for (old, new) in pairs.by_ref() {
            first = Self::found(old, new);
            if first.is_some() {
                break;
            }
            same += 1;
        }
        if first.is_none() && old.len() == new.len() {
            return None;
        }
        let mut items = Vec::with_capacity(new.len());
        items.resize(same, Self::Nowhere);
        items.extend(first);
        items.extend(pairs.map(|(old, new)| Self::between(old, new)));
        items.resize(new.len(), Self::Everywhere);
        Some(Self::Items(items))
    }

    /// True if the values are equal.
    pub fn is_nowhere(&self) -> bool {
        matches!(self, Self::Nowhere)
    }

    /// True if two values still differ. They may have changed again since this was computed, but only where they
    /// differed.
    pub fn persists(&self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (self, old, new) {
            (Self::Nowhere, ..) => false,
            (Self::Members { changed, gone: false }, Some(Value::Object(old)), Some(Value::Object(new))) => {
                let mut changed = changed.iter();
                changed.any(|(name, below)| below.persists(old.get(name), new.get(name)))
            }
            (Self::Items(items), Some(Value::Array(old)), Some(Value::Array(new)))
                if old.len() == new.len() && new.len() == items.len() =>
            {
                let mut items = items.iter().enumerate();
                items.any(|(index, below)| below.persists(old.get(index), new.get(index)))
            }
            (_, old, new) => old != new,
        }
    }

    /// The difference of a member of the new object.
    pub fn member(&self, name: &str) -> &Self {
        match self {
            Self::Members { changed, .. } => {
                // Nearly all writes change few members; then a linear search is faster.
                let place = match changed.len() {
                    0..=FEW_MEMBERS => changed.iter().position(|(member, _)| member == name),
                    _ => changed
                        .binary_search_by(|(member, _)| member.as_str().cmp(name))
                        .ok(),
                };
                place.map_or(&Self::Nowhere, |place| &changed[place].1)
            }
            Self::Nowhere => &Self::Nowhere,
            Self::Items(_) | Self::Everywhere => &Self::Everywhere,
        }
    }

    /// The difference of an item of the new list.
    pub fn item(&self, index: usize) -> &Self {
        match self {
            Self::Items(items) => items.get(index).unwrap_or(&Self::Everywhere),
            Self::Nowhere => &Self::Nowhere,
            Self::Members { .. } | Self::Everywhere => &Self::Everywhere,
        }
    }
}

/// True if two values are equal scalars.
fn is_same_leaf(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::String(old), Value::String(new)) => old == new,
        (Value::Number(old), Value::Number(new)) => old == new,
        (Value::Bool(old), Value::Bool(new)) => old == new,
        (Value::Null, Value::Null) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_found_among_few_and_among_many() {
        for count in [1, FEW_MEMBERS, FEW_MEMBERS + 1, 100] {
            let object = |from: usize| -> Value {
                let members = (0..count).map(|index| (format!("k{index}"), json!(from + index)));
                Value::Object(members.collect())
            };
            let difference = Difference::between(&object(0), &object(1));
            for index in 0..count {
                assert_eq!(*difference.member(&format!("k{index}")), Difference::Everywhere);
            }
            assert_eq!(*difference.member("other"), Difference::Nowhere);
        }
    }

    #[test]
    fn differences_are_found_where_they_are() {
        use Difference::{Everywhere, Items, Nowhere};
        let members = |changed: &[(&str, Difference)], gone| Difference::Members {
            changed: changed
                .iter()
                .map(|(name, below)| ((*name).to_owned(), below.clone()))
                .collect(),
            gone,
        };
        let check = |old: Value, new: Value, wanted: Difference| {
            assert_eq!(Difference::between(&old, &new), wanted, "{old} {new}");
        };
        check(json!(1), json!(1), Nowhere);
        check(json!(1), json!("1"), Everywhere);
        check(json!({"a": 1, "c": [1]}), json!({"a": 1, "c": [1]}), Nowhere);
        check(json!({}), json!({"a": 1}), members(&[("a", Everywhere)], false));
        check(json!({"a": 1}), json!({}), members(&[], true));
        check(
            json!({"a": 1, "b": {"x": 1}, "d": 1}),
            json!({"b": {"x": 2}, "c": 1, "d": 1}),
            members(
                &[("b", members(&[("x", Everywhere)], false)), ("c", Everywhere)],
                true,
            ),
        );
        check(
            json!([1, 2, 3]),
            json!([1, 4, 3]),
            Items(vec![Nowhere, Everywhere, Nowhere]),
        );
        check(json!([1]), json!([1, 2]), Items(vec![Nowhere, Everywhere]));
        check(json!([1, 2]), json!([1]), Items(vec![Nowhere]));
        check(json!([]), json!({}), Everywhere);
    }

    #[test]
    fn differences_last_until_they_are_undone() {
        let check = |old: Value, new: Value, later: Value, persists: bool| {
            let found = Difference::between(&old, &new).persists(Some(&old), Some(&later));
            assert_eq!(found, persists, "{old} {new} {later}");
        };
        let old = json!({"a": {"x": 1, "y": [1, 2]}, "b": 1});
        check(old.clone(), old.clone(), old.clone(), false);
        let new = json!({"a": {"x": 1, "y": [1, 3]}, "b": 1});
        check(old.clone(), new.clone(), new.clone(), true);
        check(old.clone(), new.clone(), old.clone(), false);
        check(old.clone(), new, json!({"a": {"x": 1, "y": [1]}, "b": 1}), true);
        check(old.clone(), json!({"b": 1}), old.clone(), false);
        check(
            old.clone(),
            json!({"a": 1, "b": 1, "c": null}),
            old.clone(),
            false,
        );
        check(
            old,
            json!({"a": 1, "b": 1, "c": null}),
            json!({"a": 1, "b": 1}),
            true,
        );
    }

    #[test]
    fn what_was_not_compared_differs() {
        let (nowhere, everywhere) = (Difference::Nowhere, Difference::Everywhere);
        assert_eq!(everywhere.member("a").item(3), &everywhere);
        assert_eq!(nowhere.member("a").item(3), &nowhere);
    }
}
