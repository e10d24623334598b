//! `describe`: one object in readable form, with its events. The kinds that people describe read as in kubectl; any
//! other kind is shown field by field.

mod node;
mod others;
mod page;
mod pod;
mod workload;

use std::io::Write as _;

use clap::Args;
use serde_json::Value;
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{FieldSelector, ListOptions, Resource};

use crate::cluster::{Cluster, is_namespaced};
use crate::documents::{self, Form};
use crate::event_lines::{age_of, source, time_of};
use crate::failure::Failure;
use crate::json_path::plain;
use crate::manifests::Filenames;
use crate::owned::list;
use crate::selection::Selectors;
use crate::session::Session;
use crate::targets::{check_selection, named};
use page::{Page, fields, items, moment, text};

/// Maps whose keys are chosen by users.
const PEOPLES_KEYS: [&str; 7] = [
    "annotations",
    "binaryData",
    "data",
    "labels",
    "matchLabels",
    "nodeSelector",
    "selector",
];

/// Show an object in readable form, with its events
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper describe pod web
  watchkeeper describe deployment/web service/web
  watchkeeper describe pods -l app=web
  watchkeeper describe -f web.yaml")]
pub(crate) struct Describe {
    /// Objects: kind/name …, a kind and names, a kind and the start of names, or a kind
    #[arg(value_name = "RESOURCE", required_unless_present_any = ["filename", "kustomize"])]
    words: Vec<String>,

    #[command(flatten)]
    files: Filenames,

    #[command(flatten)]
    selectors: Selectors,

    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Show the events about it
    #[arg(long, value_name = "BOOL", default_value_t = true, require_equals = true, num_args = 0..=1,
        default_missing_value = "true", action = clap::ArgAction::Set)]
    show_events: bool,
}

/// Describes each object, separated by empty lines.
pub(crate) async fn run(describe: Describe, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let (mut shown, mut failures) = (0, Vec::new());
    for selected in named(&describe.words, &describe.files, cluster, session).await? {
        check_selection(&selected, !describe.selectors.is_empty(), describe.all_namespaces)?;
        let api = selected.api(cluster, describe.all_namespaces);
        for object in describe.objects(&api, &selected.names, &mut failures).await? {
            // kubectl separates objects whose names only start so by one empty line, and ends with it.
            let name = text(&object["metadata"]["name"]);
            let is_similar = !selected.names.is_empty() && !selected.names.contains(&name);
            if shown > 0 && !is_similar {
                session.out.write_all(b"\n\n")?;
            }
            shown += 1;
            let mut page = Page::default();
            describe_object(&selected.resource.resource, &object, cluster, &mut page).await?;
            if describe.show_events && !has_no_events(&selected.resource.resource) {
                print_events(events(cluster, &object).await?, &mut page);
            }
            session.out.write_all(page.into_text().as_bytes())?;
            if is_similar {
                session.out.write_all(b"\n")?;
            }
        }
        if shown == 0 && selected.names.is_empty() {
            session
                .err
                .line(nothing(&selected.resource.resource, &describe, cluster));
        }
    }
    Failure::all(failures)
}

impl Describe {
    async fn objects(
        &self,
        api: &DynamicApi,
        names: &[String],
        failures: &mut Vec<Failure>,
    ) -> Result<Vec<Value>, Failure> {
        let mut found = Vec::new();
        for name in names {
            match documents::object(api, Form::JSON, name).await {
                Ok(object) => found.push(object),
                // As in kubectl: `describe pod web` describes all pods whose name starts with it.
                Err(failure) if failure.is_not_found() && self.words.len() == 2 && names.len() == 1 => {
                    match self.listed(api, name).await? {
                        similar if similar.is_empty() => failures.push(failure),
                        similar => found.extend(similar),
                    }
                }
                Err(failure) => failures.push(failure),
            }
        }
        match names.is_empty() {
            true => self.listed(api, "").await,
            false => Ok(found),
        }
    }

    /// The selected objects whose name starts with a prefix.
    async fn listed(&self, api: &DynamicApi, prefix: &str) -> Result<Vec<Value>, Failure> {
        let options = self.selectors.list_options()?;
        let list = api.clone().json_only().pages().with(&options).collect().await?;
        let wanted = list
            .items
            .iter()
            .filter(|object| object.name().starts_with(prefix));
        wanted
            .map(|object| object.to_value().map_err(Failure::other))
            .collect()
    }
}

fn nothing(resource: &Resource, describe: &Describe, cluster: &Cluster) -> String {
    match is_namespaced(resource) && !describe.all_namespaces {
        true => format!("No resources found in {} namespace.", cluster.namespace),
        false => "No resources found".to_owned(),
    }
}

/// kubectl describes secrets and namespaces without their events.
fn has_no_events(resource: &Resource) -> bool {
    resource.group.is_empty() && ["Secret", "Namespace"].contains(&&*resource.kind)
}

async fn describe_object(
    resource: &Resource,
    object: &Value,
    cluster: &Cluster,
    page: &mut Page,
) -> Result<(), Failure> {
    match (&*resource.group, &*resource.kind) {
        ("", "Pod") => pod::describe(object, page),
        ("", "Node") => node::describe(object, cluster, page).await?,
        ("", "Service") => others::service(object, cluster, page).await?,
        ("", "ServiceAccount") => others::service_account(object, cluster, page).await,
        ("", "ConfigMap") => others::config_map(object, page),
        ("", "Secret") => others::secret(object, page),
        ("", "Namespace") => others::namespace(object, cluster, page).await?,
        ("", "PersistentVolumeClaim") => others::claim(object, cluster, page).await?,
        ("apps", "Deployment") => workload::deployment(object, cluster, page).await?,
        ("apps", "ReplicaSet") => workload::replica_set(object, cluster, page).await?,
        ("apps", "StatefulSet") => workload::stateful_set(object, cluster, page).await?,
        ("apps", "DaemonSet") => workload::daemon_set(object, cluster, page).await?,
        ("batch", "Job") => workload::job(object, page),
        ("batch", "CronJob") => workload::cron_job(object, page),
        ("networking.k8s.io", "Ingress") => others::ingress(object, cluster, page).await?,
        _ => any(object, page),
    }
    Ok(())
}

/// The template of a workload's pods, as in the description of the workload.
pub(crate) fn pod_template(template: &Value) -> String {
    let mut page = Page::default();
    pod::template(template, &mut page);
    page.into_text()
}

/// `Controlled By: ReplicaSet/web`, if there is a controller.
fn controlled_by(metadata: &Value, page: &mut Page) {
    let controller = items(&metadata["ownerReferences"])
        .iter()
        .find(|owner| owner["controller"] == true);
    if let Some(owner) = controller {
        page.field(
            0,
            "Controlled By",
            format!("{}/{}", text(&owner["kind"]), text(&owner["name"])),
        );
    }
}

/// Any kind: the most important fields first, then everything else.
fn any(object: &Value, page: &mut Page) {
    let metadata = &object["metadata"];
    page.field(0, "Name", text(&metadata["name"]));
    page.field(0, "Namespace", text(&metadata["namespace"]));
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
    page.field(0, "API Version", text(&object["apiVersion"]));
    page.field(0, "Kind", text(&object["kind"]));
    page.field(0, "CreationTimestamp", moment(&metadata["creationTimestamp"]));
    controlled_by(metadata, page);
    for (key, value) in
        fields(object).filter(|(key, _)| !["apiVersion", "kind", "metadata"].contains(&key.as_str()))
    {
        field(&title(key), PEOPLES_KEYS.contains(&key.as_str()), value, 0, page);
    }
}

/// A field and its nested fields. The depth was limited when the answer was parsed.
fn field(title: &str, peoples_keys: bool, value: &Value, level: usize, page: &mut Page) {
    match value {
        Value::Object(inner) => {
            page.line(level, format!("{title}:"));
            for (key, value) in inner {
                match peoples_keys {
                    true => field(key, false, value, level + 1, page),
                    false => {
                        field(
                            &self::title(key),
                            PEOPLES_KEYS.contains(&key.as_str()),
                            value,
                            level + 1,
                            page,
                        );
                    }
                }
            }
        }
        Value::Array(list) => {
            page.line(level, format!("{title}:"));
            list.iter().for_each(|one| item(one, level + 1, page));
        }
        value => page.field(level, title, plain(value)),
    }
}

/// An item of a list: its fields follow each other, its name first.
fn item(item: &Value, level: usize, page: &mut Page) {
    let Value::Object(inner) = item else {
        return page.line(level, plain(item));
    };
    let mut inner: Vec<_> = inner.iter().collect();
    inner.sort_by_key(|(key, _)| !["name", "type"].contains(&key.as_str()));
    for (key, value) in inner {
        field(
            &title(key),
            PEOPLES_KEYS.contains(&key.as_str()),
            value,
            level,
            page,
        );
    }
}

/// `readyReplicas` is printed as `Ready Replicas`; keys chosen by users are not changed.
fn title(key: &str) -> String {
    if !key.chars().all(|c| c.is_ascii_alphanumeric()) {
        return key.to_owned();
    }
    let mut title = String::new();
    for (index, character) in key.chars().enumerate() {
        let before_is_small = index > 0 && key.as_bytes()[index - 1].is_ascii_lowercase();
        match index {
            0 => title.push(character.to_ascii_uppercase()),
            _ if character.is_ascii_uppercase() && before_is_small => title.extend([' ', character]),
            _ => title.push(character),
        }
    }
    title
}

async fn events(cluster: &Cluster, object: &Value) -> Result<Vec<Value>, Failure> {
    let metadata = &object["metadata"];
    let options = ListOptions {
        field_selector: FieldSelector::equals("involvedObject.uid", plain(&metadata["uid"])),
        ..Default::default()
    };
    list(cluster, "", "events", &text(&metadata["namespace"]), &options).await
}

fn print_events(mut events: Vec<Value>, page: &mut Page) {
    if events.is_empty() {
        return page.field(0, "Events", "<none>");
    }
    events.sort_by_key(|event| time_of(event).map(|time| (time.seconds, time.nanos)));
    let row = |event: &Value| {
        vec![
            text(&event["type"]),
            text(&event["reason"]),
            age_of(event),
            source(event),
            text(&event["message"]).trim().to_owned(),
        ]
    };
    page.line(0, "Events:");
    page.line(1, "Type\tReason\tAge\tFrom\tMessage");
    page.line(1, "----\t------\t----\t----\t-------");
    events
        .iter()
        .for_each(|event| page.line(1, row(event).join("\t")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_read_as_words() {
        let check = |key, expected| assert_eq!(title(key), expected);
        check("readyReplicas", "Ready Replicas");
        check("clusterIP", "Cluster IP");
        check("podIPs", "Pod IPs");
        check("app.kubernetes.io/name", "app.kubernetes.io/name");
    }
}
