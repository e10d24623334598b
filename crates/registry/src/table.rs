//! Tables: the rows that `kubectl get` prints.
//!
//! Columns and cells are defined by the kind.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use watchkeeper_kinds::{Heading, default_class, scale_cells, scale_headings};
use watchkeeper_meta::{Status, Time, WatchEventKind};
use watchkeeper_storage::Revision;

use crate::definition::Definition;
use crate::list::List;
use crate::object::StoredObject;
use crate::watch::WatchItem;

/// The part of each object included in its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

/// The document, in the order Go prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Table<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Value,
    column_definitions: Option<Vec<Heading<'a>>>,
    rows: Option<Vec<Row>>,
}

#[derive(Serialize)]
struct Row {
    cells: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<RowCondition>,
    object: Value,
}

/// A condition of a row.
#[derive(Serialize)]
struct RowCondition {
    #[serde(rename = "type")]
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

/// Prints the Tables of one resource.
#[derive(Clone, Copy, Debug)]
pub struct TablePrinter<'d> {
    /// The resource.
    pub definition: &'d Definition,
    /// The part of each object included in its row.
    pub include: IncludeObject,
    /// The current time, for ages.
    pub now: Time,
}

impl TablePrinter<'_> {
    /// A page of a list; ends with a newline.
    pub fn list(&self, list: &List) -> Result<Bytes, Status> {
        let mut metadata = json!({"resourceVersion": list.revision.to_string()});
        if let Some(token) = &list.continue_token {
            metadata["continue"] = json!(token);
        }
        if let Some(remaining) = list.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        if let Some(selector) = &list.shard_selector {
            metadata["shardInfo"] = json!({"selector": selector});
        }
        let rows = self.rows(list)?;
        line(&self.table(metadata, Some(rows), true))
    }

    fn rows(&self, list: &List) -> Result<Vec<Row>, Status> {
        let kind = self.definition.kind;
        if kind.row_order.is_none() && kind.default_marks.is_empty() {
            return list.objects().map(|object| self.row(&object)).collect();
        }
        let objects = list.objects().map(|object| object.to_value(self.definition));
        let mut objects = objects.collect::<Result<Vec<Value>, Status>>()?;
        if let Some(order) = kind.row_order {
            objects.sort_by_key(order);
        }
        let default = default_class(&objects, kind.default_marks);
        let mut rows: Vec<Row> = objects.into_iter().map(|object| self.row_of(object)).collect();
        if let Some(name) = default.and_then(|index| rows[index].cells.first_mut()) {
            *name = json!(format!("{} (default)", name.as_str().unwrap_or_default()));
        }
        Ok(rows)
    }

    /// One object; ends with a newline.
    pub fn object(&self, object: &StoredObject) -> Result<Bytes, Status> {
        let metadata = match object.revision {
            Some(revision) => json!({"resourceVersion": revision.to_string()}),
            None => json!({}),
        };
        let row = self.row(object)?;
        line(&self.table(metadata, Some(vec![row]), true))
    }

    /// A line of a watch stream. Only the first one has the columns.
    pub fn watch_item(&self, item: &WatchItem, with_columns: bool) -> Result<Bytes, Status> {
        let (kind, object) = match item {
            WatchItem::Event(event) => {
                let row = self.row(&event.object)?;
                let version = event
                    .object
                    .revision
                    .map(|revision| revision.to_string())
                    .unwrap_or_default();
                (
                    event.kind,
                    self.table(json!({"resourceVersion": version}), Some(vec![row]), with_columns),
                )
            }
            WatchItem::Bookmark {
                revision,
                initial_events_end,
            } => {
                let row = self.bookmark_row(*revision, *initial_events_end)?;
                let metadata = json!({"resourceVersion": revision.to_string()});
                (
                    WatchEventKind::Bookmark,
                    self.table(metadata, Some(vec![row]), with_columns),
                )
            }
            WatchItem::Error(status) => {
                return line(&json!({"type": "ERROR", "object": status}));
            }
        };
        #[derive(Serialize)]
        struct Event<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            object: Table<'a>,
        }
        line(&Event {
            kind: kind.as_str(),
            object,
        })
    }

    fn table(&self, metadata: Value, rows: Option<Vec<Row>>, with_columns: bool) -> Table<'_> {
        Table {
            kind: "Table",
            api_version: "meta.k8s.io/v1",
            metadata,
            column_definitions: with_columns.then(|| self.definition.headings()),
            rows,
        }
    }

    fn row(&self, object: &StoredObject) -> Result<Row, Status> {
        object.to_value(self.definition).map(|value| self.row_of(value))
    }

    fn row_of(&self, object: Value) -> Row {
        Row {
            cells: self.definition.cells(&object, self.now),
            conditions: self.conditions(&object),
            object: self.included(object),
        }
    }

    /// The row of a bookmark: that of an empty object.
    fn bookmark_row(&self, revision: Revision, initial_events_end: bool) -> Result<Row, Status> {
        crate::encode::bookmark(self.definition, revision, initial_events_end).map(|empty| self.row_of(empty))
    }

    fn conditions(&self, object: &Value) -> Vec<RowCondition> {
        let special = self.definition.row_condition(object);
        let completed = special.map(|it| RowCondition {
            kind: "Completed",
            status: "True",
            reason: it.reason,
            message: it.message,
        });
        completed.into_iter().collect()
    }

    fn included(&self, mut object: Value) -> Value {
        if self.include == IncludeObject::Metadata {
            self.definition.bare_metadata(&mut object["metadata"]);
        }
        match self.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Object => object,
            IncludeObject::Metadata => partial(&object["metadata"]),
        }
    }
}

/// The Table of a Scale; ends with a newline.
pub fn scale_table(scale: &Value, include: IncludeObject, now: Time) -> Result<Bytes, Status> {
    let object = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Object => scale.clone(),
        IncludeObject::Metadata => partial(&scale["metadata"]),
    };
    line(&Table {
        kind: "Table",
        api_version: "meta.k8s.io/v1",
        metadata: json!({"resourceVersion": scale["metadata"]["resourceVersion"]}),
        column_definitions: Some(scale_headings()),
        rows: Some(vec![Row {
            cells: scale_cells(scale, now),
            conditions: Vec::new(),
            object,
        }]),
    })
}

/// The metadata-only form of an object.
pub fn partial(metadata: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
    })
}

fn line(document: &impl Serialize) -> Result<Bytes, Status> {
    let mut out = serde_json::to_vec(document).map_err(Status::internal_error)?;
    out.push(b'\n');
    Ok(out.into())
}
