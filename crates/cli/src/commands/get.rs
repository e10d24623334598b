//! `get`: objects as tables, documents or names, requested page by page; with `-w`, a watch.

mod watching;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use futures_util::StreamExt as _;
use watchkeeper_client::{DynamicApi, ListItem};
use watchkeeper_meta::{ListOptions, Resource, ResourceVersion, ResourceVersionMatch, accept};
use watchkeeper_recording::{Moment, Recording};
use watchkeeper_replay::Replay;
use watchkeeper_wire::Object;

use crate::cluster::{Cluster, client_options, is_namespaced};
use crate::cluster_arguments::ClusterArguments;
use crate::documents;
use crate::failure::Failure;
use crate::format::{Format, complete};
use crate::list_printer::ListPrinter;
use crate::progress::Progress;
use crate::recorded::moment;
use crate::selection::{Selected, Selectors, select};
use crate::session::Session;
use crate::table::{Layout, Printer, Table};

/// Show objects
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper get pods
  watchkeeper get pods,services -A -o wide
  watchkeeper get deployment/web service/web -o yaml
  watchkeeper get pods -l app=web -w
  watchkeeper get pods -o jsonpath='{.items[*].metadata.name}'
  watchkeeper get nodes -o custom-columns=NAME:.metadata.name,UID:.metadata.uid
  watchkeeper get pods --at 1234
  watchkeeper get pods --recording incident.rec --at 2026-01-31T12:00:00Z

JSONPath has fields, [0], [-1], [*], ['name'], {range}…{end} and text; no filters, slices or '..'.")]
pub(crate) struct Get {
    /// Objects: kinds, a kind and names, or kind/name …
    #[arg(value_name = "RESOURCE")]
    words: Vec<String>,

    #[command(flatten)]
    selectors: Selectors,

    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Output format: wide, json, yaml, name, jsonpath=…, custom-columns=…
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<String>,

    /// As it was: at a version of the cluster, as far as the server remembers; in a recording, at a version or a time
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    at: Option<Moment>,

    /// From this recording instead of a cluster
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,

    /// Watch for changes after listing
    #[arg(short, long)]
    watch: bool,

    /// Watch for changes without listing first
    #[arg(long)]
    watch_only: bool,

    /// Print the type of each event: ADDED, MODIFIED or DELETED
    #[arg(long)]
    output_watch_events: bool,

    /// Page size of lists; 0 requests everything at once
    #[arg(long, value_name = "COUNT", default_value_t = 500)]
    chunk_size: u64,

    /// Print no headers
    #[arg(long)]
    no_headers: bool,

    /// Show these labels as columns
    #[arg(short = 'L', long, value_name = "LABELS", value_delimiter = ',')]
    label_columns: Vec<String>,

    /// Prefix names with their kind
    #[arg(long)]
    show_kind: bool,

    /// Show all labels in the last column
    #[arg(long)]
    show_labels: bool,

    /// Keep metadata.managedFields in json and yaml
    #[arg(long)]
    show_managed_fields: bool,

    /// Ignore objects that do not exist
    #[arg(long)]
    ignore_not_found: bool,
}

/// Shows what the words stand for in a recording: a server in this process has it as its past.
pub(crate) async fn run_recorded(
    mut get: Get,
    file: &Path,
    arguments: &ClusterArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    let recording = Recording::open(file).map_err(Failure::other)?;
    let at = get.at.take().unwrap_or(Moment::End);
    let replay = Replay::load(&recording, &at).await.map_err(Failure::other)?;
    let server = replay.server().start().await.map_err(Failure::other)?;
    let options = client_options(0, session.err.clone());
    let client = watchkeeper_testing::client_of(&server, options)?;
    let before = session.client.replace(client);
    let result = match Cluster::new(arguments, 0, session) {
        Ok(cluster) => run(get, &cluster, session).await,
        Err(failure) => Err(failure),
    };
    session.client = before;
    server.shutdown().await;
    result
}

/// Shows the selected objects.
pub(crate) async fn run(get: Get, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let format = match &get.output {
        Some(text) => Format::parse(text)?,
        None => Format::Table,
    };
    let selected = select(cluster, &get.words).await?;
    if get.all_namespaces && selected.iter().any(|one| !one.names.is_empty()) {
        return Err(Failure::text(
            "a resource cannot be retrieved by name across all namespaces",
        ));
    }
    if get.at.is_some() && (get.watch || get.watch_only || selected.iter().any(|one| !one.names.is_empty())) {
        return Err(Failure::text(
            "--at shows lists: use --field-selector metadata.name=NAME for one object, or --recording",
        ));
    }
    if get.watch || get.watch_only {
        return watching::run(&get, &format, &selected, cluster, session).await;
    }
    match format.is_table() {
        true => get.tables(&format, &selected, cluster, session).await,
        false => get.documents(&format, &selected, cluster, session).await,
    }
}

impl Get {
    /// The recording to read instead of a cluster.
    pub(crate) fn recording(&self) -> Option<PathBuf> {
        self.recording.clone()
    }

    /// One table per kind, separated by an empty line.
    async fn tables(
        &self,
        format: &Format,
        selected: &[Selected],
        cluster: &Cluster,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let (mut has_shown, mut failures) = (false, Vec::new());
        let mut progress = Progress::new(session);
        for one in selected {
            let mut printer = Printer::new(self.layout(format, one, selected.len() > 1));
            let result = self
                .each_table(one, cluster, &mut progress, |table| printer.gather(table, ""))
                .await;
            // Objects received before a failure are still shown.
            if !printer.is_empty() {
                if std::mem::replace(&mut has_shown, true) {
                    session.out.write_all(b"\n")?;
                }
                printer.print(&mut session.out)?;
                session.out.flush()?;
            }
            if let Err(failure) = result {
                failures.push(failure);
            }
        }
        if !has_shown && failures.is_empty() && !self.ignore_not_found {
            session.err.line(self.nothing(selected, cluster));
        }
        Failure::all(failures)
    }

    /// One object, or a list that is printed while it arrives.
    async fn documents(
        &self,
        format: &Format,
        selected: &[Selected],
        cluster: &Cluster,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let mut failures = Vec::new();
        let mut progress = Progress::new(session);
        let is_single = selected.len() == 1 && selected[0].names.len() == 1;
        let mut list = (!is_single).then(|| ListPrinter::new(format, self.no_headers));
        for one in selected {
            let resource = &one.resource.resource;
            let api = self.documents_of(format, resource, cluster);
            let result = self
                .each_object(one, &api, &mut progress, |object| {
                    if *format == Format::Name {
                        return Ok(writeln!(session.out, "{}", resource.display_name(object.name()))?);
                    }
                    let mut object = object.to_value().map_err(Failure::other)?;
                    complete(&mut object, resource, self.show_managed_fields);
                    match &mut list {
                        Some(list) => list.object(object, &mut session.out),
                        None => format.print(resource, &object, self.no_headers, &mut session.out),
                    }
                })
                .await;
            match result {
                Ok(()) => {}
                // The output is closed.
                Err(failure @ Failure::Output(_)) => return Err(failure),
                Err(failure) => failures.push(failure),
            }
        }
        if let Some(list) = list {
            list.finish(&mut session.out)?;
        }
        Failure::all(failures)
    }

    /// The API of a resource in the smallest form that has everything to print. JSON, not protobuf: a newer server
    /// may have fields that we do not know.
    fn documents_of(&self, format: &Format, resource: &Resource, cluster: &Cluster) -> DynamicApi {
        let api = cluster.objects(resource, self.all_namespaces);
        match (format, self.show_managed_fields) {
            (Format::Name, _) => api.metadata_only(),
            (_, true) => api.json_only().keep_managed_fields(),
            (_, false) => api.json_only(),
        }
    }

    /// Passes each named object, or each object of the list as soon as it arrives.
    async fn each_object(
        &self,
        selected: &Selected,
        api: &DynamicApi,
        progress: &mut Progress,
        mut show: impl FnMut(Object) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut failures = Vec::new();
        for name in &selected.names {
            match api.get(name).await {
                Ok(object) => show(object)?,
                Err(error) if self.ignore_not_found && error.is_not_found() => {}
                Err(error) => failures.push(error.into()),
            }
        }
        if !selected.names.is_empty() {
            return Failure::all(failures);
        }
        let mut options = self.first_page()?;
        loop {
            let mut page = api.list_stream().with(&options).await?;
            progress.hide();
            let mut count = 0;
            while let Some(item) = page.next().await.transpose()? {
                match item {
                    ListItem::Object(object) => show(object)?,
                    ListItem::Undecodable(item) => return Err(Failure::other(item.error)),
                }
                count += 1;
            }
            let head = page.head();
            if !Self::next_page(&mut options, &head.continue_token) {
                return Ok(());
            }
            let remaining = head.remaining_item_count.and_then(|count| count.try_into().ok());
            progress.note(count, remaining);
            progress.show();
        }
    }

    fn first_page(&self) -> Result<ListOptions, Failure> {
        let at = match self.at {
            None | Some(Moment::End) => None,
            Some(Moment::Revision(revision)) => Some(revision),
            Some(Moment::Time(_)) => {
                return Err(Failure::text(
                    "a cluster remembers versions, not times: name a version, or a recording with --recording",
                ));
            }
        };
        Ok(ListOptions {
            limit: Some(self.chunk_size).filter(|&size| size > 0),
            resource_version: at.map(ResourceVersion::from).unwrap_or_default(),
            resource_version_match: at.map(|_| ResourceVersionMatch::Exact),
            ..self.selectors.list_options()?
        })
    }

    /// What to ask for after a page; false if it was the last. The token says of which version.
    fn next_page(options: &mut ListOptions, continue_token: &str) -> bool {
        continue_token.clone_into(&mut options.continue_token);
        options.resource_version = ResourceVersion::unset();
        options.resource_version_match = None;
        !continue_token.is_empty()
    }

    /// Passes the table of each named object, or of each page of the list.
    async fn each_table(
        &self,
        selected: &Selected,
        cluster: &Cluster,
        progress: &mut Progress,
        mut show: impl FnMut(&Table),
    ) -> Result<(), Failure> {
        let api = cluster.objects(&selected.resource.resource, self.all_namespaces);
        let mut failures = Vec::new();
        for name in &selected.names {
            match documents::object(&api, accept::TABLE, name).await {
                Ok(document) => show(&Table::from_value(document).map_err(Failure::other)?),
                Err(failure) if self.ignore_not_found && failure.is_not_found() => {}
                Err(failure) => failures.push(failure),
            }
        }
        if !selected.names.is_empty() {
            return Failure::all(failures);
        }
        let mut options = self.first_page()?;
        loop {
            let document = documents::page(&api, accept::TABLE, &options).await?;
            let table = Table::from_value(document).map_err(Failure::other)?;
            progress.hide();
            show(&table);
            if !Self::next_page(&mut options, &table.metadata.continue_token) {
                return Ok(());
            }
            progress.note(table.rows.len(), table.metadata.remaining_item_count);
            progress.show();
        }
    }

    fn layout(&self, format: &Format, selected: &Selected, several: bool) -> Layout {
        let resource = &selected.resource.resource;
        Layout {
            wide: *format == Format::Wide,
            no_headers: self.no_headers,
            show_namespace: self.all_namespaces && is_namespaced(resource),
            show_labels: self.show_labels,
            label_columns: self.label_columns.clone(),
            name_prefix: match several || self.show_kind {
                true => format!("{}/", resource.display_kind()),
                false => String::new(),
            },
            show_event: self.output_watch_events,
        }
    }

    fn nothing(&self, selected: &[Selected], cluster: &Cluster) -> String {
        let namespaced = selected.iter().any(|one| is_namespaced(&one.resource.resource));
        match namespaced && !self.all_namespaces {
            true => format!("No resources found in {} namespace.", cluster.namespace),
            false => "No resources found".to_owned(),
        }
    }
}
