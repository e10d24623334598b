//! Tables: the columns of a kind and their cells.
//!
//! Each kind lists its [`Column`]s with their cells; common cells are in [`cells`], column descriptions in
//! [`descriptions`].

pub(crate) mod cells;
pub(crate) mod descriptions;
pub(crate) mod human;

use serde::Serialize;
use serde_json::{Value, json};
use watchkeeper_meta::Time;

use self::cells::{NONE, containers, or, selector, text_at};
use self::descriptions::Descriptions;

/// A column of a built-in kind's Table.
pub struct Column {
    /// The heading.
    pub(crate) name: &'static str,
    /// `string`, `integer`, `date`.
    pub(crate) kind: &'static str,
    /// `name` for the column that names the object.
    pub(crate) format: &'static str,
    /// 0 is always shown, more only in wide output.
    pub(crate) priority: i32,
    /// The cell of a row.
    pub(crate) cell: fn(&Row<'_>) -> Value,
}

/// A column as a Table lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Heading<'a> {
    /// The heading.
    pub name: &'a str,
    /// `string`, `integer`, `date`.
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// `name` for the column that names the object.
    pub format: &'a str,
    /// Its description.
    pub description: &'a str,
    /// 0 is always shown, more only in wide output.
    pub priority: i32,
}

/// The object of a row, and the current time.
pub(crate) struct Row<'v> {
    pub(crate) object: &'v Value,
    pub(crate) now: Time,
}

impl Column {
    /// The name of the object.
    pub(crate) const NAME: Self = Self::text("Name", |row| json!(row.text("/metadata/name"))).naming();

    /// The age of the object.
    pub(crate) const AGE: Self = Self::text("Age", |row| row.age("/metadata/creationTimestamp"));

    /// The creation time of the object.
    pub(crate) const CREATED_AT: Self = Self::of("date", "Created At", |row| {
        json!(row.text("/metadata/creationTimestamp"))
    });

    /// The names of the containers of the pod template.
    pub(crate) const CONTAINERS: Self = Self::text("Containers", |row| {
        json!(containers(row.object, "/spec/template/spec", "name"))
    })
    .wide();

    /// The images of the containers of the pod template.
    pub(crate) const IMAGES: Self = Self::text("Images", |row| {
        json!(containers(row.object, "/spec/template/spec", "image"))
    })
    .wide();

    /// The label selector of a workload.
    pub(crate) const SELECTOR: Self =
        Self::text("Selector", |row| json!(selector(row.at("/spec/selector")))).wide();

    pub(crate) const fn text(name: &'static str, cell: fn(&Row<'_>) -> Value) -> Self {
        Self::of("string", name, cell)
    }

    pub(crate) const fn integer(name: &'static str, cell: fn(&Row<'_>) -> Value) -> Self {
        Self::of("integer", name, cell)
    }

    pub(crate) const fn boolean(name: &'static str, cell: fn(&Row<'_>) -> Value) -> Self {
        Self::of("boolean", name, cell)
    }

    const fn of(kind: &'static str, name: &'static str, cell: fn(&Row<'_>) -> Value) -> Self {
        Self {
            name,
            kind,
            format: "",
            priority: 0,
            cell,
        }
    }

    /// Marks the column that names the object.
    pub(crate) const fn naming(self) -> Self {
        Self {
            format: "name",
            ..self
        }
    }

    /// Only in wide output.
    pub(crate) const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }
}

impl Row<'_> {
    /// The value at a JSON pointer; null if missing.
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.object.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The text at a JSON pointer; empty if missing.
    pub(crate) fn text(&self, pointer: &str) -> String {
        text_at(self.object, pointer)
    }

    pub(crate) fn text_or(&self, pointer: &str, otherwise: &str) -> Value {
        json!(or(self.text(pointer), otherwise))
    }

    pub(crate) fn text_or_none(&self, pointer: &str) -> Value {
        self.text_or(pointer, NONE)
    }

    /// A number; 0 if missing.
    pub(crate) fn count(&self, pointer: &str) -> Value {
        json!(self.at(pointer).as_i64().unwrap_or_default())
    }

    /// The length of a list.
    pub(crate) fn len(&self, pointer: &str) -> Value {
        json!(self.at(pointer).as_array().map_or(0, Vec::len))
    }

    /// A boolean; false if missing.
    pub(crate) fn is(&self, pointer: &str) -> Value {
        json!(self.at(pointer).as_bool().unwrap_or_default())
    }

    /// The time since a timestamp.
    pub(crate) fn age(&self, pointer: &str) -> Value {
        json!(human::age(self.at(pointer).as_str(), self.now))
    }
}

/// The columns of a Scale, which has no resource of its own.
const SCALE: &[Column] = &[
    Column::text("Name", |row| json!(row.text("/metadata/name"))),
    Column::integer("Desired", |row| row.count("/spec/replicas")),
    Column::integer("Available", |row| row.count("/status/replicas")),
    Column::AGE,
];

/// The columns of a Scale.
pub fn scale_headings() -> Vec<Heading<'static>> {
    let described = Descriptions::of("scales.autoscaling");
    SCALE.iter().map(|column| heading(column, described)).collect()
}

/// The cells of a Scale.
pub fn scale_cells(scale: &Value, now: Time) -> Vec<Value> {
    let row = Row { object: scale, now };
    SCALE.iter().map(|column| (column.cell)(&row)).collect()
}

/// A column as a Table lists it.
pub(crate) fn heading(column: &'static Column, described: Descriptions) -> Heading<'static> {
    Heading {
        name: column.name,
        kind: column.kind,
        format: column.format,
        description: described.column(column.name),
        priority: column.priority,
    }
}
