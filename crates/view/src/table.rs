//! One kind as the server's Table, kept up to date.
//! A Table has the server's choice of columns, even for custom kinds. [`TableSource`] lists and watches in that form,
//! so the ordinary [`Watcher`] recovers the stream. [`Tables`] has one such watch per kind in use, and ends it after
//! [`KEPT_FOR`] without a reader.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_util::future::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use watchkeeper_client::{Body, BodyError, Client, DynamicApi, Error, SendOptions};
use watchkeeper_meta::{
    CollectionRequests, FieldSelector, LabelSelector, ListMeta, ListOptions, ObjectKey, Resource,
    ResourceVersion, ResourceVersionMatch, Scope, Status, WatchEventKind, WatchOptions, accept,
    human_duration,
};
use watchkeeper_runtime::watcher::{
    Answer, Config, Event, Failure, Input, ListRequest, Opening, Source, Versioned, WatchRequest, Watcher,
};
use watchkeeper_wire::{Encoding, WatchSplitter};

use crate::feed::Selection;

/// The largest size of a page; 500 large objects stay far below.
const MAX_PAGE: usize = 64 << 20;

/// The page size for a Table at a version.
const PAGE_SIZE: u64 = 500;

/// The time a Table is kept up to date after the last read.
pub const KEPT_FOR: Duration = Duration::from_secs(60);

/// The largest number of Tables. The least recently used one is evicted.
pub const MAX_TABLES: usize = 8;

/// A column of the server's Table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Column {
    /// Its header.
    pub name: String,
    /// `string`, `integer`, `date` …
    #[serde(rename = "type")]
    pub kind: String,
    /// Columns above 0 are for wide output.
    pub priority: i32,
    /// The description.
    pub description: String,
}

/// One object as a row. Its cells stay JSON text, because most rows of a long table are never displayed.
#[derive(Clone, Debug)]
pub struct Row {
    /// The object.
    pub key: ObjectKey,
    /// The creation time: ages are computed when displayed.
    pub created: Option<Timestamp>,
    /// One value per column, as a JSON array.
    pub cells: Box<RawValue>,
    version: Box<str>,
    /// Set on rows with column definitions.
    columns: Option<Arc<[Column]>>,
}

impl Row {
    /// True if the name, the namespace or a cell contains `filter`, ignoring ASCII case.
    pub fn contains(&self, filter: &str) -> bool {
        let has = |text: &str| {
            let mut windows = text.as_bytes().windows(filter.len());
            windows.any(|window| window.eq_ignore_ascii_case(filter.as_bytes()))
        };
        filter.is_empty() || has(self.key.name()) || has(self.key.namespace()) || has(self.cells.get())
    }

    /// Its cells as text. Ages are computed at `now`: the server's are of the time it sent the row.
    pub fn texts(&self, columns: &[Column], now: Timestamp) -> Vec<String> {
        let cells: Vec<Value> = serde_json::from_str(self.cells.get()).unwrap_or_default();
        let text = |(index, column): (usize, &Column)| match (self.created, cells.get(index)) {
            (Some(created), _) if column.name == "Age" => {
                human_duration(now.as_second() - created.as_second())
            }
            (_, None | Some(Value::Null)) => String::new(),
            (_, Some(Value::String(text))) => text.clone(),
            (_, Some(other)) => other.to_string(),
        };
        columns.iter().enumerate().map(text).collect()
    }
}

impl Versioned for Row {
    fn resource_version(&self) -> &str {
        &self.version
    }
}

/// Lists and watches one kind as Tables.
#[derive(Clone, Debug)]
pub struct TableSource {
    api: DynamicApi,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl TableSource {
    /// The objects of a resource that are selected, as Tables.
    pub fn new(client: &Client, resource: Resource, selection: &Selection) -> Self {
        let api = client.dynamic(resource);
        let is_namespaced = api.resource().scope == Scope::Namespaced;
        Self {
            api: match selection.namespace.as_deref().filter(|_| is_namespaced) {
                Some(namespace) => api.namespace(namespace),
                None => api.all_namespaces(),
            },
            labels: selection.labels.clone(),
            fields: selection.fields.clone(),
        }
    }

    /// One page of a list.
    async fn page(&self, options: &ListOptions) -> Result<Document, Failure> {
        let request = self.requests().list(options).map_err(unreadable)?;
        let client = self.api.client();
        let sent = client
            .send(request.map(Bytes::from), &SendOptions::default())
            .await;
        let mut body = sent.map_err(failure)?.into_body();
        let document = body.collect(MAX_PAGE).await.map_err(broken)?;
        serde_json::from_slice(&document).map_err(unreadable)
    }

    fn requests(&self) -> CollectionRequests<'_> {
        let requests = match self.api.namespace_name() {
            "" => CollectionRequests::everywhere(self.api.resource()),
            namespace => CollectionRequests::in_namespace(self.api.resource(), namespace),
        };
        requests.accepting(accept::TABLE)
    }
}

impl Source for TableSource {
    type Object = Row;

    fn list(&self, request: ListRequest) -> Opening<Row> {
        let named = !request.version.is_unset() && !request.version.is_any();
        let options = ListOptions {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            resource_version_match: named.then_some(ResourceVersionMatch::NotOlderThan),
            resource_version: request.version,
            limit: request.limit.map(u64::from),
            continue_token: request.continue_token,
            ..Default::default()
        };
        let source = self.clone();
        async move { Ok(page(source.page(&options).await?)) }.boxed()
    }

    fn watch(&self, request: WatchRequest) -> Opening<Row> {
        let options = WatchOptions {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            resource_version: request.version,
            allow_bookmarks: true,
            timeout_seconds: Some(request.timeout.as_secs().max(1)),
            ..Default::default()
        };
        let (request, client) = (self.requests().watch(&options), self.api.client().clone());
        async move {
            let request = request.map_err(unreadable)?;
            let sent = SendOptions {
                watch: true,
                ..SendOptions::default()
            };
            let response = client
                .send(request.map(Bytes::from), &sent)
                .await
                .map_err(failure)?;
            Ok(events(response.into_body()))
        }
        .boxed()
    }

    fn name(&self) -> Cow<'_, str> {
        self.api.resource().group_resource().to_string().into()
    }

    /// A streaming list has no advantage for Tables.
    fn has_streaming_lists(&self) -> bool {
        false
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    kind: String,
    metadata: DocumentMetadata,
    column_definitions: Option<Vec<Column>>,
    rows: Option<Vec<DocumentRow>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DocumentMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    continue_token: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DocumentRow {
    cells: Option<Box<RawValue>>,
    object: DocumentObject,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DocumentObject {
    metadata: RowMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RowMetadata {
    namespace: String,
    name: String,
    resource_version: String,
    creation_timestamp: Option<String>,
}

fn rows(document: Document) -> impl Iterator<Item = Row> {
    let columns: Option<Arc<[Column]>> = document
        .column_definitions
        .filter(|columns| !columns.is_empty())
        .map(Into::into);
    document.rows.unwrap_or_default().into_iter().map(move |row| {
        let metadata = row.object.metadata;
        Row {
            key: ObjectKey::new(&metadata.namespace, &metadata.name),
            created: metadata.creation_timestamp.and_then(|text| text.parse().ok()),
            cells: row.cells.unwrap_or_else(|| RawValue::NULL.to_owned()),
            version: metadata.resource_version.into(),
            columns: columns.clone(),
        }
    })
}

fn page(document: Document) -> Answer<Row> {
    let end = ListMeta {
        resource_version: ResourceVersion::new(&*document.metadata.resource_version),
        continue_token: document.metadata.continue_token.clone(),
        remaining_item_count: None,
    };
    let inputs: Vec<_> = rows(document).map(Input::Item).collect();
    stream::iter(inputs.into_iter().chain([Input::PageEnd(end)])).boxed()
}

fn events(body: Body) -> Answer<Row> {
    let reader = Events {
        body,
        splitter: WatchSplitter::new(Encoding::Json),
        chunk: Bytes::new(),
    };
    stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match reader.next().await {
            Ok(Some(input)) => Some((input, Some(reader))),
            Ok(None) => None,
            Err(failure) => Some((Input::Failed(failure), None)),
        }
    })
    .boxed()
}

struct Events {
    body: Body,
    splitter: WatchSplitter,
    chunk: Bytes,
}

impl Events {
    async fn next(&mut self) -> Result<Option<Input<Row>>, Failure> {
        loop {
            if let Some(input) = self.split()? {
                return Ok(Some(input));
            }
            match self.body.chunk().await {
                Some(chunk) => self.chunk = chunk.map_err(broken)?,
                None => return Ok(None),
            }
        }
    }

    fn split(&mut self) -> Result<Option<Input<Row>>, Failure> {
        let mut rest = &self.chunk[..];
        let event = self.splitter.next(&mut rest).map_err(unreadable)?;
        let input = event.map(|raw| input(raw.kind, raw.object.bytes)).transpose()?;
        let used = self.chunk.len() - rest.len();
        self.chunk.advance(used);
        Ok(input)
    }
}

fn input(kind: WatchEventKind, bytes: &[u8]) -> Result<Input<Row>, Failure> {
    if kind == WatchEventKind::Error {
        let status: Status = serde_json::from_slice(bytes).map_err(unreadable)?;
        return Ok(Input::Failed(status.into()));
    }
    let document: Document = serde_json::from_slice(bytes).map_err(unreadable)?;
    if kind == WatchEventKind::Bookmark {
        // A bookmark is a Table with one row, or the bare object.
        let own = ResourceVersion::new(&*document.metadata.resource_version);
        let version = match own.is_unset() {
            true => rows(document).next().map(|row| ResourceVersion::new(row.version)),
            false => Some(own),
        };
        return Ok(Input::Bookmark {
            version: version.unwrap_or_else(ResourceVersion::unset),
            ends_initial: false,
        });
    }
    let kind_found = document.kind.clone();
    let Some(row) = rows(document).next() else {
        return Err(unreadable(NoTable(kind_found)));
    };
    Ok(match kind {
        WatchEventKind::Added => Input::Added(row),
        WatchEventKind::Modified => Input::Modified(row),
        _ => Input::Deleted(row),
    })
}

#[derive(Debug, thiserror::Error)]
#[error("the server sent a {0} where a Table with a row was asked for")]
struct NoTable(String);

fn failure(error: Error) -> Failure {
    match error.status() {
        Some(status) => status.clone().into(),
        None => Failure::Connection(Arc::new(error)),
    }
}

fn broken(error: BodyError) -> Failure {
    Failure::Connection(Arc::new(error))
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Unreadable(Arc::new(error))
}

/// The current state of a Table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The columns; empty until the first row is received.
    pub columns: Option<Arc<[Column]>>,
    /// The rows, by namespace and name.
    pub rows: BTreeMap<ObjectKey, Row>,
    /// True once the first list was read.
    pub synced: bool,
    /// The error of the last attempt, if it failed.
    pub failure: Option<String>,
    /// Increases with every change.
    pub revision: u64,
}

impl Table {
    fn note(&mut self, listing: &mut Option<BTreeMap<ObjectKey, Row>>, event: Event<Row>) {
        self.revision += 1;
        self.failure = None;
        match event {
            Event::Init => *listing = Some(BTreeMap::new()),
            Event::InitApply(row) => {
                self.learn_columns(&row);
                if let Some(listing) = listing {
                    listing.insert(row.key.clone(), row);
                }
            }
            Event::InitDone(_) => {
                self.rows = listing.take().unwrap_or_default();
                self.synced = true;
            }
            Event::Added(row) | Event::Modified(row) => {
                self.learn_columns(&row);
                self.rows.insert(row.key.clone(), row);
            }
            Event::Deleted(row) => {
                self.rows.remove(&row.key);
            }
            Event::Progress(_) => {}
        }
    }

    fn learn_columns(&mut self, row: &Row) {
        if let Some(columns) = &row.columns {
            self.columns = Some(columns.clone());
        }
    }
}

/// The Tables in use.
#[derive(Debug)]
pub struct Tables {
    client: Client,
    selection: Selection,
    open: Mutex<HashMap<Resource, OpenTable>>,
    /// The version of all Tables, which then do not change; `None` for live Tables.
    pinned: Mutex<Option<u64>>,
}

#[derive(Debug)]
struct OpenTable {
    table: Arc<Mutex<Table>>,
    task: AbortHandle,
    asked: Instant,
}

impl Drop for OpenTable {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Tables {
    /// No Tables yet. Those that are read will have the selected objects.
    pub fn new(client: Client, selection: Selection) -> Self {
        Self {
            client,
            selection,
            open: Mutex::default(),
            pinned: Mutex::default(),
        }
    }

    /// Pins Tables to a version, for servers with history.
    pub fn pin(&self, version: u64) {
        *self.pinned.lock() = Some(version);
        self.open.lock().clear();
    }

    /// Adds a Table that is not updated.
    #[cfg(test)]
    pub(crate) fn put(&self, resource: &Resource, document: &str) {
        let mut table = Table {
            synced: true,
            ..Table::default()
        };
        for row in rows(serde_json::from_str(document).expect("a Table")) {
            table.learn_columns(&row);
            table.rows.insert(row.key.clone(), row);
        }
        let open = OpenTable {
            table: Arc::new(Mutex::new(table)),
            task: tokio::spawn(std::future::pending::<()>()).abort_handle(),
            asked: Instant::now(),
        };
        self.open.lock().insert(resource.clone(), open);
    }

    /// Reads the Table of a kind. The first read starts the watch and finds it empty.
    pub fn read<R>(&self, resource: &Resource, look: impl FnOnce(&Table) -> R) -> R {
        let table = self.open(resource);
        let table = table.lock();
        look(&table)
    }

    fn open(&self, resource: &Resource) -> Arc<Mutex<Table>> {
        let (now, pinned) = (Instant::now(), *self.pinned.lock());
        let mut open = self.open.lock();
        open.retain(|known, table| known == resource || now.duration_since(table.asked) < KEPT_FOR);
        if !open.contains_key(resource) && open.len() >= MAX_TABLES {
            let oldest = open.iter().min_by_key(|(_, table)| table.asked);
            if let Some(oldest) = oldest.map(|(resource, _)| resource.clone()) {
                open.remove(&oldest);
            }
        }
        let table = open.entry(resource.clone()).or_insert_with(|| {
            let table = Arc::<Mutex<Table>>::default();
            let source = TableSource::new(&self.client, resource.clone(), &self.selection);
            let task = match pinned {
                Some(version) => tokio::spawn(fill(source, version, table.clone())),
                None => tokio::spawn(keep(source, table.clone())),
            };
            OpenTable {
                table,
                task: task.abort_handle(),
                asked: now,
            }
        });
        table.asked = now;
        table.table.clone()
    }
}

/// Loads a Table at a version, once.
async fn fill(source: TableSource, version: u64, table: Arc<Mutex<Table>>) {
    let mut options = ListOptions {
        resource_version: version.into(),
        resource_version_match: Some(ResourceVersionMatch::Exact),
        limit: Some(PAGE_SIZE),
        ..Default::default()
    };
    loop {
        let page = source.page(&options).await;
        let mut table = table.lock();
        table.revision += 1;
        let page = match page {
            Ok(page) => page,
            Err(failure) => {
                table.failure = Some(failure.to_string());
                return;
            }
        };
        let continue_token = page.metadata.continue_token.clone();
        for row in rows(page) {
            table.learn_columns(&row);
            table.rows.insert(row.key.clone(), row);
        }
        if continue_token.is_empty() {
            table.synced = true;
            return;
        }
        // A continued list has the version of its first page.
        options = ListOptions {
            limit: Some(PAGE_SIZE),
            continue_token,
            ..Default::default()
        };
    }
}

async fn keep(source: TableSource, table: Arc<Mutex<Table>>) {
    let mut watcher = Watcher::new(Arc::new(source), Config::paged());
    let mut listing = None;
    while let Some(event) = watcher.next().await {
        let mut table = table.lock();
        match event {
            Ok(event) => table.note(&mut listing, event),
            Err(failure) => {
                table.revision += 1;
                table.failure = Some(failure.to_string());
            }
        }
    }
}
