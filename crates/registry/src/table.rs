//! Objects as rows: what `kubectl get` prints, worked out by the server.
//!
//! The columns come with the resource's data, and what they say of themselves is in [`descriptions`]; the cells of a
//! column are in [`cells`], those of a pod's status in [`pod`].

mod autoscaler;
mod cells;
mod descriptions;
mod human;
mod pod;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use watchkeeper_meta::{Status, Time, WatchEventKind};
use watchkeeper_storage::Revision;

use crate::definition::Definition;
use crate::list::List;
use crate::object::StoredObject;
use crate::watch::WatchItem;

use descriptions::Descriptions;

/// How much of each object comes with its row.
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
    column_definitions: Option<Vec<Column<'a>>>,
    rows: Option<Vec<Row>>,
}

#[derive(Serialize)]
struct Column<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    format: &'a str,
    description: &'a str,
    priority: i32,
}

#[derive(Serialize)]
struct Row {
    cells: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<RowCondition>,
    object: Value,
}

/// What is special about a row.
#[derive(Serialize)]
struct RowCondition {
    #[serde(rename = "type")]
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

/// Makes Tables of one resource.
#[derive(Clone, Copy, Debug)]
pub struct TablePrinter<'d> {
    /// The resource.
    pub definition: &'d Definition,
    /// How much of each object comes with its row.
    pub include: IncludeObject,
    /// Now, for ages.
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
        let rows: Result<Vec<Row>, Status> = list.items.iter().map(|item| self.row(item)).collect();
        line(&self.table(metadata, Some(rows?), true))
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

    /// A line of a watch stream. Only the first one needs the columns.
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
            column_definitions: with_columns.then(|| self.columns()),
            rows,
        }
    }

    fn columns(&self) -> Vec<Column<'_>> {
        let described = Descriptions::of(self.definition);
        if let Some(custom) = &self.definition.custom {
            let name = Column {
                name: "Name",
                kind: "string",
                format: "name",
                description: described.column("Name"),
                priority: 0,
            };
            let others = custom.columns.iter().map(|column| Column {
                name: &column.heading.name,
                kind: &column.heading.kind,
                format: &column.heading.format,
                description: match &column.description {
                    Some(text) => text,
                    None => described.column(&column.heading.name),
                },
                priority: column.heading.priority,
            });
            return std::iter::once(name).chain(others).collect();
        }
        let columns = self.definition.listing.columns.iter();
        let columns = columns.map(|column| Column {
            name: &column.name,
            kind: &column.kind,
            format: &column.format,
            description: described.column(&column.name),
            priority: column.priority,
        });
        columns.collect()
    }

    fn row(&self, object: &StoredObject) -> Result<Row, Status> {
        object.to_value(self.definition).map(|value| self.row_of(value))
    }

    fn row_of(&self, object: Value) -> Row {
        Row {
            cells: self.cells(&object),
            conditions: self.conditions(&object),
            object: self.included(object),
        }
    }

    /// A bookmark's row is that of an object nobody has filled in.
    fn bookmark_row(&self, revision: Revision, initial_events_end: bool) -> Result<Row, Status> {
        crate::encode::bookmark(self.definition, revision, initial_events_end).map(|empty| self.row_of(empty))
    }

    /// Cells are worked out in the version objects are stored in, which knows all that there is.
    fn cells(&self, object: &Value) -> Vec<Value> {
        if let Some(custom) = &self.definition.custom {
            let others = custom.columns.iter();
            let others = others.map(|column| column.cell(object, human::age, self.now));
            return std::iter::once(object["metadata"]["name"].clone())
                .chain(others)
                .collect();
        }
        let conversion = self.definition.conversion;
        let stored = conversion.map(|conversion| conversion.to_stored(object.clone()));
        let object = stored.as_ref().unwrap_or(object);
        let columns = self.definition.listing.columns.iter();
        let names = columns.map(|column| &*column.name);
        cells::cells(&self.definition.resource.kind, names, object, self.now)
    }

    /// Clients may leave out rows of pods that have run their course.
    fn conditions(&self, object: &Value) -> Vec<RowCondition> {
        if self.definition.resource.kind != "Pod" || !self.definition.resource.group.is_empty() {
            return Vec::new();
        }
        let (reason, message) = match object["status"]["phase"].as_str() {
            Some("Succeeded") => ("Succeeded", "The pod has completed successfully."),
            Some("Failed") => ("Failed", "The pod failed."),
            _ => return Vec::new(),
        };
        vec![RowCondition {
            kind: "Completed",
            status: "True",
            reason,
            message,
        }]
    }

    fn included(&self, object: Value) -> Value {
        match self.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Object => object,
            IncludeObject::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            }),
        }
    }
}

fn line(document: &impl Serialize) -> Result<Bytes, Status> {
    let mut out = serde_json::to_vec(document).map_err(Status::internal_error)?;
    out.push(b'\n');
    Ok(out.into())
}
