//! Every list, map and text of every built-in kind, found in the schema.
//!
//! Each is grown inside an object that a real API server has accepted, taken from the recordings, so that a request comes
//! as far as it can. A type that several kinds have (the spec of a pod, a label selector) is gone through in the first of
//! them: the others share its code.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};
use watchkeeper_meta::{ApiResource, Scope};
use watchkeeper_wire::schema::{Field, Schema, Shape, TypeId, resources};

use crate::growth::{Call, Cluster, list, map};

/// Items and entries, at first. Memory is counted exactly, so that few are enough.
const ITEMS: usize = 64;

/// Items and entries whose time is compared with that of eight times as many: enough for a comparison with all others, a few
/// nanoseconds each, to take longer than reading them, in a debug build.
const TIMED_ITEMS: usize = 1_500;

/// Characters of a text, at first.
const CHARACTERS: usize = 1_000;

/// True if time is compared as well as memory. That takes three times as long, so it is not part of an ordinary test run.
static TIMES: LazyLock<bool> = LazyLock::new(|| std::env::var_os("WATCHKEEPER_TIME_EVERY_FIELD").is_some());

/// The tests that share the cases, so that they run side by side.
const PARTS: usize = 4;

#[tokio::test]
async fn every_field_of_every_kind_first_part() {
    grow_part(0).await;
}

#[tokio::test]
async fn every_field_of_every_kind_second_part() {
    grow_part(1).await;
}

#[tokio::test]
async fn every_field_of_every_kind_third_part() {
    grow_part(2).await;
}

#[tokio::test]
async fn every_field_of_every_kind_fourth_part() {
    grow_part(3).await;
}

#[test]
fn no_kind_is_left_out() {
    let kinds: HashSet<&str> = CASES.iter().map(|case| &*case.resource.resource.kind).collect();
    let all = resources::all().iter().filter(|it| it.has_verb("create"));
    let missing: Vec<_> = all
        .map(|it| &it.resource.kind)
        .filter(|kind| !kinds.contains(&***kind))
        // All they have is what others have: metadata and a reference, or nothing but metadata.
        .filter(|kind| !["SelfSubjectReview"].contains(&&***kind))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(CASES.len() > 500, "{}", CASES.len());
}

async fn grow_part(part: usize) {
    let mut cluster = Cluster::start().await;
    for case in CASES.iter().skip(part).step_by(PARTS) {
        for &growth in case.growths() {
            let (name, call) = (format!("{growth:?} {}", case.name()), |n| case.call(growth, n));
            let (n, timed) = match growth {
                Growth::LongText | Growth::LongWrongText => (CHARACTERS, CHARACTERS),
                _ => (ITEMS, TIMED_ITEMS),
            };
            let is_linear = cluster.uses_linear_memory(&name, n, call).await;
            // The usual form is what comes farthest, and most work that takes time without memory is behind it.
            if is_linear && *TIMES && matches!(growth, Growth::Items | Growth::Entries | Growth::LongText) {
                cluster.takes_linear_time(&name, timed, call).await;
            }
        }
    }
}

/// Found once for all tests: the recordings take a second to read.
static CASES: LazyLock<Vec<Case>> = LazyLock::new(cases);

/// A field that can grow.
struct Case {
    resource: &'static ApiResource,
    /// An object that was accepted.
    object: Arc<Value>,
    path: Vec<Step>,
    shape: Shape,
    /// The fields that tell items apart.
    keys: Vec<String>,
}

/// The way to a field, from the one before.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    /// The first item of a list.
    Item,
    /// An entry of a map.
    Entry,
}

/// The growth of a field.
#[derive(Clone, Copy, Debug)]
enum Growth {
    Items,
    EqualItems,
    EmptyItems,
    Entries,
    WrongEntries,
    LongText,
    LongWrongText,
}

impl Case {
    fn name(&self) -> String {
        let steps = self.path.iter().map(|step| match step {
            Step::Field(name) => format!(".{name}"),
            Step::Item => "[]".to_owned(),
            Step::Entry => "{}".to_owned(),
        });
        format!("{}{}", self.resource.resource.kind, steps.collect::<String>())
    }

    fn growths(&self) -> &'static [Growth] {
        match &self.shape {
            Shape::List(_) | Shape::ListMessage(_) => {
                &[Growth::Items, Growth::EqualItems, Growth::EmptyItems]
            }
            Shape::String(_) | Shape::Bytes | Shape::Quantity | Shape::IntOrString | Shape::Duration => {
                &[Growth::LongText, Growth::LongWrongText]
            }
            _ => &[Growth::Entries, Growth::WrongEntries],
        }
    }

    /// The object with `n` of what grows.
    fn call(&self, growth: Growth, n: usize) -> Call {
        let mut object = Value::clone(&self.object);
        let place = self.path.iter().fold(&mut object, step_into);
        *place = self.grown(growth, n, place);
        let resource = &self.resource.resource;
        let versions = match resource.group.is_empty() {
            true => format!("/api/{}", resource.version),
            false => format!("/apis/{}/{}", resource.group, resource.version),
        };
        let namespace = match resource.scope {
            Scope::Namespaced => "namespaces/default/",
            Scope::Cluster => "",
        };
        Call::try_post(&format!("{versions}/{namespace}{}", resource.plural), object)
    }

    fn grown(&self, growth: Growth, n: usize, before: &Value) -> Value {
        let item_shape = match &self.shape {
            Shape::List(item) | Shape::ListMessage(item) | Shape::Map(item) => item,
            other => other,
        };
        let template = before.get(0);
        let item = |index: usize| self.item(item_shape, template, index);
        match growth {
            Growth::Items => list(n, item),
            Growth::EqualItems => list(n, |_| item(0)),
            Growth::EmptyItems => list(n, |_| match item_shape {
                Shape::String(_) => json!("!"),
                _ => json!({}),
            }),
            Growth::Entries => map(n, |index| (format!("k{index}"), entry(&self.shape, item_shape))),
            Growth::WrongEntries => map(n, |index| (format!("!{index}"), json!("!"))),
            Growth::LongText => json!("a".repeat(n)),
            Growth::LongWrongText => json!("!".repeat(n)),
        }
    }

    /// An item like the one that was accepted, told apart from others by its number.
    fn item(&self, shape: &Shape, template: Option<&Value>, index: usize) -> Value {
        let Shape::Struct(id) = shape else {
            return sample(shape, index, 0);
        };
        let mut item = match template {
            Some(Value::Object(accepted)) => Value::Object(accepted.clone()),
            _ => sample(shape, index, 0),
        };
        for key in &self.keys {
            if let Some(field) = Schema::builtin().field(*id, key) {
                item[key] = sample(&field.shape, index, 0);
            }
        }
        item
    }
}

fn entry(shape: &Shape, item: &Shape) -> Value {
    match shape {
        Shape::Map(_) => sample(item, 0, 0),
        Shape::FieldsV1 => json!({}),
        _ => json!("v"),
    }
}

/// The place that a step leads to; made if it is not there.
fn step_into<'v>(value: &'v mut Value, step: &Step) -> &'v mut Value {
    match step {
        Step::Field(name) => &mut object_of(value)[name],
        Step::Item => {
            if !value.get(0).is_some_and(Value::is_object) {
                *value = json!([{}]);
            }
            &mut value[0]
        }
        Step::Entry => {
            let entries = object_of(value);
            let first = entries.as_object().and_then(|entries| entries.keys().next());
            let key = first.cloned().unwrap_or_else(|| "k".to_owned());
            &mut entries[key]
        }
    }
}

fn object_of(value: &mut Value) -> &mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value
}

/// The depth to which a sample fills required fields of nested types.
const MAX_SAMPLE_DEPTH: usize = 4;

/// A value of a shape. Numbers and texts come from an index.
fn sample(shape: &Shape, index: usize, depth: usize) -> Value {
    let schema = Schema::builtin();
    match shape {
        Shape::String(Some(known)) => json!(schema[*known].values.first()),
        Shape::String(None) => json!(format!("v{index}")),
        Shape::Bool => json!(true),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => json!(index + 1),
        Shape::Float64 => json!(1.5),
        Shape::Bytes => json!("dmFsdWU="),
        Shape::List(_) | Shape::ListMessage(_) => json!([]),
        Shape::Time => json!("2026-01-01T00:00:00Z"),
        Shape::MicroTime => json!("2026-01-01T00:00:00.000000Z"),
        Shape::Duration => json!("1s"),
        Shape::Quantity => json!("1"),
        Shape::Struct(id) if depth < MAX_SAMPLE_DEPTH => {
            let fields = schema.fields(*id).into_iter();
            let required = fields.filter(|field| field.is_required() && !field.name.is_empty());
            required
                .map(|field| (field.name.to_string(), sample(&field.shape, index, depth + 1)))
                .collect::<Map<_, _>>()
                .into()
        }
        _ => json!({}),
    }
}

/// Every field that can grow, each type once.
fn cases() -> Vec<Case> {
    let accepted = accepted_objects();
    let mut walk = Walk::default();
    let all = resources::all().iter().filter(|it| it.has_verb("create"));
    // Stored kinds come first: a Binding or a review has metadata too, but most of the write path does not see it.
    let (stored, posted): (Vec<_>, Vec<_>) = all.partition(|it| it.has_verb("get"));
    for resource in stored.into_iter().chain(posted) {
        let api_version = resource.api_version();
        let Some(id) = Schema::builtin().kind(&api_version, &resource.resource.kind) else {
            continue;
        };
        let object = accepted.get(&place(resource)).cloned();
        let object = Arc::new(object.unwrap_or_else(|| json!({"metadata": {"name": "x"}})));
        walk.type_fields(resource, &object, id, &[]);
    }
    walk.cases
}

#[derive(Default)]
struct Walk {
    seen: HashSet<TypeId>,
    cases: Vec<Case>,
}

impl Walk {
    fn type_fields(
        &mut self,
        resource: &'static ApiResource,
        object: &Arc<Value>,
        id: TypeId,
        path: &[Step],
    ) {
        if !self.seen.insert(id) {
            return;
        }
        for field in Schema::builtin().fields(id) {
            let mut path = path.to_vec();
            path.push(Step::Field(field.name.to_string()));
            self.field(resource, object, field, &path);
        }
    }

    fn field(&mut self, resource: &'static ApiResource, object: &Arc<Value>, field: &Field, path: &[Step]) {
        let mut path = path.to_vec();
        let case = Case {
            resource,
            object: object.clone(),
            path: path.clone(),
            shape: field.shape.clone(),
            keys: keys(field),
        };
        match &field.shape {
            Shape::Struct(id) => self.type_fields(resource, object, *id, &path),
            Shape::SchemaOrBool(id) | Shape::SchemaOrArray(id) | Shape::SchemaOrStrings(id) => {
                self.type_fields(resource, object, *id, &path);
            }
            Shape::List(item) | Shape::ListMessage(item) => {
                self.cases.push(case);
                if let Shape::Struct(id) = **item {
                    path.push(Step::Item);
                    self.type_fields(resource, object, id, &path);
                }
            }
            Shape::Map(item) => {
                self.cases.push(case);
                if let Shape::Struct(id) = **item {
                    path.push(Step::Entry);
                    self.type_fields(resource, object, id, &path);
                }
            }
            Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::Time | Shape::MicroTime => {}
            _ => self.cases.push(case),
        }
    }
}

/// The fields that tell the items of a list apart; a name, if the schema does not say.
fn keys(field: &Field) -> Vec<String> {
    let mut keys: Vec<String> = field.list_map_keys.iter().map(ToString::to_string).collect();
    keys.extend(field.patch_merge_key.as_ref().map(ToString::to_string));
    if keys.is_empty() {
        keys.push("name".to_owned());
    }
    keys
}

/// For each resource, the largest object that the recorded server has accepted.
fn accepted_objects() -> BTreeMap<String, Value> {
    let mut accepted: BTreeMap<String, (usize, Value)> = BTreeMap::new();
    for case in recordings() {
        let steps = ["setup", "steps"].map(|part| case[part].as_array().cloned().unwrap_or_default());
        for step in steps.into_iter().flatten() {
            let Some((place, object)) = accepted_object(&step) else {
                continue;
            };
            let size = object.to_string().len();
            if accepted.get(&place).is_none_or(|(known, _)| *known < size) {
                accepted.insert(place, (size, object));
            }
        }
    }
    accepted
        .into_iter()
        .map(|(place, (_, object))| (place, object))
        .collect()
}

fn accepted_object(step: &Value) -> Option<(String, Value)> {
    let (request, response) = (&step["request"], &step["response"]);
    if request["method"] != "POST" || response["status"] != 201 || !request["body"].is_object() {
        return None;
    }
    let path = request["path"].as_str()?.split('?').next()?;
    let mut parts: Vec<&str> = path.split('/').collect();
    if let Some(at) = parts.iter().position(|part| *part == "namespaces")
        && parts.len() > at + 2
    {
        parts.drain(at..at + 2);
    }
    let mut object = request["body"].clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    Some((parts.join("/"), object))
}

fn place(resource: &ApiResource) -> String {
    let resource = &resource.resource;
    match resource.group.is_empty() {
        true => format!("/api/{}/{}", resource.version, resource.plural),
        false => format!(
            "/apis/{}/{}/{}",
            resource.group, resource.version, resource.plural
        ),
    }
}

fn recordings() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens");
    let folders = entries(&root.join("wire"))
        .into_iter()
        .filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| entries(&folder));
    let mut cases: Vec<Value> = files
        .map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap())
        .collect();
    let packed = entries(&root.join("corpus")).into_iter();
    for path in packed.filter(|path| path.extension().is_some_and(|it| it == "gz")) {
        let mut text = String::new();
        GzDecoder::new(File::open(path).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        cases.extend(
            text.lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap()),
        );
    }
    cases
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
