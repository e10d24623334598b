//! `--sort-by`: the order of objects by one of their fields, as in kubectl.
//!
//! Numbers and quantities are ordered by size, other texts by their bytes: `pod-10` is before `pod-9`. Objects without
//! the field are first.

use std::cmp::Ordering;

use serde_json::Value;
use watchkeeper_wire::values::Quantity;

use crate::failure::Failure;
use crate::json_path::{Path, plain};
use crate::table::Table;

/// The field to sort by.
#[derive(Clone, Debug)]
pub(crate) struct SortKey {
    path: Path,
    /// As it was typed, without braces.
    typed: String,
}

impl SortKey {
    /// Parses `.metadata.name`, also in braces.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_start_matches('{').trim_end_matches('}');
        match text.is_empty() {
            true => Err("name a field, as in .metadata.name".to_owned()),
            false => Ok(Self {
                path: Path::parse(text)?,
                typed: text.to_owned(),
            }),
        }
    }

    /// Refuses a field that no object has: it is probably misspelt.
    pub(crate) fn check<'a>(&self, mut objects: impl Iterator<Item = &'a Value>) -> Result<(), Failure> {
        let Some(first) = objects.next() else {
            return Ok(());
        };
        let is_set = |object: &Value| !self.path.find(object).is_empty();
        match is_set(first) || objects.any(is_set) {
            true => Ok(()),
            false => Err(Failure::text(format!(
                "couldn't find any field with path \"{{{}}}\" in the list of objects",
                self.typed
            ))),
        }
    }

    /// The order of two objects.
    pub(crate) fn compare(&self, left: &Value, right: &Value) -> Ordering {
        match (self.path.find(left).first(), self.path.find(right).first()) {
            (Some(left), Some(right)) => order(left, right),
            (left, right) => left.is_some().cmp(&right.is_some()),
        }
    }

    /// The table with its rows in order.
    pub(crate) fn sorted(&self, mut table: Table) -> Table {
        table
            .rows
            .sort_by(|left, right| self.compare(&left.object, &right.object));
        table
    }
}

fn order(left: &Value, right: &Value) -> Ordering {
    if let (Some(left), Some(right)) = (left.as_f64(), right.as_f64()) {
        return left.total_cmp(&right);
    }
    let (left, right) = (plain(left), plain(right));
    match (left.parse::<Quantity>(), right.parse::<Quantity>()) {
        (Ok(left), Ok(right)) => left.cmp(&right),
        _ => left.cmp(&right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_ordered_by_bytes_and_quantities_by_size() {
        let check = |before: Value, after: Value| {
            assert_eq!(order(&before, &after), Ordering::Less, "{before} {after}");
            assert_eq!(order(&after, &before), Ordering::Greater, "{after} {before}");
        };
        check(json!("pod-10"), json!("pod-9"));
        check(json!("a"), json!("b"));
        check(json!("pod"), json!("pod-1"));
        check(json!(9), json!(10));
        check(json!("500m"), json!("2"));
        check(json!("1Mi"), json!("1Gi"));
    }

    #[test]
    fn objects_without_the_field_are_first() {
        let key = SortKey::parse("{.spec.n}").unwrap();
        assert_eq!(
            key.compare(&json!({}), &json!({"spec": {"n": 1}})),
            Ordering::Less
        );
        assert_eq!(key.compare(&json!({}), &json!({})), Ordering::Equal);
    }
}
