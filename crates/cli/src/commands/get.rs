//! `get`: objects as tables, documents or names, requested page by page; with `-w`, a watch.

mod watching;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use futures_util::StreamExt as _;
use serde_json::Value;
use watchkeeper_client::{DynamicApi, ListItem};
use watchkeeper_meta::{ListOptions, Resource, ResourceVersion, ResourceVersionMatch};
use watchkeeper_recording::{Moment, PastError, Recording};
use watchkeeper_replay::{LoadOptions, Replay};
use watchkeeper_wire::Object;

use crate::cluster::{Cluster, client_options, is_namespaced};
use crate::cluster_arguments::ClusterArguments;
use crate::documents::{self, Form};
use crate::failure::Failure;
use crate::format::{Format, complete};
use crate::list_printer::ListPrinter;
use crate::manifests::Filenames;
use crate::output::Output;
use crate::progress::Progress;
use crate::recorded::{moment, warn_of_end};
use crate::selection::{Selected, Selectors};
use crate::session::Session;
use crate::sort_key::SortKey;
use crate::table::{Layout, Printer, Table};
use crate::targets::{check_selection, named};

/// The largest answer of `--raw`.
const MAX_RAW_BYTES: usize = 512 << 20;

/// Show objects
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper get pods
  watchkeeper get pods,services -A -o wide
  watchkeeper get deployment/web service/web -o yaml
  watchkeeper get pods -l app=web -w
  watchkeeper get pods -A --sort-by .metadata.creationTimestamp
  watchkeeper get -f web.yaml
  watchkeeper get deployment web --subresource scale -o yaml
  watchkeeper get --raw /readyz
  watchkeeper get pods -o jsonpath='{.items[*].metadata.name}'
  watchkeeper get nodes -o custom-columns=NAME:.metadata.name,UID:.metadata.uid
  watchkeeper get pods --at 1234
  watchkeeper get pods --recording incident.rec --at 2026-01-31T12:00:00Z

JSONPath is kubectl's: fields, [0], [-1], [1:3], [*], ['name'], [?(@.a==\"b\")], '..', {range}…{end}
and text.")]
pub(crate) struct Get {
    /// Objects: kinds, a kind and names, or kind/name …
    #[arg(value_name = "RESOURCE")]
    words: Vec<String>,

    #[command(flatten)]
    files: Filenames,

    #[command(flatten)]
    selectors: Selectors,

    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Output format: wide, json, yaml, name, jsonpath=…, custom-columns=…
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<String>,

    /// Sort by this field, a JSONPath: .metadata.name
    #[arg(long, value_name = "PATH", value_parser = SortKey::parse)]
    sort_by: Option<SortKey>,

    /// Print the answer to this path of the server: /healthz
    #[arg(long, value_name = "PATH", conflicts_with_all = ["words", "filename", "output", "watch", "recording"])]
    raw: Option<String>,

    /// Subresource of the named objects: status, scale
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,

    /// As it was: at a recent version of the cluster; in a recording, at a version or a time
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
    let options = LoadOptions {
        at,
        until: at,
        ..Default::default()
    };
    let replay = Replay::load(&recording, &options).await.map_err(Failure::other)?;
    warn_of_end(replay.span(), &at, session);
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
    if let Some(path) = &get.raw {
        return raw(path, cluster, session).await;
    }
    let format = match &get.output {
        Some(text) => Format::parse(text)?,
        None => Format::Table,
    };
    let selected = named(&get.words, &get.files, cluster, session).await?;
    for one in &selected {
        check_selection(one, !get.selectors.is_empty(), get.all_namespaces)?;
    }
    if get.subresource.is_some() && selected.iter().any(|one| one.names.is_empty()) {
        return Err(Failure::text(
            "--subresource is for named objects: deployment/web",
        ));
    }
    if get.sort_by.is_some() && (get.watch || get.watch_only) {
        return Err(Failure::text("--sort-by needs all objects at once: leave out -w"));
    }
    if get.at.is_some() && (get.watch || get.watch_only || selected.iter().any(|one| !one.names.is_empty())) {
        return Err(Failure::text(
            "--at shows lists: use --field-selector metadata.name=NAME for one object, or --recording",
        ));
    }
    if get.watch || get.watch_only {
        return watching::run(&get, &format, &selected, cluster, session).await;
    }
    if let (Some(Moment::Revision(asked)), Some(one)) = (get.at, selected.first()) {
        get.check_reached(asked, one, cluster).await?;
    }
    match format.is_table() {
        true => get.tables(&format, &selected, cluster, session).await,
        false => get.documents(&format, &selected, cluster, session).await,
    }
}

/// Prints an answer as it comes, with a line end.
async fn raw(path: &str, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    if !path.starts_with('/') {
        return Err(Failure::text(
            "--raw takes a path of the server, as in /api/v1/namespaces",
        ));
    }
    let answer = cluster.client.get_raw(path, MAX_RAW_BYTES).await?;
    session.out.write_all(&answer)?;
    if answer.last().is_some_and(|last| *last != b'\n') {
        session.out.write_all(b"\n")?;
    }
    Ok(())
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
            let mut kept = Vec::new();
            let result = self
                .each_table(one, cluster, &mut progress, |table| match &self.sort_by {
                    Some(_) => kept.push(table),
                    None => printer.gather(&table, ""),
                })
                .await;
            if let (Some(key), Some(table)) = (&self.sort_by, Table::joined(kept)) {
                key.check(table.rows.iter().map(|row| &row.object))?;
                printer.gather(&key.sorted(table), "");
            }
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
            session.err.line(self.nothing(selected, cluster).await);
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
        let mut kept = Vec::new();
        for one in selected {
            let resource = &one.resource.resource;
            let api = self.documents_of(format, one, cluster);
            let result = self
                .each_object(one, &api, &mut progress, |object| {
                    if *format == Format::Name && self.sort_by.is_none() {
                        return Ok(writeln!(session.out, "{}", resource.display_name(object.name()))?);
                    }
                    let mut object = object.to_value().map_err(Failure::other)?;
                    complete(&mut object, resource, self.show_managed_fields);
                    if self.sort_by.is_some() {
                        kept.push((resource, object));
                        return Ok(());
                    }
                    self.document(format, &mut list, (resource, object), &mut session.out)
                })
                .await;
            match result {
                Ok(()) => {}
                // The output is closed.
                Err(failure @ Failure::Output(_)) => return Err(failure),
                Err(failure) => failures.push(failure),
            }
        }
        if let Some(key) = &self.sort_by {
            key.check(kept.iter().map(|(_, object)| object))?;
            kept.sort_by(|(_, left), (_, right)| key.compare(left, right));
        }
        for object in kept {
            self.document(format, &mut list, object, &mut session.out)?;
        }
        if let Some(list) = list {
            list.finish(&mut session.out)?;
        }
        Failure::all(failures)
    }

    /// Prints one object, of a list or alone.
    fn document(
        &self,
        format: &Format,
        list: &mut Option<ListPrinter<'_>>,
        (resource, object): (&Resource, Value),
        out: &mut Output,
    ) -> Result<(), Failure> {
        match list {
            Some(list) if *format != Format::Name => list.object(object, out),
            _ => format.print(resource, &object, self.no_headers, out),
        }
    }

    /// The API of a resource in the smallest form that has everything to print. JSON, not protobuf: a newer server
    /// may have fields that we do not know.
    fn documents_of(&self, format: &Format, selected: &Selected, cluster: &Cluster) -> DynamicApi {
        let mut api = selected.api(cluster, self.all_namespaces);
        if let Some(subresource) = &self.subresource {
            api = api.subresource(subresource);
        }
        match (format, self.show_managed_fields) {
            (Format::Name, _) if self.sort_by.is_none() => api.metadata_only(),
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

    /// Refuses a version that does not exist yet: a server waits for it and times out, and a client repeats that.
    async fn check_reached(&self, asked: u64, one: &Selected, cluster: &Cluster) -> Result<(), Failure> {
        let options = ListOptions {
            limit: Some(1),
            ..Default::default()
        };
        let api = one.api(cluster, self.all_namespaces).metadata_only();
        let list = api.list().with(&options).await?;
        match list.head.resource_version.to_revision() {
            Ok(now) if now < asked => Err(Failure::other(PastError::Later { asked, now })),
            _ => Ok(()),
        }
    }

    fn first_page(&self) -> Result<ListOptions, Failure> {
        let at = match self.at {
            None | Some(Moment::End) => None,
            Some(Moment::Revision(revision)) => Some(revision),
            Some(Moment::Time(_)) => {
                return Err(Failure::text(
                    "the history of a cluster has versions, not times: name a version, or a recording with --recording",
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

    /// Sets the options for the next page; returns false after the last. The token determines the version.
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
        mut show: impl FnMut(Table),
    ) -> Result<(), Failure> {
        let api = selected.api(cluster, self.all_namespaces);
        let form = Form {
            subresource: self.subresource.as_deref(),
            whole_objects: self.sort_by.is_some(),
            ..Form::TABLE
        };
        let mut failures = Vec::new();
        for name in &selected.names {
            match documents::object(&api, form, name).await {
                Ok(document) => show(Table::from_value(document).map_err(Failure::other)?),
                Err(failure) if self.ignore_not_found && failure.is_not_found() => {}
                Err(failure) => failures.push(failure),
            }
        }
        if !selected.names.is_empty() {
            return Failure::all(failures);
        }
        let mut options = self.first_page()?;
        loop {
            let document = documents::page(&api, form, &options).await?;
            let table = Table::from_value(document).map_err(Failure::other)?;
            progress.hide();
            let (rows, remaining) = (table.rows.len(), table.metadata.remaining_item_count);
            let is_last = !Self::next_page(&mut options, &table.metadata.continue_token);
            show(table);
            if is_last {
                return Ok(());
            }
            progress.note(rows, remaining);
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

    async fn nothing(&self, selected: &[Selected], cluster: &Cluster) -> String {
        let namespaced = selected.iter().all(|one| is_namespaced(&one.resource.resource));
        if self.all_namespaces || !namespaced {
            return "No resources found".to_owned();
        }
        let namespace = &cluster.namespace;
        let nothing = format!("No resources found in {namespace} namespace.");
        match cluster.lacks_its_namespace().await {
            true => format!(
                "{nothing}\nThere is no namespace {namespace:?}; `watchkeeper get namespaces` lists them."
            ),
            false => nothing,
        }
    }
}
