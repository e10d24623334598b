//! `get -w`: the existing objects, then every change, until the user or `--request-timeout` ends it.
//!
//! A stream that ends or breaks resumes at the version of its last event, so nothing is lost. If the version has
//! expired, a warning is printed and the current objects are shown again.

use std::io::Write as _;
use std::time::Duration;

use serde_json::Value;
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{FieldSelector, ListOptions, ResourceVersion, WatchEventKind, WatchOptions};
use watchkeeper_runtime::watcher::{FIRST_WAIT, LONGEST_WAIT};

use super::Get;
use crate::cluster::Cluster;
use crate::documents::{self, Event, Form, Interruption};
use crate::failure::Failure;
use crate::format::{Format, complete};
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
        api: one.api(cluster, get.all_namespaces),
        printer: Printer::new(get.layout(format, one, false)),
        get,
        format,
        options,
        version: ResourceVersion::unset(),
        next_wait: Duration::ZERO,
        has_begun: false,
    };
    tokio::select! {
        result = watching.run(cluster, session) => result,
        () = stop::requested() => Ok(()),
    }
}

struct Watching<'a> {
    get: &'a Get,
    format: &'a Format,
    api: DynamicApi,
    printer: Printer,
    options: ListOptions,
    /// Everything up to this version was printed.
    version: ResourceVersion,
    /// The delay after the next interruption; zero if there was an event since the last one.
    next_wait: Duration,
    /// True if the server has accepted the watch.
    has_begun: bool,
}

impl Watching<'_> {
    /// Lists, then watches. A watch that reaches its time limit has succeeded, as in kubectl.
    async fn run(&mut self, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
        self.list(session).await?;
        tokio::select! {
            result = self.watch(session) => result,
            () = cluster.watch_timeout() => match self.has_begun {
                true => Ok(()),
                false => Err(Failure::text("the watch did not begin within the time of --request-timeout")),
            },
        }
    }

    async fn watch(&mut self, session: &mut Session) -> Result<(), Failure> {
        let mut forgotten = false;
        loop {
            let result = match forgotten {
                true => self.list(session).await.map_err(Interruption::from),
                false => self.follow(session).await,
            };
            match result {
                // The list was shown, or the server's timeout has ended the stream.
                Ok(()) => forgotten = false,
                Err(Interruption::Failed(failure)) => return Err(failure),
                // A server that stays away is reported once.
                Err(Interruption::Broken(cause)) if self.next_wait.is_zero() => {
                    warn(&format!("{cause}; it goes on when the server answers"), session);
                }
                Err(Interruption::Broken(_)) => {}
                Err(Interruption::Forgotten(cause)) => {
                    forgotten = true;
                    let rest = "what happened in between is lost, what is there now follows";
                    warn(&format!("{cause}; {rest}"), session);
                }
            }
            tokio::time::sleep(self.next_wait).await;
            self.next_wait = (self.next_wait * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
        }
    }

    /// Prints events until the stream ends.
    async fn follow(&mut self, session: &mut Session) -> Result<(), Interruption> {
        let options = WatchOptions {
            label_selector: self.options.label_selector.clone(),
            field_selector: self.options.field_selector.clone(),
            resource_version: self.version.clone(),
            allow_bookmarks: true,
            ..Default::default()
        };
        let mut events = documents::watch(&self.api, self.form().accept, &options).await?;
        self.has_begun = true;
        while let Some(event) = events.next().await? {
            let version = event_version(&event);
            if event.kind != WatchEventKind::Bookmark {
                self.show(event.object, event.kind.as_str(), session)?;
            }
            self.next_wait = Duration::ZERO;
            self.version = version.unwrap_or_else(|| self.version.clone());
        }
        Ok(())
    }

    /// Prints the existing objects, unless only changes are wanted, and records the version to watch from. A list
    /// that breaks off leaves no version: it has to be repeated.
    async fn list(&mut self, session: &mut Session) -> Result<(), Failure> {
        self.options.limit = Some(self.get.chunk_size).filter(|&size| size > 0 && !self.get.watch_only);
        self.options.continue_token.clear();
        // Rows are collected over all pages, to be aligned.
        let mut tables = Vec::new();
        let version = loop {
            let page = documents::page(&self.api, self.form(), &self.options).await?;
            let version = documents::version(&page);
            self.options.continue_token = documents::continue_token(&page);
            match self.format.is_table() {
                _ if self.get.watch_only => {}
                true => tables.push(page),
                false => self.show_items(page, session)?,
            }
            if self.options.continue_token.is_empty() {
                break version;
            }
        };
        for table in tables {
            self.gather(table, "ADDED")?;
        }
        self.version = version;
        self.print_gathered(session)
    }

    fn show_items(&mut self, mut page: Value, session: &mut Session) -> Result<(), Failure> {
        let Value::Array(items) = page["items"].take() else {
            return Ok(());
        };
        let mut items = items.into_iter();
        items.try_for_each(|object| self.show(object, "ADDED", session))
    }

    fn gather(&mut self, table: Value, event: &str) -> Result<(), Failure> {
        let table = Table::from_value(table).map_err(Failure::other)?;
        self.printer.gather(&table, event);
        Ok(())
    }

    fn print_gathered(&mut self, session: &mut Session) -> Result<(), Failure> {
        self.printer.print(&mut session.out)?;
        Ok(session.out.flush()?)
    }

    fn show(&mut self, mut document: Value, event: &str, session: &mut Session) -> Result<(), Failure> {
        if self.format.is_table() {
            self.gather(document, event)?;
            return self.print_gathered(session);
        }
        let resource = self.api.resource();
        complete(&mut document, resource, self.get.show_managed_fields);
        if *self.format == Format::Yaml {
            session.out.write_all(b"---\n")?;
        }
        self.format.print(resource, &document, true, &mut session.out)?;
        Ok(session.out.flush()?)
    }

    fn form(&self) -> Form<'static> {
        match self.format.is_table() {
            true => Form::TABLE,
            false => Form::JSON,
        }
    }
}

fn warn(what: &str, session: &mut Session) {
    session
        .err
        .line(format!("Warning: the watch was interrupted: {what}"));
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
