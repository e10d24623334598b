//! Carries the changes of a handler over to the object as sent.
//!
//! A struct may lack fields of the object, and may serialize defaults nobody set. The object as sent is therefore not
//! compared with the returned struct. The struct before and after the handler are compared, and only their difference
//! is applied to the object:
//!
//! ```text
//! sent      {"a": 1, "unknown": 2}
//! before    {"a": 1, "list": []}
//! after     {"a": 3, "list": []}
//! changed   {"a": 3, "unknown": 2}
//! ```

use serde_json::{Map, Value};

/// The object as sent, with the difference between `before` and `after` applied.
pub(super) fn changed(sent: &Value, before: &Value, after: &Value) -> Value {
    match (sent, before, after) {
        _ if before == after => sent.clone(),
        (Value::Object(sent), Value::Object(before), Value::Object(after)) => {
            Value::Object(changed_members(sent, before, after))
        }
        (Value::Array(sent), Value::Array(before), Value::Array(after)) if sent.len() == before.len() => {
            Value::Array(changed_items(sent, before, after))
        }
        _ => after.clone(),
    }
}

fn changed_members(
    sent: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut members = sent.clone();
    members.retain(|name, _| after.contains_key(name) || !before.contains_key(name));
    for (name, after) in after {
        let value = match (sent.get(name), before.get(name)) {
            (_, Some(before)) if before == after => continue,
            (Some(sent), Some(before)) => changed(sent, before, after),
            _ => after.clone(),
        };
        members.insert(name.clone(), value);
    }
    members
}

/// Each item is matched with the one it was before: an equal one, one of the same name, or else the one at its index
/// if the list has the same length.
fn changed_items(sent: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let mut free: Vec<usize> = (0..before.len()).collect();
    let mut take = |is_origin: &dyn Fn(usize) -> bool| {
        let at = free.iter().position(|index| is_origin(*index))?;
        Some(free.remove(at))
    };
    let mut origins: Vec<Option<usize>> = after
        .iter()
        .map(|item| take(&|index| before[index] == *item))
        .collect();
    let has_same_length = before.len() == after.len();
    for (place, item) in after.iter().enumerate() {
        let name = item.get("name");
        origins[place] = origins[place]
            .or_else(|| take(&|index| name.is_some() && before[index].get("name") == name))
            .or_else(|| take(&|index| has_same_length && name.is_none() && index == place));
    }
    let item = |(item, origin): (&Value, Option<usize>)| match origin {
        Some(index) => changed(&sent[index], &before[index], item),
        None => item.clone(),
    };
    after.iter().zip(origins).map(item).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(sent: Value, before: Value, after: Value, expected: Value) {
        assert_eq!(changed(&sent, &before, &after), expected);
    }

    #[test]
    fn what_the_struct_does_not_know_stays() {
        check(
            json!({"a": 1, "unknown": 2, "nested": {"b": 1, "unknown": 3}}),
            json!({"a": 1, "list": [], "nested": {"b": 1}}),
            json!({"a": 4, "list": [], "nested": {"b": 5}}),
            json!({"a": 4, "unknown": 2, "nested": {"b": 5, "unknown": 3}}),
        );
    }

    #[test]
    fn what_is_taken_away_goes() {
        check(
            json!({"a": 1, "b": 2}),
            json!({"a": 1, "b": 2}),
            json!({"b": 2}),
            json!({"b": 2}),
        );
    }

    #[test]
    fn a_default_that_nobody_sent_is_written_when_it_changes() {
        check(
            json!({}),
            json!({"list": [], "same": 0}),
            json!({"list": [1], "same": 0}),
            json!({"list": [1]}),
        );
    }

    #[test]
    fn items_keep_what_the_struct_does_not_know_wherever_they_go() {
        let sent = json!([{"name": "a", "x": 1, "unknown": 1}, {"name": "b", "x": 2, "unknown": 2}]);
        let before = json!([{"name": "a", "x": 1}, {"name": "b", "x": 2}]);
        check(
            sent.clone(),
            before.clone(),
            json!([{"name": "new", "x": 0}, {"name": "b", "x": 2}, {"name": "a", "x": 9}]),
            json!([{"name": "new", "x": 0}, {"name": "b", "x": 2, "unknown": 2}, {"name": "a", "x": 9, "unknown": 1}]),
        );
        check(
            sent,
            before,
            json!([{"name": "b", "x": 2}]),
            json!([{"name": "b", "x": 2, "unknown": 2}]),
        );
        check(
            json!([{"x": 1, "unknown": 1}]),
            json!([{"x": 1}]),
            json!([{"x": 2}]),
            json!([{"x": 2, "unknown": 1}]),
        );
    }
}
