//! Recorded exchanges with a Kubernetes API server, and their replay against a registry.
//!
//! A case is a list of requests and answers. [`replay`] sends those that a registry without HTTP supports, with
//! values from earlier answers filled in, and returns each answer beside the recorded one. Both are normalized: uids,
//! versions, times and generated names are removed.

#![allow(dead_code, reason = "each suite uses its part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use watchkeeper_meta::{DeleteOptions, FieldValidation, GetOptions, GroupVersionResource, Status};
use watchkeeper_registry::{
    Body, Deletion, Format, Part, PatchKind, Registry, RegistryOptions, StoredObject, TokenIssuer, User,
    WriteContext,
};
use watchkeeper_storage::{Store, StoreOptions};

/// One request of a case and its answers.
pub(crate) struct Exchange {
    /// `crud/pod.json create`.
    pub(crate) name: String,
    /// `POST`.
    pub(crate) method: String,
    /// The resource's plural name, with a special subresource if there is one.
    pub(crate) resource: String,
    /// The answer of the recorded server.
    pub(crate) expected: Answer,
    /// The answer of the registry.
    pub(crate) got: Answer,
}

/// A normalized answer.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

/// Counts equal answers and collects differences, except known ones.
pub(crate) struct Report {
    differs: &'static [(&'static str, &'static str)],
    wrong: Vec<String>,
    right: usize,
}

impl Report {
    pub(crate) fn new(differs: &'static [(&'static str, &'static str)]) -> Self {
        Self {
            differs,
            wrong: Vec::new(),
            right: 0,
        }
    }

    pub(crate) fn add(&mut self, exchange: &Exchange) {
        let Exchange {
            name, got, expected, ..
        } = exchange;
        let is_known = self.differs.iter().any(|(known, _)| known == name);
        match got == expected {
            true if is_known => self.wrong.push(format!("{name} no longer differs")),
            true => self.right += 1,
            false if is_known => {}
            false => self.wrong.push(format!(
                "{name}\n  recorded {} {:?}\n  got      {} {:?}",
                expected.body, expected.warnings, got.body, got.warnings
            )),
        }
    }

    /// Fails if there are differences, or if too few answers were compared.
    pub(crate) fn finish(self, at_least: usize) {
        let (right, wrong) = (self.right, self.wrong.len());
        assert!(
            self.wrong.is_empty(),
            "{right} as recorded, {wrong} not:\n{}",
            self.wrong.join("\n")
        );
        assert!(right > at_least, "only {right} answers were compared");
    }
}

/// The recorded cases, by file.
pub(crate) fn cases() -> Vec<(String, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/wire");
    let sorted = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let folders = sorted(&root).into_iter().filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| sorted(&folder));
    files
        .map(|file| {
            let name = file.strip_prefix(&root).unwrap().display().to_string();
            (
                name,
                serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap(),
            )
        })
        .collect()
}

/// True if a case writes any of these resources.
pub(crate) fn writes_any(case: &Value, resources: &[&str]) -> bool {
    steps(case).any(|step| {
        Target::of(&step["request"]).is_some_and(|target| {
            target.method != "GET" && resources.contains(&target.resource.resource.as_ref())
        })
    })
}

/// The recorded server did not allow privileged containers.
fn as_recorded() -> RegistryOptions {
    RegistryOptions {
        allow_privileged: false,
        ..Default::default()
    }
}

/// Replays a case against a new registry.
pub(crate) async fn replay(file: &str, case: &Value) -> Vec<Exchange> {
    let store = Store::memory(StoreOptions::default());
    let registry = as_recorded().open(store).await.unwrap();
    let mut answers: BTreeMap<String, Value> = BTreeMap::new();
    let mut exchanges = Vec::new();
    for step in steps(case) {
        let request = filled_in(step, &answers);
        let Some(target) = Target::of(&request) else {
            continue;
        };
        let Some((result, warnings)) = target.send(&registry, &request).await else {
            continue;
        };
        let id = step["id"].as_str().unwrap();
        let body = result.unwrap_or_else(|status| serde_json::to_value(status).unwrap());
        answers.insert(id.to_owned(), body.clone());
        let recorded = &step["response"];
        let expected = Answer {
            body: normalized(recorded["body"].clone()),
            warnings: recorded_warnings(recorded),
        };
        exchanges.push(Exchange {
            name: format!("{file} {id}"),
            method: target.method.clone(),
            resource: match target.is_special() {
                true => format!("{}/{}", target.resource.resource, target.subresource),
                false => target.resource.resource.to_string(),
            },
            expected,
            got: Answer {
                body: normalized(body),
                warnings,
            },
        });
    }
    exchanges
}

/// A new registry.
pub(crate) async fn registry() -> Registry {
    Registry::open(Store::memory(StoreOptions::default()))
        .await
        .unwrap()
}

/// Creates a valid object.
pub(crate) async fn create(registry: &Registry, path: &str, object: Value) -> Value {
    let created = send(registry, "POST", path, object).await;
    created.unwrap_or_else(|status| panic!("{path}: {}", status.message))
}

/// Sends one request; patches are merge patches.
pub(crate) async fn send(
    registry: &Registry,
    method: &str,
    path: &str,
    body: Value,
) -> Result<Value, Status> {
    let mut request = json!({"method": method, "path": path, "body": body});
    if method == "PATCH" {
        request["headers"] = json!({"Content-Type": "application/merge-patch+json"});
    }
    let target = Target::of(&request).expect("a path of a registry");
    target
        .send(registry, &request)
        .await
        .expect("a verb of a registry")
        .0
}

/// Applies a configuration, in JSON or YAML, as a manager; `options` is the rest of the query. Also returns the
/// warnings.
pub(crate) async fn apply(
    registry: &Registry,
    path: &str,
    manager: &str,
    options: &str,
    configuration: &str,
) -> (Result<Value, Status>, Vec<String>) {
    let request = json!({
        "method": "PATCH",
        "path": format!("{path}?fieldManager={manager}{options}"),
        "headers": {"Content-Type": "application/apply-patch+yaml"},
        "body": {"text": configuration},
    });
    let target = Target::of(&request).expect("a path of a registry");
    target
        .send(registry, &request)
        .await
        .expect("a verb of a registry")
}

/// The warnings of a create.
pub(crate) async fn warnings(registry: &Registry, path: &str, body: Value) -> Vec<String> {
    warnings_of(registry, "POST", path, body).await
}

/// The warnings of a create or an update.
pub(crate) async fn warnings_of(registry: &Registry, method: &str, path: &str, body: Value) -> Vec<String> {
    let request = json!({"method": method, "path": path, "body": body});
    let target = Target::of(&request).expect("a path of a registry");
    let (written, warnings) = target
        .send(registry, &request)
        .await
        .expect("a verb of a registry");
    written.unwrap_or_else(|status| panic!("{path}: {status}"));
    warnings
}

/// A create that the recorded server accepted.
pub(crate) struct Create {
    /// `crud/pod.json create`.
    pub(crate) name: String,
    target: Target,
    request: Value,
}

/// Every create with a readable body that was accepted.
pub(crate) fn accepted_creates() -> Vec<Create> {
    let mut creates = Vec::new();
    for (file, case) in cases() {
        for step in steps(&case) {
            let (request, id) = (&step["request"], step["id"].as_str().unwrap());
            let created = request["method"] == "POST" && step["response"]["status"] == 201;
            let Some(target) = Target::of(request).filter(|target| created && target.name.is_empty()) else {
                continue;
            };
            creates.push(Create {
                name: format!("{file} {id}"),
                target,
                request: request.clone(),
            });
        }
    }
    creates
}

/// Creates the object in a new registry, and sends the answer back as an update, which must change nothing.
pub(crate) async fn put_back(create: &Create) -> Result<(), String> {
    let registry = registry().await;
    let Create { target, request, .. } = create;
    let Some(definition) = registry.definition(&target.resource) else {
        return Ok(());
    };
    if definition.is_namespaced() && target.namespace != "default" {
        let namespace = json!({
            "method": "POST",
            "path": "/api/v1/namespaces",
            "body": {"metadata": {"name": target.namespace}},
        });
        let sent = Target::of(&namespace).unwrap().send(&registry, &namespace).await;
        sent.unwrap().0.map_err(|status| status.to_string())?;
    }
    let Some((created, _)) = target.send(&registry, request).await else {
        return Ok(());
    };
    let mut created = created.map_err(|status| format!("create: {status}"))?;
    if target.query.contains_key("dryRun") {
        return Ok(());
    }
    let name = created["metadata"]["name"].as_str().unwrap().to_owned();
    let path = request["path"].as_str().unwrap().split('?').next().unwrap();
    // The server writes the status of a definition right after its creation.
    if definition.resource.kind == "CustomResourceDefinition" {
        let get = GetOptions::default();
        let found = registry.get(&definition, "", &name, &get).await;
        created = found.and_then(|found| found.to_value(&definition)).unwrap();
    }
    let put = json!({"method": "PUT", "path": format!("{path}/{name}"), "body": created});
    let (updated, _) = Target::of(&put).unwrap().send(&registry, &put).await.unwrap();
    let updated = updated.map_err(|status| format!("put back: {status}"))?;
    if updated == created {
        return Ok(());
    }
    Err(format!("put back: {created} became {updated}"))
}

fn steps(case: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["setup", "steps"].map(|list| case[list].as_array());
    lists
        .into_iter()
        .flatten()
        .flatten()
        .filter(|step| step["request"].is_object())
}

/// The target of a request.
struct Target {
    method: String,
    resource: GroupVersionResource,
    namespace: String,
    name: String,
    subresource: String,
    part: Part,
    query: BTreeMap<String, String>,
    raw_query: String,
}

impl Target {
    /// Parses a path; `None` if the registry does not serve it.
    fn of(request: &Value) -> Option<Self> {
        let path = request["path"].as_str()?;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !matches!(rest, [] | ["finalize"] | ["status"]) => {
                (*namespace, rest)
            }
            rest => ("", rest),
        };
        let (resource, name, subresource) = match rest {
            [resource] => (resource, "", ""),
            [resource, name] => (resource, *name, ""),
            [resource, name, subresource, ..] => (resource, *name, *subresource),
            _ => return None,
        };
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Some(Self {
            raw_query: query.to_owned(),
            query: pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            method: request["method"].as_str()?.to_owned(),
            resource: GroupVersionResource::new(group.to_owned(), version.to_owned(), (*resource).to_owned()),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            part: match subresource {
                "status" => Part::Status,
                "approval" => Part::Approval,
                "ephemeralcontainers" => Part::EphemeralContainers,
                "finalize" => Part::Finalize,
                "resize" => Part::Resize,
                _ => Part::Object,
            },
        })
    }

    async fn send(
        &self,
        registry: &Registry,
        request: &Value,
    ) -> Option<(Result<Value, Status>, Vec<String>)> {
        if self.is_special() {
            return self.send_special(registry, request).await;
        }
        let definition = registry.definition(&self.resource)?;
        let (namespace, name, part) = (self.namespace.as_str(), self.name.as_str(), self.part);
        let content_type = request["headers"]["Content-Type"]
            .as_str()
            .unwrap_or("application/json");
        let (format, bytes) = bytes(&request["body"], content_type)?;
        let body = Body {
            format,
            bytes: &bytes,
        };
        let context = self.context();
        let show = |object: StoredObject| object.to_value(&definition);
        let result = match (self.method.as_str(), name) {
            ("POST", "") => registry
                .create(&definition, namespace, body, &context)
                .await
                .and_then(show),
            ("PUT", _) => registry
                .update(&definition, namespace, name, part, body, &context)
                .await
                .and_then(|written| show(written.object)),
            ("PATCH", _) => registry
                .patch(
                    &definition,
                    namespace,
                    name,
                    part,
                    (PatchKind::of_content_type(content_type)?, &bytes),
                    &context,
                )
                .await
                .and_then(|written| show(written.object)),
            ("DELETE", name) if !name.is_empty() => {
                let options = match bytes.is_empty() {
                    true => DeleteOptions::from_query(&self.raw_query).ok()?,
                    false => DeleteOptions::from_json(&request["body"]).ok()?,
                };
                let deleted = registry
                    .delete(&definition, namespace, name, &options, &context)
                    .await;
                deleted.and_then(|deletion: Deletion| show(deletion.object().clone()))
            }
            // Tables and other forms are made by the server.
            ("GET", name) if !name.is_empty() && request["headers"]["Accept"].is_null() => {
                let options = GetOptions::default();
                registry
                    .get(&definition, namespace, name, &options)
                    .await
                    .and_then(show)
            }
            _ => return None,
        };
        Some((result, context.warnings.take()))
    }

    /// True for a subresource with its own handling.
    fn is_special(&self) -> bool {
        let is_part = matches!(
            self.subresource.as_str(),
            "" | "status" | "approval" | "ephemeralcontainers" | "finalize" | "resize"
        );
        !is_part || self.resource.resource == "bindings"
    }

    async fn send_special(
        &self,
        registry: &Registry,
        request: &Value,
    ) -> Option<(Result<Value, Status>, Vec<String>)> {
        let content_type = request["headers"]["Content-Type"]
            .as_str()
            .unwrap_or("application/json");
        let (format, bytes) = bytes(&request["body"], content_type)?;
        let body = Body {
            format,
            bytes: &bytes,
        };
        let (context, definition) = (self.context(), registry.definition(&self.resource));
        let (namespace, name) = (self.namespace.as_str(), self.name.as_str());
        let told = |status: Status| serde_json::to_value(status).unwrap();
        let result = match (self.method.as_str(), self.subresource.as_str()) {
            ("GET", _) if !request["headers"]["Accept"].is_null() => return None,
            ("GET", "scale") => registry.scale(&*definition?, namespace, name).await,
            ("PUT", "scale") => {
                let definition = definition?;
                registry
                    .update_scale(&definition, namespace, name, body, &context)
                    .await
            }
            ("PATCH", "scale") => {
                let (definition, kind) = (definition?, PatchKind::of_content_type(content_type)?);
                registry
                    .patch_scale(&definition, namespace, name, (kind, &bytes), &context)
                    .await
            }
            ("POST", "") => registry.bind(namespace, None, body, &context).await.map(told),
            ("POST", "binding") => registry
                .bind(namespace, Some(name), body, &context)
                .await
                .map(told),
            ("POST", "eviction") => registry
                .evict(namespace, name, body, self.context())
                .await
                .map(told),
            ("POST", "token") => {
                let issuer = TokenIssuer {
                    name: "https://kubernetes.default.svc",
                    algorithm: "none",
                    key_id: "test",
                    sign: &|said| said.iter().rev().copied().collect(),
                };
                registry
                    .request_token(namespace, name, body, &issuer, &context)
                    .await
            }
            _ => return None,
        };
        Some((result, context.warnings.take()))
    }

    fn context(&self) -> WriteContext {
        let text = |name: &str| self.query.get(name).cloned();
        WriteContext {
            manager: text("fieldManager").unwrap_or("golden".to_owned()),
            dry_run: text("dryRun").is_some(),
            force: text("force").as_deref() == Some("true"),
            field_validation: match text("fieldValidation").as_deref() {
                Some("Strict") => FieldValidation::Strict,
                Some("Ignore") => FieldValidation::Ignore,
                _ => FieldValidation::Warn,
            },
            requester: Some(User {
                name: "admin".to_owned(),
                uid: "admin".to_owned(),
                groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
                ..User::default()
            }),
            ..Default::default()
        }
    }
}

/// A body as sent; `None` if it is not text.
fn bytes(body: &Value, content_type: &str) -> Option<(Format, Vec<u8>)> {
    if !body["base64"].is_null() {
        return None;
    }
    if let Some(repeat) = body.get("repeat") {
        let text = |name: &str| repeat[name].as_str().unwrap();
        let fill = text("fill").repeat(repeat["count"].as_u64().unwrap() as usize);
        let body = [text("prefix"), &fill, text("suffix")].concat();
        return Some((Format::Json, body.into_bytes()));
    }
    let format = if content_type.contains("yaml") {
        Format::Yaml
    } else {
        Format::Json
    };
    Some(match (body, body["text"].as_str()) {
        (Value::Null, _) => (format, Vec::new()),
        (_, Some(text)) => (format, text.as_bytes().to_vec()),
        (body, None) => (format, serde_json::to_vec(body).unwrap()),
    })
}

/// The request of a step, with values from earlier answers.
fn filled_in(step: &Value, answers: &BTreeMap<String, Value>) -> Value {
    let mut request = step["request"].clone();
    let template = &step["template"];
    for part in ["path", "body"] {
        if let Some(given) = template.get(part) {
            request[part] = resolved(given, answers);
        }
    }
    request
}

fn resolved(template: &Value, answers: &BTreeMap<String, Value>) -> Value {
    if let Some(from) = template["$from"].as_str() {
        let mut value = answers.get(from).cloned().unwrap_or_default();
        for (pointer, set) in template["$set"].as_object().into_iter().flatten() {
            set_pointer(&mut value, pointer, resolved(set, answers));
        }
        for pointer in template["$unset"].as_array().into_iter().flatten() {
            unset_pointer(&mut value, pointer.as_str().unwrap());
        }
        return value;
    }
    match template {
        Value::String(text) => json!(resolved_text(text, answers)),
        Value::Array(items) => items.iter().map(|item| resolved(item, answers)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            Value::Object(
                fields
                    .map(|(name, value)| (name.clone(), resolved(value, answers)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

/// `{{step/json/pointer}}` is replaced by a part of an earlier answer.
fn resolved_text(text: &str, answers: &BTreeMap<String, Value>) -> String {
    let Some((before, rest)) = text.split_once("{{") else {
        return text.to_owned();
    };
    let (reference, after) = rest.split_once("}}").unwrap();
    let (step, pointer) = reference.split_at(reference.find('/').unwrap_or(reference.len()));
    let found = answers.get(step).and_then(|answer| answer.pointer(pointer));
    let found = found.and_then(Value::as_str).unwrap_or_default();
    format!("{before}{found}{}", resolved_text(after, answers))
}

fn parent_of<'v>(value: &'v mut Value, pointer: &str) -> (&'v mut Value, String) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let last = last.replace("~1", "/").replace("~0", "~");
    if value.pointer(parent).is_none() {
        set_pointer(value, parent, json!({}));
    }
    (value.pointer_mut(parent).unwrap(), last)
}

fn set_pointer(value: &mut Value, pointer: &str, set: Value) {
    let (parent, last) = parent_of(value, pointer);
    match parent {
        Value::Array(items) => match last.parse::<usize>() {
            Ok(index) if index < items.len() => items[index] = set,
            _ => items.push(set),
        },
        parent => parent[last.as_str()] = set,
    }
}

fn unset_pointer(value: &mut Value, pointer: &str) {
    let (parent, last) = parent_of(value, pointer);
    match parent {
        Value::Array(items) => drop(items.remove(last.parse().unwrap())),
        Value::Object(fields) => drop(fields.remove(&last)),
        _ => {}
    }
}

fn recorded_warnings(response: &Value) -> Vec<String> {
    let values = match &response["headers"]["Warning"] {
        Value::Array(values) => values.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let unquoted = |value: &Value| {
        let text = value.as_str().unwrap().trim_start_matches("299 - ");
        serde_json::from_str::<String>(text).unwrap()
    };
    values.iter().map(unquoted).collect()
}

/// A normalized body.
fn normalized(mut body: Value) -> Value {
    if body["metadata"]["generateName"].is_string() {
        body["metadata"]["name"] = json!("GENERATED");
    }
    if let Some(Value::String(token)) = body.pointer_mut("/status/token")
        && token.split('.').count() == 3
    {
        *token = "TOKEN".to_owned();
    }
    if let Some(Value::Array(entries)) = body.pointer_mut("/metadata/managedFields") {
        entries.sort_by_key(|entry| {
            let key = ["operation", "manager", "subresource", "apiVersion", "fieldsV1"];
            key.map(|name| entry[name].to_string())
        });
    }
    normalize(&mut body);
    body
}

fn normalize(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(fields) => {
            if let Some(version) = fields.get_mut("resourceVersion") {
                *version = json!("VERSION");
            }
            fields.values_mut().for_each(normalize);
        }
        Value::String(text) => *text = without_uids(text),
        _ => {}
    }
}

/// Replaces uids and times of this run by placeholders.
fn without_uids(text: &str) -> String {
    let is_time = text.len() >= 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
    if is_time && text > "2021" {
        return "TIME".to_owned();
    }
    let bytes = text.as_bytes();
    let is_uid = |at: usize| {
        text.is_char_boundary(at)
            && text.get(at..at + 36).is_some_and(|part| {
                part.bytes().enumerate().all(|(index, byte)| match index {
                    8 | 13 | 18 | 23 => byte == b'-',
                    _ => byte.is_ascii_hexdigit(),
                })
            })
    };
    let mut out = String::new();
    let mut at = 0;
    while at < bytes.len() {
        if is_uid(at) {
            out.push_str("UID");
            at += 36;
        } else {
            let c = text[at..].chars().next().unwrap();
            out.push(c);
            at += c.len_utf8();
        }
    }
    out
}
