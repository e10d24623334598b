//! Compares the answers of two servers, except for uids, times, versions and generated names.

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, header};
use serde_json::{Map, Value};
use watchkeeper_client::{Client, SendOptions};

use crate::Step;

/// An answer in comparable form.
pub(crate) struct Answer {
    warnings: Vec<String>,
    body: Value,
}

/// Fields whose values differ; only their presence is compared.
const OWN: &[&str] = &[
    "continue",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "resourceVersion",
    "time",
    "uid",
];

pub(crate) async fn send(client: &Client, step: &Step) -> anyhow::Result<Answer> {
    let body = match &step.body {
        None => Bytes::new(),
        Some(Value::String(text)) => Bytes::from(text.clone()),
        Some(value) => Bytes::from(value.to_string()),
    };
    let content_type = step.content_type.as_deref().unwrap_or("application/json");
    let request = Request::builder()
        .method(&*step.method)
        .uri(&*step.path)
        .header(header::USER_AGENT, "differential")
        .header(header::CONTENT_TYPE, content_type)
        .header(
            header::ACCEPT,
            step.accept.as_deref().unwrap_or("application/json"),
        )
        .body(body)
        .with_context(|| step.name.clone())?;
    match client.send(request, &SendOptions::default()).await {
        Ok(response) => {
            let warnings = response.headers().get_all(header::WARNING).into_iter();
            let warnings = warnings
                .filter_map(|warning| warning.to_str().ok())
                .map(str::to_owned)
                .collect();
            let body = response.into_body().collect(usize::MAX).await?;
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            Ok(Answer {
                warnings,
                body: comparable(body),
            })
        }
        Err(error) => {
            let status = error
                .status()
                .with_context(|| format!("{}: {error}", step.name))?;
            let body = comparable(serde_json::to_value(status)?);
            Ok(Answer {
                warnings: Vec::new(),
                body,
            })
        }
    }
}

/// A value without the parts that differ between any two servers.
fn comparable(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Map<String, Value> = members
                .into_iter()
                .map(
                    |(name, value)| match OWN.contains(&&*name) && !value.is_null() && value != "" {
                        true => (name, Value::from("*")),
                        false => (name, comparable(value)),
                    },
                )
                .collect();
            if let Some(Value::Array(entries)) = members.get_mut("managedFields") {
                entries.sort_by_key(Value::to_string);
            }
            Value::Object(members)
        }
        Value::Array(items) => items.into_iter().map(comparable).collect(),
        // The field manager of definitions is the server's name.
        Value::String(text) if text == "apiextensions-apiserver" => Value::from("kube-apiserver"),
        Value::String(text) => Value::String(masked(&text)),
        other => other,
    }
}

/// Replaces times, uids, versions and ages in a text by stars.
fn masked(text: &str) -> String {
    let is_age = |text: &str| {
        let digits = text.trim_end_matches(|c: char| "smhdy".contains(c));
        digits.len() < text.len() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if is_age(text) {
        return "*".to_owned();
    }
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "-:.".contains(c);
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let is_version =
            out.ends_with("resourceVersion\":\"") && word.bytes().all(|byte| byte.is_ascii_digit());
        let is_own = is_version || is_uid(word) || word.parse::<jiff::Timestamp>().is_ok();
        out.push_str(if is_own { "*" } else { word });
        let next = after.chars().next().map_or(0, char::len_utf8);
        out.push_str(&after[..next]);
        rest = &after[next..];
    }
    out
}

fn is_uid(word: &str) -> bool {
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12]
}

/// The differences between two answers, one per line.
pub(crate) fn differences(theirs: &Answer, own: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    if theirs.warnings != own.warnings {
        found.push(format!(
            "warnings: {:?}, here {:?}",
            theirs.warnings, own.warnings
        ));
    }
    collect("", &theirs.body, &own.body, &mut found);
    found
}

fn collect(path: &str, theirs: &Value, own: &Value, found: &mut Vec<String>) {
    match (theirs, own) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one
                .keys()
                .chain(other.keys().filter(|name| !one.contains_key(*name)));
            for name in names {
                let (one, other) = (one.get(name), other.get(name));
                let none = Value::from("(none)");
                let path = format!("{path}/{name}");
                collect(&path, one.unwrap_or(&none), other.unwrap_or(&none), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                collect(&format!("{path}/{index}"), one, other, found);
            }
        }
        (theirs, own) if theirs != own => found.push(format!("{path}: {theirs}, here {own}")),
        _ => {}
    }
}
