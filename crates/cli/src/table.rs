//! Aligned tables of objects, as text.
//!
//! `Table` documents go in page by page, or plain objects from a server without tables; lines come out. Rows are
//! collected until they are printed, so that the pages of one list are aligned together, as in kubectl; only the line
//! of each object is kept. Widths only grow, so rows added by a watch keep the columns.

use std::io::{self, Write};

use serde::Deserialize;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use crate::age;

/// As in kubectl: the minimum width of a column; three spaces separate two.
const MIN_WIDTH: usize = 6;
const PADDING: usize = 3;

/// One page of a table.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Table {
    pub(crate) metadata: TableMetadata,
    /// A watch states them once; later tables have none.
    #[serde(rename = "columnDefinitions", deserialize_with = "null_as_empty")]
    columns: Vec<Column>,
    #[serde(deserialize_with = "null_as_empty")]
    pub(crate) rows: Vec<Row>,
}

/// The metadata of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TableMetadata {
    pub(crate) resource_version: String,
    #[serde(rename = "continue")]
    pub(crate) continue_token: String,
    /// The number of objects after this page; servers do not state it with selectors.
    pub(crate) remaining_item_count: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Column {
    name: String,
    /// Only columns of priority 0 are shown by default.
    priority: i32,
}

/// One object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Row {
    #[serde(deserialize_with = "null_as_empty")]
    cells: Vec<Value>,
    pub(crate) object: Value,
}

/// The columns of a table besides the server's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) wide: bool,
    pub(crate) no_headers: bool,
    pub(crate) show_namespace: bool,
    pub(crate) show_labels: bool,
    /// Labels that have a column.
    pub(crate) label_columns: Vec<String>,
    /// The prefix of names if several kinds are shown: `service/`.
    pub(crate) name_prefix: String,
    /// A first column for watches: `EVENT`.
    pub(crate) show_event: bool,
}

/// Prints pages of one table.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    layout: Layout,
    columns: Vec<Column>,
    /// Collected and not yet printed.
    lines: Vec<Vec<String>>,
    widths: Vec<usize>,
    has_header: bool,
}

impl Table {
    /// A table, made from other documents if necessary.
    pub(crate) fn from_value(document: Value) -> Result<Self, serde_json::Error> {
        if document["kind"] == "Table" {
            return serde_json::from_value(document);
        }
        let Value::Object(mut document) = document else {
            return Ok(Self::default());
        };
        let items = match document.remove("items") {
            Some(Value::Array(items)) => items,
            Some(_) => Vec::new(),
            None => return Ok(Self::of_objects(vec![Value::Object(document)])),
        };
        let mut table = Self::of_objects(items);
        if let Some(metadata) = document.remove("metadata") {
            table.metadata = serde_json::from_value(metadata)?;
        }
        Ok(table)
    }

    /// The pages of one list as one table.
    pub(crate) fn joined(pages: Vec<Self>) -> Option<Self> {
        let mut pages = pages.into_iter();
        let mut first = pages.next()?;
        first.rows.extend(pages.flat_map(|page| page.rows));
        Some(first)
    }

    /// A table of any objects: name and age.
    fn of_objects(objects: Vec<Value>) -> Self {
        let column = |name: &str| Column {
            name: name.to_owned(),
            priority: 0,
        };
        let now = age::now();
        let row = |object: Value| {
            let created = object["metadata"]["creationTimestamp"].as_str();
            let age = age::since(created.and_then(|text| text.parse().ok()), now);
            let cells = vec![object["metadata"]["name"].clone(), age.into()];
            Row { cells, object }
        };
        Self {
            columns: vec![column("Name"), column("Age")],
            rows: objects.into_iter().map(row).collect(),
            ..Default::default()
        }
    }
}

impl Printer {
    pub(crate) fn new(layout: Layout) -> Self {
        // The longest word is rarely among the first.
        let widths = match layout.show_event {
            true => vec!["MODIFIED".len() + PADDING],
            false => Vec::new(),
        };
        Self {
            layout,
            widths,
            ..Default::default()
        }
    }

    /// Adds a page. The header comes with the first row; `event` is the first column, if there is one.
    pub(crate) fn gather(&mut self, table: &Table, event: &str) {
        if !table.columns.is_empty() {
            self.columns.clone_from(&table.columns);
        }
        if !self.has_header && !self.layout.no_headers && !table.rows.is_empty() {
            self.lines.push(self.header());
        }
        self.has_header |= !table.rows.is_empty();
        for row in &table.rows {
            self.lines.push(self.row(row, event));
        }
    }

    /// True if there is nothing to print.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Prints the collected rows, aligned.
    pub(crate) fn print(&mut self, out: &mut impl Write) -> io::Result<()> {
        print_aligned(&std::mem::take(&mut self.lines), &mut self.widths, out)
    }

    fn header(&self) -> Vec<String> {
        let mut header = Vec::new();
        let own = [
            (self.layout.show_event, "EVENT"),
            (self.layout.show_namespace, "NAMESPACE"),
        ];
        header.extend(
            own.iter()
                .filter(|(shown, _)| *shown)
                .map(|(_, name)| (*name).to_owned()),
        );
        header.extend(self.shown().map(|(_, column)| column.name.to_uppercase()));
        // Only the part after the domain: `app.kubernetes.io/name` is `NAME`.
        let labels = self.layout.label_columns.iter();
        header.extend(labels.map(|key| key.rsplit('/').next().unwrap_or(key).to_uppercase()));
        if self.layout.show_labels {
            header.push("LABELS".to_owned());
        }
        header
    }

    fn row(&self, row: &Row, event: &str) -> Vec<String> {
        let mut cells = Vec::new();
        let metadata = &row.object["metadata"];
        if self.layout.show_event {
            cells.push(event.to_owned());
        }
        if self.layout.show_namespace {
            cells.push(text(&metadata["namespace"]));
        }
        for (index, column) in self.shown() {
            let cell = row.cells.get(index).map(text).unwrap_or_default();
            let is_name = column.name == "Name" && !self.layout.name_prefix.is_empty();
            cells.push(match is_name {
                true => format!("{}{cell}", self.layout.name_prefix),
                false => cell,
            });
        }
        let wanted = self.layout.label_columns.iter();
        cells.extend(wanted.map(|key| text(&metadata["labels"][key.as_str()])));
        if self.layout.show_labels {
            cells.push(labels(&metadata["labels"]));
        }
        cells
    }

    fn shown(&self) -> impl Iterator<Item = (usize, &Column)> {
        let wide = self.layout.wide;
        self.columns
            .iter()
            .enumerate()
            .filter(move |(_, column)| wide || column.priority == 0)
    }
}

/// Prints lines in columns at least as wide as the given ones, which grow. The last cell of a line is not padded.
pub(crate) fn print_aligned(
    lines: &[Vec<String>],
    widths: &mut Vec<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    for line in lines {
        widths.resize(widths.len().max(line.len()), MIN_WIDTH);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.width() + PADDING);
        }
    }
    for line in lines {
        let Some((last, cells)) = line.split_last() else {
            continue;
        };
        for (cell, width) in cells.iter().zip(widths.iter()) {
            write!(out, "{cell}{:blanks$}", "", blanks = width - cell.width())?;
        }
        writeln!(out, "{last}")?;
    }
    Ok(())
}

/// A cell on one line.
fn text(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => match text.split_once('\n') {
            Some((first, _)) => format!("{first}..."),
            None => text.replace(['\t', '\r', '\u{1b}'], " "),
        },
        other => other.to_string(),
    }
}

fn labels(labels: &Value) -> String {
    match labels.as_object() {
        Some(labels) if !labels.is_empty() => {
            let pairs = labels.iter().map(|(key, value)| format!("{key}={}", text(value)));
            pairs.collect::<Vec<_>>().join(",")
        }
        _ => "<none>".to_owned(),
    }
}

fn null_as_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::json;

    fn check(layout: Layout, pages: Vec<Value>, expected: Expect) {
        let mut printer = Printer::new(layout);
        let mut out = Vec::new();
        for page in pages {
            printer.gather(&Table::from_value(page).unwrap(), "ADDED");
        }
        printer.print(&mut out).unwrap();
        expected.assert_eq(&String::from_utf8(out).unwrap());
    }

    fn page(names: &[&str]) -> Value {
        let row = |name: &&str| {
            json!({
                "cells": [name, 1, "a\nb"],
                "object": {"metadata": {"name": name, "namespace": "shop", "labels": {"app": "web", "b": "c"}}},
            })
        };
        json!({
            "kind": "Table",
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "Count", "priority": 0}, {"name": "More", "priority": 1},
            ],
            "rows": names.iter().map(row).collect::<Vec<_>>(),
        })
    }

    #[test]
    fn columns_are_aligned_across_pages() {
        check(
            Layout::default(),
            vec![page(&["a"]), page(&["a-long-name"]), page(&["b"])],
            expect![[r#"
                NAME          COUNT
                a             1
                a-long-name   1
                b             1
            "#]],
        );
    }

    #[test]
    fn widths_are_remembered_from_what_was_printed() {
        let mut printer = Printer::new(Layout::default());
        let mut out = Vec::new();
        for names in [["a"], ["a-long-name"], ["b"]] {
            printer.gather(&Table::from_value(page(&names)).unwrap(), "");
            printer.print(&mut out).unwrap();
        }
        let expected = expect![[r#"
            NAME   COUNT
            a      1
            a-long-name   1
            b             1
        "#]];
        expected.assert_eq(&String::from_utf8(out).unwrap());
    }

    #[test]
    fn wide_characters_take_two_columns() {
        check(
            Layout {
                wide: true,
                ..Default::default()
            },
            vec![page(&["节点", "abcd"])],
            expect![[r#"
                NAME   COUNT   MORE
                节点   1       a...
                abcd   1       a...
            "#]],
        );
    }

    #[test]
    fn further_columns_come_where_they_belong() {
        check(
            Layout {
                show_namespace: true,
                show_labels: true,
                label_columns: vec!["app".into(), "example.com/none".into()],
                show_event: true,
                name_prefix: "pod/".into(),
                ..Default::default()
            },
            vec![page(&["a"])],
            expect![[r#"
                EVENT      NAMESPACE   NAME    COUNT   APP   NONE   LABELS
                ADDED      shop        pod/a   1       web          app=web,b=c
            "#]],
        );
    }

    #[test]
    fn plain_objects_have_a_name_and_an_age() {
        check(
            Layout::default(),
            vec![json!({"kind": "List", "items": [{"metadata": {"name": "a"}}]})],
            expect![[r#"
                NAME   AGE
                a      <unknown>
            "#]],
        );
    }
}
