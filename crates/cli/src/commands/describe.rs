//! `describe`: one object in readable form, with its events. The same for every kind.

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{FieldSelector, ListOptions, accept};

use crate::age;
use crate::cluster::Cluster;
use crate::documents;
use crate::failure::Failure;
use crate::json_path::plain;
use crate::selection::{Selectors, select};
use crate::session::Session;
use crate::table::print_aligned;

/// The indentation of nested fields.
const INDENT: usize = 2;

/// A copy of the whole object, secrets included: not shown.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

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
  watchkeeper describe pods -l app=web")]
pub(crate) struct Describe {
    /// Objects: kind/name …, a kind and names, or a kind
    #[arg(value_name = "RESOURCE", required = true)]
    words: Vec<String>,

    #[command(flatten)]
    selectors: Selectors,

    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Omit the events
    #[arg(long)]
    no_events: bool,
}

/// Describes each object, separated by two empty lines.
pub(crate) async fn run(describe: Describe, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let (mut shown, mut failures) = (0, Vec::new());
    for selected in select(cluster, &describe.words).await? {
        let api = cluster.objects(&selected.resource.resource, describe.all_namespaces);
        for object in describe.objects(&api, &selected.names, &mut failures).await? {
            if shown > 0 {
                session.out.write_all(b"\n\n")?;
            }
            shown += 1;
            print_object(&object, &mut session.out)?;
            if !describe.no_events {
                print_events(&events(cluster, &object).await?, &mut session.out)?;
            }
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
            match documents::object(api, accept::JSON, name).await {
                Ok(object) => found.push(object),
                Err(failure) => failures.push(failure),
            }
        }
        if names.is_empty() {
            let list = api
                .clone()
                .json_only()
                .pages()
                .with(&self.selectors.list_options()?)
                .collect()
                .await?;
            for object in list.items {
                found.push(object.to_value().map_err(Failure::other)?);
            }
        }
        Ok(found)
    }
}

/// The most important fields first, then everything else.
fn print_object(object: &Value, out: &mut impl Write) -> io::Result<()> {
    let metadata = &object["metadata"];
    let mut lines = vec![vec!["Name:".to_owned(), plain(&metadata["name"])]];
    if let Some(namespace) = metadata["namespace"].as_str() {
        lines.push(vec!["Namespace:".to_owned(), namespace.to_owned()]);
    }
    lines.extend(pairs("Labels:", &metadata["labels"]));
    lines.extend(pairs("Annotations:", &metadata["annotations"]));
    lines.push(vec!["API Version:".to_owned(), plain(&object["apiVersion"])]);
    lines.push(vec!["Kind:".to_owned(), plain(&object["kind"])]);
    lines.push(vec!["Created:".to_owned(), plain(&metadata["creationTimestamp"])]);
    if let Some(owners) = metadata["ownerReferences"].as_array() {
        let owner = |owner: &Value| format!("{}/{}", plain(&owner["kind"]), plain(&owner["name"]));
        let owners: Vec<_> = owners.iter().map(owner).collect();
        lines.push(vec!["Controlled By:".to_owned(), owners.join(", ")]);
    }
    print_aligned(&lines, &mut Vec::new(), out)?;
    let rest = object.as_object().into_iter().flatten();
    let is_secret = object["kind"] == "Secret";
    for (key, value) in rest.filter(|(key, _)| !["apiVersion", "kind", "metadata"].contains(&key.as_str())) {
        match is_secret && (key == "data" || key == "stringData") {
            true => print_field(key, &sizes(value), 0, out)?,
            false => print_field(key, value, 0, out)?,
        }
    }
    Ok(())
}

/// The size of each secret instead of its value. Four base64 characters are three bytes.
fn sizes(secrets: &Value) -> Value {
    let size = |secret: &Value| plain(secret).trim_end_matches('=').len() * 3 / 4;
    let secrets = secrets.as_object().into_iter().flatten();
    secrets
        .map(|(key, secret)| (key.clone(), Value::from(format!("{} bytes", size(secret)))))
        .collect()
}

fn pairs(title: &str, values: &Value) -> Vec<Vec<String>> {
    let texts: Vec<_> = match values.as_object() {
        Some(values) => values
            .iter()
            .filter(|(key, _)| *key != LAST_APPLIED)
            .map(|(key, value)| format!("{key}={}", plain(value)))
            .collect(),
        None => vec!["<none>".to_owned()],
    };
    let line = |(index, text)| {
        vec![
            if index == 0 {
                title.to_owned()
            } else {
                String::new()
            },
            text,
        ]
    };
    texts.into_iter().enumerate().map(line).collect()
}

/// A field and its nested fields. The depth was limited when the answer was parsed.
fn print_field(key: &str, value: &Value, indent: usize, out: &mut impl Write) -> io::Result<()> {
    print_titled(&title(key), PEOPLES_KEYS.contains(&key), value, indent, out)
}

fn print_titled(
    title: &str,
    peoples_keys: bool,
    value: &Value,
    indent: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    match value {
        Value::Object(fields) => {
            writeln!(out, "{:indent$}{title}:", "")?;
            fields.iter().try_for_each(|(key, value)| match peoples_keys {
                true => print_titled(key, false, value, indent + INDENT, out),
                false => print_field(key, value, indent + INDENT, out),
            })
        }
        Value::Array(items) => {
            writeln!(out, "{:indent$}{title}:", "")?;
            items
                .iter()
                .try_for_each(|item| print_item(item, indent + INDENT, out))
        }
        value => writeln!(out, "{:indent$}{title}: {}", "", plain(value)),
    }
}

fn print_item(item: &Value, indent: usize, out: &mut impl Write) -> io::Result<()> {
    match item {
        Value::Object(fields) => {
            writeln!(out, "{:indent$}-", "")?;
            fields
                .iter()
                .try_for_each(|(key, value)| print_field(key, value, indent + INDENT, out))
        }
        item => writeln!(out, "{:indent$}- {}", "", plain(item)),
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
    let resource = cluster.resource("events").await?.resource;
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let api = cluster.client.dynamic(resource).namespace(namespace);
    let options = ListOptions {
        field_selector: FieldSelector::equals("involvedObject.uid", plain(&metadata["uid"])),
        ..Default::default()
    };
    let list = api.pages().with(&options).collect().await?;
    let values = list
        .items
        .iter()
        .map(|event| event.to_value().map_err(Failure::other));
    values.collect()
}

fn print_events(events: &[Value], out: &mut impl Write) -> io::Result<()> {
    if events.is_empty() {
        return writeln!(out, "Events: <none>");
    }
    writeln!(out, "Events:")?;
    let mut lines = vec![
        ["  Type", "Reason", "Age", "From", "Message"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let now = age::now();
    for event in events {
        let time = ["lastTimestamp", "eventTime", "firstTimestamp"];
        let time = time.iter().find_map(|field| event[field].as_str()?.parse().ok());
        lines.push(vec![
            format!("  {}", plain(&event["type"])),
            plain(&event["reason"]),
            age::since(time, now),
            event["source"]["component"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            plain(&event["message"]).trim().to_owned(),
        ]);
    }
    print_aligned(&lines, &mut Vec::new(), out)
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
