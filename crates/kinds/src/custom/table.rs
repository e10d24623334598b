//! The printer columns of a definition, and their cells.
//!
//! A short definition can have many columns, and many of them can show the same large value. So a row has limits: on the
//! values that its paths pass, and on its texts. Cells beyond them are empty.

use serde_json::{Value, json};
use watchkeeper_meta::Time;

use watchkeeper_wire::tree_size::text_size;

use super::json_path::{Budget, JsonPath, MAX_VALUES};
use crate::table::human::age;

/// The number of columns that are shown.
pub(crate) const MAX_COLUMNS: usize = 256;

/// The number of values that the paths of one row may pass.
const MAX_ROW_VALUES: usize = 10 * MAX_VALUES;

/// The texts of a row may have this many bytes, and twice those of its object.
const ROW_BYTES: usize = 16 << 10;

/// What the cells of a row may still take.
struct Room {
    values: usize,
    bytes: usize,
}

impl Room {
    fn of(object: &Value) -> Self {
        Self {
            values: MAX_ROW_VALUES,
            bytes: ROW_BYTES + 2 * text_size(object),
        }
    }

    fn find<'v>(&mut self, path: &JsonPath, object: &'v Value) -> Vec<&'v Value> {
        let budget = Budget::new(self.values.min(MAX_VALUES));
        let before = budget.left();
        let found = path.find_within(object, &budget);
        self.values -= before - budget.left();
        found
    }

    /// The values as one text; `None` if it is too long. Nothing is left then.
    fn join(&mut self, values: &[&Value]) -> Option<String> {
        let room = std::mem::take(&mut self.bytes);
        if room == 0 {
            return None;
        }
        let mut joined = String::new();
        for (index, value) in values.iter().enumerate() {
            joined.push_str(if index > 0 { "," } else { "" });
            match value {
                Value::String(text) => joined.push_str(text),
                Value::Null => {}
                other => joined.push_str(&other.to_string()),
            }
            // What is left of the room is checked before the next value is printed.
            room.checked_sub(joined.len())?;
        }
        self.bytes = room - joined.len();
        Some(joined)
    }
}

/// The cells of an object.
pub(crate) fn cells(columns: &[Column], object: &Value, now: Time) -> Vec<Value> {
    let mut room = Room::of(object);
    columns
        .iter()
        .map(|column| column.cell(object, now, &mut room))
        .collect()
}

/// A column of a custom kind's Table.
#[derive(Debug)]
pub(crate) struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `date`.
    pub kind: String,
    /// The format for clients.
    pub format: String,
    /// 0 is always shown, more only in wide output.
    pub priority: i32,
    /// The description in the definition.
    pub description: Option<String>,
    path: JsonPath,
}

impl Column {
    /// A column of a definition.
    pub(crate) fn read(stated: &Value) -> Option<Self> {
        let text = |name: &str| stated[name].as_str().unwrap_or_default().to_owned();
        let description = match text("description") {
            text if text.is_empty() => format!(
                "Custom resource definition column (in JSONPath format): {}",
                stated["jsonPath"].as_str().unwrap_or_default()
            ),
            text => text,
        };
        Some(Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            priority: stated["priority"].as_i64().unwrap_or_default() as i32,
            description: Some(description),
            path: JsonPath::parse(stated["jsonPath"].as_str()?)?,
        })
    }

    /// The default column of a kind without columns.
    pub(crate) fn age() -> Self {
        Self {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            priority: 0,
            description: None,
            path: JsonPath::parse(".metadata.creationTimestamp").unwrap_or_else(|| unreachable!("a path")),
        }
    }

    fn cell(&self, object: &Value, now: Time, room: &mut Room) -> Value {
        let found = room.find(&self.path, object);
        let Some(first) = found.first() else {
            return Value::Null;
        };
        match &*self.kind {
            "integer" => match first
                .as_i64()
                .or_else(|| first.as_f64().map(|number| number as i64))
            {
                Some(number) => json!(number),
                None => Value::Null,
            },
            "number" | "boolean" => match first {
                Value::Number(_) | Value::Bool(_) => (*first).clone(),
                _ => Value::Null,
            },
            "date" => match first.as_str() {
                Some(text) => json!(age(Some(text), now)),
                None => json!("<unknown>"),
            },
            _ => room.join(&found).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(paths: &[&str]) -> Vec<Column> {
        let columns = paths
            .iter()
            .map(|path| json!({"name": "a", "type": "string", "jsonPath": path}));
        columns.map(|column| Column::read(&column).unwrap()).collect()
    }

    fn row(paths: &[&str], object: &Value) -> Vec<Value> {
        cells(&columns(paths), object, Time::from_seconds(0))
    }

    #[test]
    fn texts_are_shown_as_they_are_and_other_values_as_json() {
        let object = json!({"a": "x", "b": [1, null, "y"], "c": null});
        let shown = row(&[".a", ".b", ".b[*]", ".c", ".d"], &object);
        assert_eq!(
            shown,
            [
                json!("x"),
                json!(r#"[1,null,"y"]"#),
                json!("1,,y"),
                json!(""),
                json!(null)
            ]
        );
    }

    #[test]
    fn a_row_shows_a_large_value_a_few_times() {
        let object = json!({"a": "x".repeat(100_000)});
        let shown = row(&[".a"; 5], &object);
        assert!(shown[..2].iter().all(Value::is_string));
        assert_eq!(shown[2..], [json!(null), json!(null), json!(null)]);
        let many_times = format!(".l[{}0]", "0,".repeat(2_000));
        let object = json!({"l": [object["a"]]});
        assert_eq!(row(&[&many_times], &object), [json!(null)]);
        // The list with the large value is in the first cell at each of its levels.
        let deep = (0..100).fold(object, |inner, _| json!([inner]));
        assert_eq!(row(&["..*"], &json!({"l": deep})), [json!(null)]);
    }

    #[test]
    fn the_paths_of_a_row_pass_a_limited_number_of_values() {
        let mut items = vec![json!(0); 4_000];
        items.push(json!(1));
        let shown = row(&[".l[?(@>0)]"; 30], &json!({"l": items}));
        let (found, others) = shown.split_at(MAX_ROW_VALUES / 4_003);
        assert!(found.iter().all(|cell| cell == "1"), "{found:?}");
        assert!(others.iter().all(Value::is_null), "{others:?}");
    }
}
