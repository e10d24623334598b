//! `get`: objects as tables, documents or names, asked for page by page; with `-w`, what becomes of them.

mod watching;

use std::io::Write as _;

use clap::Args;
use serde_json::Value;
use watchkeeper_meta::{ListOptions, accept};

use crate::cluster::{Cluster, is_namespaced};
use crate::documents;
use crate::failure::Failure;
use crate::format::{Documents, Format, complete};
use crate::progress::Progress;
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

JSONPath has fields, [0], [-1], [*], ['name'], {range}…{end} and text; no filters, slices or '..'.")]
pub(crate) struct Get {
    /// What to show: kinds, a kind and names, or kind/name …
    #[arg(value_name = "RESOURCE")]
    words: Vec<String>,

    #[command(flatten)]
    selectors: Selectors,

    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// How: wide, json, yaml, name, jsonpath=…, custom-columns=…
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<String>,

    /// Go on with what changes
    #[arg(short, long)]
    watch: bool,

    /// Only what changes from now on
    #[arg(long)]
    watch_only: bool,

    /// Say what happened to each object: ADDED, MODIFIED or DELETED
    #[arg(long)]
    output_watch_events: bool,

    /// How many objects to ask for at a time; 0 asks for all at once
    #[arg(long, value_name = "COUNT", default_value_t = 500)]
    chunk_size: u64,

    /// Print no headers
    #[arg(long)]
    no_headers: bool,

    /// Show these labels, each in a column of its own
    #[arg(short = 'L', long, value_name = "LABELS", value_delimiter = ',')]
    label_columns: Vec<String>,

    /// Put the kind in front of names
    #[arg(long)]
    show_kind: bool,

    /// Show all labels in a last column
    #[arg(long)]
    show_labels: bool,

    /// Keep metadata.managedFields in json and yaml
    #[arg(long)]
    show_managed_fields: bool,

    /// An object that does not exist is fine
    #[arg(long)]
    ignore_not_found: bool,
}

/// Shows what the words stand for.
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
    if get.watch || get.watch_only {
        return watching::run(&get, &format, &selected, cluster, session).await;
    }
    match format.is_table() {
        true => get.tables(&format, &selected, cluster, session).await,
        false => get.documents(&format, &selected, cluster, session).await,
    }
}

impl Get {
    /// One table per kind, an empty line between two.
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
                .each_page(one, cluster, accept::TABLE, &mut progress, |document| {
                    printer.gather(&Table::from_value(document).map_err(Failure::other)?, "");
                    Ok(())
                })
                .await;
            // What came before a failure is worth showing.
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

    async fn documents(
        &self,
        format: &Format,
        selected: &[Selected],
        cluster: &Cluster,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let (mut found, mut failures) = (Vec::new(), Vec::new());
        let mut progress = Progress::new(session);
        for one in selected {
            let resource = &one.resource.resource;
            let mut keep = |mut object: Value| {
                complete(&mut object, resource, self.show_managed_fields);
                found.push((resource.clone(), object));
            };
            let result = self
                .each_page(one, cluster, accept::JSON, &mut progress, |mut document| {
                    match document.get_mut("items").map(Value::take) {
                        Some(Value::Array(items)) => items.into_iter().for_each(&mut keep),
                        _ => keep(document),
                    }
                    Ok(())
                })
                .await;
            if let Err(failure) = result {
                failures.push(failure);
            }
        }
        let single = selected.len() == 1 && selected[0].names.len() == 1;
        if !(single && found.is_empty()) {
            let documents = Documents { items: found, single };
            format.print(documents, self.no_headers, &mut session.out)?;
        }
        Failure::all(failures)
    }

    /// Hands over each object asked for by name, or each page of the list.
    async fn each_page(
        &self,
        selected: &Selected,
        cluster: &Cluster,
        accept: &str,
        progress: &mut Progress,
        mut show: impl FnMut(Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let api = cluster.objects(&selected.resource.resource, self.all_namespaces);
        let mut failures = Vec::new();
        for name in &selected.names {
            match documents::object(&api, accept, name).await {
                Ok(document) => show(document)?,
                Err(failure) if self.ignore_not_found && failure.is_not_found() => {}
                Err(failure) => failures.push(failure),
            }
        }
        if !selected.names.is_empty() {
            return Failure::all(failures);
        }
        let mut options = ListOptions {
            limit: Some(self.chunk_size).filter(|&size| size > 0),
            ..self.selectors.list_options()?
        };
        loop {
            let document = documents::page(&api, accept, &options).await?;
            options.continue_token = documents::continue_token(&document);
            progress.note(&document);
            progress.hide();
            show(document)?;
            if options.continue_token.is_empty() {
                return Ok(());
            }
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
