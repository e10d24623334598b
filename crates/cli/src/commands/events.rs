//! `events`: the Events of a namespace, of all, or of one object, in the order of time.

use std::io::Write as _;

use clap::Args;
use serde_json::Value;
use watchkeeper_client::WatchEvent;
use watchkeeper_meta::{FieldSelector, ListOptions, Resource, WatchOptions};
use watchkeeper_wire::schema::resources;

use crate::cluster::Cluster;
use crate::event_lines::{age_of, time_of};
use crate::failure::Failure;
use crate::format::{Format, complete};
use crate::json_path::plain;
use crate::list_printer::ListPrinter;
use crate::output::Output;
use crate::selection::select_one;
use crate::session::Session;
use crate::stop;
use crate::table::print_aligned;

/// Show Events, the oldest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper events
  watchkeeper events --for deployment/web
  watchkeeper events -A --types Warning
  watchkeeper events -A -o json
  watchkeeper events -w")]
pub(crate) struct Events {
    /// Only those about this object: kind/name
    #[arg(long = "for", value_name = "RESOURCE")]
    about: Option<String>,

    /// Only these types: Normal, Warning
    #[arg(long, value_name = "TYPES", value_delimiter = ',', value_parser = event_type)]
    types: Vec<String>,

    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Output format: json, yaml, name, jsonpath=…, custom-columns=…
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<String>,

    /// Print no headers
    #[arg(long)]
    no_headers: bool,

    /// Print further ones as they come
    #[arg(short, long)]
    watch: bool,
}

/// One of the two types, in any case of letters. The text is kubectl's.
fn event_type(text: &str) -> Result<String, &'static str> {
    let known = ["Normal", "Warning"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(text));
    known
        .then(|| text.to_owned())
        .ok_or("valid --types are Normal or Warning")
}

/// Prints them, and further ones with `-w`.
pub(crate) async fn run(events: Events, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let format = events.output.as_deref().map(Format::parse).transpose()?;
    let fields = events.fields(cluster).await?;
    let found = resources::by_plural("", "v1", "events");
    let resource = &found
        .ok_or_else(|| Failure::text("events are no built-in resource"))?
        .resource;
    let api = cluster.objects(resource, events.all_namespaces).json_only();
    let options = ListOptions {
        field_selector: fields.clone(),
        ..Default::default()
    };
    let list = api.pages().with(&options).collect().await?;
    let mut known = Vec::new();
    for event in &list.items {
        known.push(event.to_value().map_err(Failure::other)?);
    }
    known.retain(|event| events.wants(event));
    known.sort_by_key(|event| time_of(event).map(|time| (time.seconds, time.nanos)));
    if known.is_empty() && !events.watch {
        session.err.line(events.nothing(cluster));
        return Ok(());
    }
    let mut printer = Printer {
        events: &events,
        resource,
        format: format.unwrap_or_default(),
        widths: Vec::new(),
    };
    printer.begin(known, &mut session.out)?;
    if !events.watch {
        return Ok(());
    }
    let options = WatchOptions {
        field_selector: fields,
        resource_version: list.head.resource_version,
        ..Default::default()
    };
    let mut stream = api.watch().with(&options).await?;
    loop {
        let event = tokio::select! {
            event = stream.next() => event,
            () = stop::requested() => return Ok(()),
            () = cluster.watch_timeout() => return Ok(()),
        };
        let object = match event.transpose()? {
            Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => object,
            Some(WatchEvent::Error(status)) => return Err(Failure::text(status.message)),
            Some(_) => continue,
            None => {
                return Err(Failure::text(
                    "the server ended the watch; `watchkeeper watch events` resumes by itself",
                ));
            }
        };
        let event = object.to_value().map_err(Failure::other)?;
        if events.wants(&event) {
            printer.further(event, &mut session.out)?;
        }
    }
}

/// Prints events in one format.
struct Printer<'a> {
    events: &'a Events,
    resource: &'a Resource,
    format: Format,
    widths: Vec<usize>,
}

impl Printer<'_> {
    /// The events there are: a table, a list, or as many documents if further ones follow.
    fn begin(&mut self, events: Vec<Value>, out: &mut Output) -> Result<(), Failure> {
        if self.format.is_table() {
            let header = (!self.events.no_headers).then(|| self.events.header());
            let lines = events.iter().map(|event| self.events.line(event));
            let lines: Vec<_> = header.into_iter().chain(lines).collect();
            print_aligned(&lines, &mut self.widths, out)?;
            return Ok(out.flush()?);
        }
        if self.events.watch || self.format == Format::Name {
            return events.into_iter().try_for_each(|event| self.further(event, out));
        }
        let mut list = ListPrinter::new(&self.format, self.events.no_headers);
        for mut event in events {
            complete(&mut event, self.resource, false);
            list.object(event, out)?;
        }
        list.finish(out)
    }

    fn further(&mut self, mut event: Value, out: &mut Output) -> Result<(), Failure> {
        if self.format.is_table() {
            print_aligned(&[self.events.line(&event)], &mut self.widths, out)?;
            return Ok(out.flush()?);
        }
        complete(&mut event, self.resource, false);
        if self.format == Format::Yaml {
            out.write_all(b"---\n")?;
        }
        self.format.print(self.resource, &event, true, out)?;
        Ok(out.flush()?)
    }
}

impl Events {
    async fn fields(&self, cluster: &Cluster) -> Result<FieldSelector, Failure> {
        let Some(about) = &self.about else {
            return Ok(FieldSelector::default());
        };
        let (found, name) = select_one(cluster, std::slice::from_ref(about)).await?;
        let text = format!(
            "involvedObject.kind={},involvedObject.name={name}",
            found.resource.kind
        );
        text.parse().map_err(Failure::text)
    }

    fn wants(&self, event: &Value) -> bool {
        let kind = event["type"].as_str().unwrap_or_default();
        self.types.is_empty() || self.types.iter().any(|wanted| wanted.eq_ignore_ascii_case(kind))
    }

    fn header(&self) -> Vec<String> {
        let names = ["NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
        let names = names.iter().skip(usize::from(!self.all_namespaces));
        names.map(|&name| name.to_owned()).collect()
    }

    fn line(&self, event: &Value) -> Vec<String> {
        let about = &event["involvedObject"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let cells = [
            text(&event["metadata"]["namespace"]),
            age_of(event),
            text(&event["type"]),
            text(&event["reason"]),
            format!("{}/{}", text(&about["kind"]), text(&about["name"])),
            plain(&event["message"]).trim().replace('\n', " "),
        ];
        cells
            .into_iter()
            .skip(usize::from(!self.all_namespaces))
            .collect()
    }

    fn nothing(&self, cluster: &Cluster) -> String {
        match self.all_namespaces {
            true => "No events found.".to_owned(),
            false => format!("No events found in {} namespace.", cluster.namespace),
        }
    }
}
