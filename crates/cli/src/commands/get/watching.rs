//! `get -w`: first what is there, then every change to it, until the server or the user ends it.

use std::io::Write as _;

use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{FieldSelector, ListOptions, ResourceVersion, WatchEventKind, WatchOptions, accept};

use super::Get;
use crate::cluster::Cluster;
use crate::documents::{self, Event};
use crate::failure::Failure;
use crate::format::{Documents, Format, complete};
use crate::selection::Selected;
use crate::session::Session;
use crate::stop;
use crate::table::{Printer, Table};

/// Watches one kind, all of its objects or one.
pub(super) async fn run(
    get: &Get,
    format: &Format,
    selected: &[Selected],
    cluster: &Cluster,
    session: &mut Session,
) -> Result<(), Failure> {
    let [one] = selected else {
        return Err(Failure::text(
            "you may only specify a single resource type with -w; `watchkeeper watch` follows several",
        ));
    };
    let mut options = get.selectors.list_options()?;
    match one.names.as_slice() {
        [] => {}
        [name] => options.field_selector = FieldSelector::name(name.clone()),
        _ => return Err(Failure::text("watch one object, or all that -l selects")),
    }
    let mut watching = Watching {
        api: cluster.objects(&one.resource.resource, get.all_namespaces),
        printer: Printer::new(get.layout(format, one, false)),
        get,
        format,
        options,
    };
    tokio::select! {
        result = watching.watch(session) => result,
        () = stop::requested() => Ok(()),
    }
}

struct Watching<'a> {
    get: &'a Get,
    format: &'a Format,
    api: DynamicApi,
    printer: Printer,
    options: ListOptions,
}

impl Watching<'_> {
    async fn watch(&mut self, session: &mut Session) -> Result<(), Failure> {
        let mut version = self.list(session).await?;
        loop {
            let options = WatchOptions {
                label_selector: self.options.label_selector.clone(),
                field_selector: self.options.field_selector.clone(),
                resource_version: version.clone(),
                allow_bookmarks: true,
                ..Default::default()
            };
            let mut events = documents::watch(&self.api, self.accept(), &options).await?;
            // A watch ends when the server's time is up; it goes on where it was.
            while let Some(event) = events.next().await? {
                version = event_version(&event).unwrap_or(version);
                if event.kind != WatchEventKind::Bookmark {
                    self.show(event.object, event.kind.as_str(), session)?;
                }
            }
        }
    }

    /// Prints what is there, unless only changes are wanted; returns the version to go on from.
    async fn list(&mut self, session: &mut Session) -> Result<ResourceVersion, Failure> {
        self.options.limit = Some(self.get.chunk_size).filter(|&size| size > 0 && !self.get.watch_only);
        loop {
            let mut page = documents::page(&self.api, self.accept(), &self.options).await?;
            let version = documents::version(&page);
            let token = page["metadata"]["continue"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if !self.get.watch_only {
                match self.format.is_table() {
                    true => self.show(page, "ADDED", session)?,
                    false => {
                        let items = page["items"].take();
                        for object in items.as_array().cloned().unwrap_or_default() {
                            self.show(object, "ADDED", session)?;
                        }
                    }
                }
            }
            if token.is_empty() {
                self.options.continue_token.clear();
                return Ok(version);
            }
            self.options.continue_token = token;
        }
    }

    fn show(
        &mut self,
        mut document: serde_json::Value,
        event: &str,
        session: &mut Session,
    ) -> Result<(), Failure> {
        if self.format.is_table() {
            let table = Table::from_value(document).map_err(Failure::other)?;
            self.printer.page(&table, event, &mut session.out)?;
        } else {
            let resource = self.api.resource().clone();
            complete(&mut document, &resource, self.get.show_managed_fields);
            if *self.format == Format::Yaml {
                session.out.write_all(b"---\n")?;
            }
            let documents = Documents::one(resource, document);
            self.format.print(documents, true, &mut session.out)?;
        }
        Ok(session.out.flush()?)
    }

    fn accept(&self) -> &'static str {
        match self.format.is_table() {
            true => accept::TABLE,
            false => accept::JSON,
        }
    }
}

/// The version of an event: of the object, or of the object in a table's only row.
fn event_version(event: &Event) -> Option<ResourceVersion> {
    let row = &event.object["rows"][0]["object"];
    let own = documents::version(&event.object);
    Some(if own.is_unset() {
        documents::version(row)
    } else {
        own
    })
    .filter(|version| !version.is_unset())
}
