//! Derived kinds on a server: definitions are accepted, objects stored, and rules enforced.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use watchkeeper_client::{Api, Client, Error, InstallError, InstallOptions, SendOptions, install_crds};
use watchkeeper_custom::{Resource, merge_crds};
use watchkeeper_meta::{CreateOptions, FieldSelector, ListOptions, PatchKind, Status, accept};
use watchkeeper_server::{Action, Cut, RequestMatch, Rule};
use watchkeeper_testing::TestCluster;

use super::real;

/// Every sort of field that has a structural schema.
#[derive(Resource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[resource(
    group = "example.com",
    version = "v1",
    namespaced,
    status = ThingStatus,
    shortname = "th",
    category = "all",
    scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector"),
    column(name = "Level", path = ".spec.level"),
    column(name = "Replicas", path = ".status.replicas", description = "that run"),
    column(name = "Age", path = ".metadata.creationTimestamp"),
    column(name = "First", type = "integer", path = ".spec.parts[0].weight"),
    selectable = ".spec.name",
    rule("self.spec.replicas <= 10", message = "too many replicas", field_path = ".spec.replicas"),
    rule = "self.spec.name != 'forbidden'",
    derive(PartialEq),
    crate = watchkeeper_custom
)]
pub(super) struct ThingSpec {
    #[schemars(length(min = 1, max = 20), regex(pattern = "^[a-z]*$"))]
    name: String,
    replicas: u32,
    #[schemars(range(min = -5, max = 5))]
    small: i8,
    size: u64,
    ratio: f64,
    level: Level,
    maybe_level: Option<Level>,
    maybe: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left_out: Option<bool>,
    #[serde(default = "eighty")]
    port: u16,
    #[serde(default)]
    settings: Settings,
    parts: Vec<Part>,
    grid: Vec<Vec<i32>>,
    batches: Vec<Vec<Part>>,
    names: BTreeSet<String>,
    labels: BTreeMap<String, Part>,
    routes: BTreeMap<String, Vec<Source>>,
    free: BTreeMap<String, Value>,
    pair: (i32, i32),
    source: Source,
    storage: Storage,
    maybe_storage: Option<Storage>,
    adjacent: Adjacent,
    address: Address,
    target: IntOrString,
    #[serde(flatten)]
    strategy: Rollout,
}

fn eighty() -> u16 {
    80
}

/// All of it has defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Settings {
    depth: u8,
    note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct ThingStatus {
    replicas: u32,
    selector: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Level {
    /// Nearly silent.
    Low,
    /// As loud as can be.
    VeryHigh,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Part {
    weight: i64,
    note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Source {
    Git { url: String },
    Image(Part),
    Nothing {},
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Storage {
    Disk {
        size: u32,
        path: String,
    },
    Memory {
        #[schemars(range(max = 100))]
        size: u32,
    },
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "with")]
enum Adjacent {
    One { a: String },
    Other { b: bool },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Address {
    Port { port: u16 },
    Socket { path: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum IntOrString {
    Int(i32),
    String(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "strategy")]
enum Rollout {
    Rolling { surge: u8 },
    Recreate,
}

fn thing() -> ThingSpec {
    ThingSpec {
        name: "abc".into(),
        replicas: 2,
        small: 5,
        size: 1 << 40,
        ratio: 0.5,
        level: Level::Low,
        maybe_level: None,
        maybe: None,
        left_out: None,
        port: 8080,
        settings: Settings::default(),
        parts: vec![],
        grid: vec![],
        batches: vec![],
        names: BTreeSet::new(),
        labels: BTreeMap::new(),
        routes: BTreeMap::new(),
        free: BTreeMap::new(),
        pair: (1, 2),
        source: Source::Nothing {},
        storage: Storage::Nothing,
        maybe_storage: None,
        adjacent: Adjacent::Other { b: true },
        address: Address::Port { port: 80 },
        target: IntOrString::Int(80),
        strategy: Rollout::Recreate,
    }
}

/// A cluster with the kind installed, and a client for it.
async fn installed() -> (TestCluster, Api<Thing>) {
    let cluster = TestCluster::start().await.unwrap();
    install(cluster.client()).await;
    let api = cluster.client().api::<Thing>().namespace("default");
    (cluster, api)
}

async fn install(client: &Client) {
    install_crds(client, &[Thing::crd()]).await.unwrap();
}

async fn create(api: &Api<Thing>, name: &str, spec: ThingSpec) -> Result<Thing, Error> {
    api.create(&Thing::new(name, spec)).await
}

#[tokio::test]
async fn an_installed_kind_can_be_used_at_once() {
    let (cluster, api) = installed().await;
    let created = create(&api, "a", thing()).await.unwrap();
    assert_eq!((&*created.metadata.name, &created.spec), ("a", &thing()));
    install(cluster.client()).await;
    let found = cluster.client().discover().await.unwrap();
    let found = found
        .resources()
        .find(|found| found.resource.plural == "things")
        .unwrap();
    assert_eq!(
        (&*found.short_names, &*found.categories),
        (&["th".into()][..], &["all".into()][..])
    );
    assert!(found.subresource("status").is_some() && found.subresource("scale").is_some());
    cluster.stop().await;
}

#[test]
fn any_value_of_a_rich_spec_survives_a_round_trip() {
    let runtime = runtime();
    let (cluster, api) = runtime.block_on(installed());
    let count = Cell::new(0);
    let outcome = TestRunner::new(cases(128)).run(&any_spec(), |spec| {
        count.set(count.get() + 1);
        let name = format!("thing-{}", count.get());
        let read = runtime.block_on(async {
            create(&api, &name, spec.clone()).await?;
            api.get(&name).await
        });
        prop_assert_eq!(
            read.map_err(|error| TestCaseError::fail(error.to_string()))?.spec,
            spec
        );
        Ok(())
    });
    runtime.block_on(cluster.stop());
    outcome.unwrap();
}

/// Defaults that serde would fill in are filled in by the server for all clients.
#[test]
fn omitted_fields_are_stored_with_the_defaults_of_the_struct() {
    let runtime = runtime();
    let (cluster, api) = runtime.block_on(installed());
    let left_out = (any_spec(), any::<[bool; 4]>());
    let outcome = TestRunner::new(cases(64)).run(&left_out, |(spec, [port, settings, depth, note])| {
        let mut object = serde_json::to_value(Thing::new("a", spec)).unwrap();
        object["metadata"] = json!({"generateName": "thing-"});
        let mut remove = |parent: &str, member: &str, is_left_out: bool| {
            if is_left_out && let Some(members) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
                members.remove(member);
            }
        };
        remove("/spec/settings", "depth", depth);
        remove("/spec/settings", "note", note);
        remove("/spec", "settings", settings);
        remove("/spec", "port", port);
        let expected: Thing = serde_json::from_value(object.clone()).unwrap();
        let stored = runtime.block_on(api.objects().create(&object));
        let stored = stored.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let (expected, stored) = (
            serde_json::to_value(&expected).unwrap(),
            stored.to_value().unwrap(),
        );
        prop_assert_eq!(&stored["spec"]["port"], &expected["spec"]["port"]);
        prop_assert_eq!(
            &stored["spec"]["settings"]["depth"],
            &expected["spec"]["settings"]["depth"]
        );
        Ok(())
    });
    runtime.block_on(cluster.stop());
    outcome.unwrap();
}

/// The schema is as strict as serde: the struct can hold every value that the server accepts.
#[test]
fn every_value_the_server_accepts_can_be_deserialized() {
    let runtime = runtime();
    let (cluster, api) = runtime.block_on(installed());
    let accepted = Cell::new(0);
    let change = (
        any_spec(),
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
    );
    let outcome = TestRunner::new(cases(1024)).run(&change, |(spec, place, value)| {
        let mut object = serde_json::to_value(Thing::new("a", spec)).unwrap();
        object["metadata"] = json!({"generateName": "thing-"});
        let places = places(&object["spec"]);
        let place = place.get(&places);
        change_value(&mut object["spec"], place, value.get(&REPLACEMENTS)());
        let created = runtime.block_on(api.objects().create(&object));
        if let Ok(created) = created {
            accepted.set(accepted.get() + 1);
            let read = created.decode::<Thing>();
            prop_assert!(read.is_ok(), "{} is accepted: {:?}", object["spec"], read);
        }
        Ok(())
    });
    runtime.block_on(cluster.stop());
    outcome.unwrap();
    assert!(
        accepted.get() > 100,
        "only {} changes were accepted",
        accepted.get()
    );
}

/// Replacements of a value; `None` removes it.
const REPLACEMENTS: [fn() -> Option<Value>; 9] = [
    || None,
    || Some(Value::Null),
    || Some(json!(true)),
    || Some(json!(0)),
    || Some(json!(-1)),
    || Some(json!(5_000_000_000_u64)),
    || Some(json!("")),
    || Some(json!([])),
    || Some(json!({})),
];

/// The paths of all members and items.
fn places(value: &Value) -> Vec<String> {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        _ => Vec::new(),
    };
    let mut found = Vec::new();
    for (step, value) in members {
        found.extend(places(value).into_iter().map(|rest| format!("/{step}{rest}")));
        found.push(format!("/{step}"));
    }
    found
}

fn change_value(spec: &mut Value, place: &str, value: Option<Value>) {
    let (parent, step) = place.rsplit_once('/').unwrap();
    match (spec.pointer_mut(parent).unwrap(), value) {
        (Value::Object(members), None) => drop(members.remove(step)),
        (Value::Array(items), None) => drop(items.remove(step.parse().unwrap())),
        (_, value) => *spec.pointer_mut(place).unwrap() = value.unwrap(),
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn cases(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}

fn any_spec() -> impl Strategy<Value = ThingSpec> {
    let scalars = (
        "[a-z]{1,20}",
        0..=10_u32,
        -5..=5_i8,
        0..=i64::MAX as u64,
        any::<i32>().prop_map(|number| f64::from(number) / 8.0),
        any::<u16>(),
    );
    let options = (
        any_level(),
        proptest::option::of(any_level()),
        proptest::option::of(".{0,5}"),
        any::<Option<bool>>(),
    );
    let lists = (
        proptest::collection::vec(any_part(), 0..3),
        proptest::collection::btree_set("[a-z]{1,3}", 0..3),
        proptest::collection::btree_map("[a-z]{1,3}", any_part(), 0..3),
        proptest::collection::btree_map("[a-z]{1,3}", any_json(), 0..3),
        any::<(i32, i32)>(),
    );
    let nested = (
        proptest::collection::vec(proptest::collection::vec(any::<i32>(), 0..3), 0..3),
        proptest::collection::vec(proptest::collection::vec(any_part(), 0..3), 0..3),
        proptest::collection::btree_map("[a-z]{1,3}", proptest::collection::vec(any_source(), 0..3), 0..3),
    );
    let enums = (
        any_source(),
        any_storage(),
        proptest::option::of(any_storage()),
        any_adjacent(),
        any_address(),
    );
    let rest = (any_target(), any_strategy());
    (scalars, options, lists, nested, enums, rest).prop_map(
        |(scalars, options, lists, nested, enums, rest)| {
            let (name, replicas, small, size, ratio, port) = scalars;
            let (level, maybe_level, maybe, left_out) = options;
            let settings = Settings {
                depth: size as u8,
                note: maybe.clone(),
            };
            let (parts, names, labels, free, pair) = lists;
            let (grid, batches, routes) = nested;
            let (source, storage, maybe_storage, adjacent, address) = enums;
            let (target, strategy) = rest;
            ThingSpec {
                name,
                replicas,
                small,
                size,
                ratio,
                level,
                maybe_level,
                maybe,
                left_out,
                port,
                settings,
                parts,
                grid,
                batches,
                names,
                labels,
                routes,
                free,
                pair,
                source,
                storage,
                maybe_storage,
                adjacent,
                address,
                target,
                strategy,
            }
        },
    )
}

fn any_level() -> impl Strategy<Value = Level> {
    prop_oneof![Just(Level::Low), Just(Level::VeryHigh)]
}

fn any_part() -> impl Strategy<Value = Part> {
    (any::<i64>(), proptest::option::of("[a-z]{0,3}")).prop_map(|(weight, note)| Part { weight, note })
}

fn any_json() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
        Just(json!({"a": [1, {"b": null}]})),
    ]
}

fn any_source() -> impl Strategy<Value = Source> {
    prop_oneof![
        "[a-z]{0,9}".prop_map(|url| Source::Git { url }),
        any_part().prop_map(Source::Image),
        Just(Source::Nothing {}),
    ]
}

fn any_storage() -> impl Strategy<Value = Storage> {
    prop_oneof![
        (any::<u32>(), "[a-z]{0,9}").prop_map(|(size, path)| Storage::Disk { size, path }),
        (0..=100_u32).prop_map(|size| Storage::Memory { size }),
        Just(Storage::Nothing),
    ]
}

fn any_adjacent() -> impl Strategy<Value = Adjacent> {
    prop_oneof![
        "[a-z]{0,9}".prop_map(|a| Adjacent::One { a }),
        any::<bool>().prop_map(|b| Adjacent::Other { b }),
    ]
}

fn any_address() -> impl Strategy<Value = Address> {
    prop_oneof![
        any::<u16>().prop_map(|port| Address::Port { port }),
        "[a-z]{0,9}".prop_map(|path| Address::Socket { path }),
    ]
}

fn any_target() -> impl Strategy<Value = IntOrString> {
    prop_oneof![
        any::<i32>().prop_map(IntOrString::Int),
        "[a-z]{0,9}".prop_map(IntOrString::String),
    ]
}

fn any_strategy() -> impl Strategy<Value = Rollout> {
    prop_oneof![
        any::<u8>().prop_map(|surge| Rollout::Rolling { surge }),
        Just(Rollout::Recreate)
    ]
}

#[tokio::test]
async fn invalid_values_are_rejected_with_the_field() {
    let (cluster, api) = installed().await;
    let spec = serde_json::to_value(thing()).unwrap();
    let cases = [
        (
            json!({"replicas": 11}),
            "spec.replicas: Invalid value: too many replicas",
        ),
        (
            json!({"name": "forbidden"}),
            "failed rule: self.spec.name != 'forbidden'",
        ),
        (
            json!({"name": "A"}),
            "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]*$'",
        ),
        (
            json!({"name": ""}),
            "spec.name in body should be at least 1 chars long",
        ),
        (
            json!({"small": 6}),
            "spec.small in body should be less than or equal to 5",
        ),
        (
            json!({"size": -1}),
            "spec.size in body should be greater than or equal to 0",
        ),
        (
            json!({"level": "loud"}),
            "spec.level: Unsupported value: \"loud\": supported values: \"low\", \"veryHigh\"",
        ),
        (
            json!({"maybe_level": "loud"}),
            "spec.maybe_level: Unsupported value: \"loud\"",
        ),
        (
            json!({"names": ["a", "a"]}),
            "spec.names[1]: Duplicate value: \"a\"",
        ),
        (
            json!({"pair": [1]}),
            "spec.pair in body should have at least 2 items",
        ),
        (
            json!({"source": {}}),
            "\"spec.source\" must validate one and only one schema (oneOf)",
        ),
        (
            json!({"source": {"Git": {"url": "u"}, "Nothing": {}}}),
            "\"spec.source\" must validate one and only one",
        ),
        (
            json!({"storage": {"type": "disk", "size": 1}}),
            "spec.storage.path: Required value",
        ),
        (
            json!({"storage": {"type": "tape", "size": 1}}),
            "spec.storage.type: Unsupported value: \"tape\"",
        ),
        (
            json!({"storage": {"type": "memory", "size": 101}}),
            "\"spec.storage\" must validate one and only one",
        ),
        (
            json!({"adjacent": {"kind": "One", "with": {"b": true}}}),
            "\"spec.adjacent\" must validate one and only",
        ),
        (
            json!({"address": {}}),
            "\"spec.address\" must validate at least one schema (anyOf)",
        ),
        (
            json!({"target": true}),
            "spec.target in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({"strategy": "Rolling"}),
            "\"spec\" must validate one and only one schema (oneOf)",
        ),
    ];
    for (change, expected) in cases {
        let mut spec = spec.clone();
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec,
        });
        let error = api.objects().create(&object).await.unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(expected),
            "{change}: {error}"
        );
    }
    cluster.stop().await;
}

#[tokio::test]
async fn an_omitted_field_has_its_default() {
    let (cluster, api) = installed().await;
    let mut object = serde_json::to_value(Thing::new("a", thing())).unwrap();
    for field in ["port", "settings"] {
        object["spec"].as_object_mut().unwrap().remove(field);
    }
    let created = api.objects().create(&object).await.unwrap();
    let spec = &created.to_value().unwrap()["spec"];
    assert_eq!(
        (&spec["port"], &spec["settings"]),
        (&json!(80), &json!({"depth": 0, "note": null}))
    );
    cluster.stop().await;
}

#[tokio::test]
async fn status_scale_and_selectable_fields_work() {
    let (cluster, api) = installed().await;
    let mut object = create(&api, "a", thing()).await.unwrap();
    create(
        &api,
        "b",
        ThingSpec {
            name: "other".into(),
            ..thing()
        },
    )
    .await
    .unwrap();
    assert_eq!(object.status, None);
    object.status = Some(ThingStatus {
        replicas: 1,
        selector: "app=a".into(),
    });
    let updated = api.status().update(&object).await.unwrap();
    assert_eq!(updated.status, object.status);

    let scale = api.objects().clone().subresource("scale");
    let read = scale.get("a").await.unwrap().to_value().unwrap();
    assert_eq!(read["spec"], json!({"replicas": 2}));
    assert_eq!(read["status"], json!({"replicas": 1, "selector": "app=a"}));
    let patch = json!({"spec": {"replicas": 3}});
    scale.patch("a", PatchKind::Merge, &patch).await.unwrap();
    assert_eq!(api.get("a").await.unwrap().spec.replicas, 3);

    let options = ListOptions {
        field_selector: FieldSelector::equals("spec.name", "other"),
        ..Default::default()
    };
    let found = api.list().with(&options).await.unwrap();
    let names: Vec<&str> = found.objects().iter().map(|object| object.name()).collect();
    assert_eq!(names, ["b"]);
    cluster.stop().await;
}

#[tokio::test]
async fn tables_have_the_columns() {
    let (cluster, api) = installed().await;
    create(&api, "a", thing()).await.unwrap();
    let request =
        Request::get("/apis/example.com/v1/namespaces/default/things").header("accept", accept::TABLE);
    let request = request.body(Bytes::new()).unwrap();
    let response = cluster
        .client()
        .send(request, &SendOptions::default())
        .await
        .unwrap();
    let table = response.into_body().collect(1 << 20).await.unwrap();
    let table: Value = serde_json::from_slice(&table).unwrap();
    let column = |index: usize| {
        (
            table["columnDefinitions"][index]["name"].clone(),
            table["rows"][0]["cells"][index].clone(),
        )
    };
    assert_eq!(column(0), (json!("Name"), json!("a")));
    assert_eq!(column(1), (json!("Level"), json!("low")));
    assert_eq!(column(2), (json!("Replicas"), Value::Null));
    assert_eq!(table["columnDefinitions"][2]["description"], "that run");
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let types: Vec<&str> = columns.map(|column| column["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["string", "string", "integer", "date", "integer"]);
    cluster.stop().await;
}

/// The next version of the kind.
mod v2 {
    use super::*;

    #[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[resource(group = "example.com", version = "v2", kind = "Note", crate = watchkeeper_custom)]
    pub(super) struct NoteSpec {
        pub(super) text: String,
        pub(super) author: Option<String>,
    }
}

mod v1 {
    use super::*;

    #[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[resource(group = "example.com", version = "v1", kind = "Note", crate = watchkeeper_custom)]
    pub(super) struct NoteSpec {
        pub(super) text: String,
    }
}

#[tokio::test]
async fn an_object_of_one_version_is_read_in_the_other() {
    let cluster = TestCluster::start().await.unwrap();
    let crd = merge_crds(&[v2::Note::crd(), v1::Note::crd()], "v2").unwrap();
    install_crds(cluster.client(), &[crd]).await.unwrap();
    let old = v1::Note::new("a", v1::NoteSpec { text: "hello".into() });
    let options = CreateOptions::default();
    cluster
        .client()
        .api::<v1::Note>()
        .create(&old)
        .with(&options)
        .await
        .unwrap();
    let new = cluster.client().api::<v2::Note>().get("a").await.unwrap();
    assert_eq!((&*new.spec.text, new.spec.author), ("hello", None));
    cluster.stop().await;
}

/// Each request of an installation fails once: dropped, unanswered, or refused.
#[tokio::test(start_paused = true)]
async fn an_installation_survives_a_failed_request() {
    let failures = [
        Action::Cut(Cut::BeforeHandling),
        Action::Cut(Cut::BeforeAnswer),
        Action::fail(Status::service_unavailable("not now")),
    ];
    let mut fired = 0;
    for failure in failures {
        for nth in 1..=4 {
            let cluster = TestCluster::start().await.unwrap();
            let rule = Rule {
                nth,
                ..Rule::new(RequestMatch::default(), failure.clone())
            };
            cluster.faults().inject(rule).unwrap();
            install(cluster.client()).await;
            fired += cluster.faults().fired().len();
            cluster.stop().await;
        }
    }
    assert!(fired >= 3 * 3, "only {fired} requests were met");
}

/// The embedded server stores the same value as a real one.
#[tokio::test]
async fn a_real_server_stores_the_same_value() {
    let Some(real) = real::apiextensions() else { return };
    let (cluster, ours) = installed().await;
    real::install(&real, &Thing::crd()).await;
    let theirs = real.api::<Thing>().namespace("default");
    let wrong = ThingSpec {
        replicas: 11,
        small: 6,
        ..thing()
    };
    for spec in [thing(), wrong] {
        let _ = theirs.delete("a").await;
        let told = |created: Result<Thing, Error>| match created {
            Ok(thing) => serde_json::to_value(&thing.spec).unwrap(),
            Err(error) => json!(error.status().unwrap()),
        };
        let kept = told(create(&theirs, "a", spec.clone()).await);
        assert_eq!(told(create(&ours, "a", spec).await), kept);
        let _ = ours.delete("a").await;
    }
    cluster.stop().await;
}

#[tokio::test]
async fn a_failed_installation_names_the_step() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    install_crds(client, &[v1::Note::crd()]).await.unwrap();

    let mut taken = v1::Note::crd();
    taken["metadata"]["name"] = "memos.example.com".into();
    taken["spec"]["names"]["plural"] = "memos".into();
    let error = install_crds(client, &[taken]).await.unwrap_err();
    assert!(
        matches!(&error, InstallError::Refused { condition, .. } if condition == "NamesAccepted"),
        "{error}"
    );

    let mut invalid = v1::Note::crd();
    invalid["spec"]["group"] = "other.example".into();
    let error = install_crds(client, &[invalid]).await.unwrap_err();
    assert_eq!(error.to_string(), "notes.example.com cannot be applied");

    let hurried = InstallOptions {
        timeout: Duration::ZERO,
        ..Default::default()
    };
    let error = install_crds(client, &[Thing::crd()])
        .with(&hurried)
        .await
        .unwrap_err();
    assert!(matches!(error, InstallError::Timeout { .. }), "{error}");

    let error = install_crds(client, &[json!({"spec": {"versions": []}})])
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "the definition has no metadata.name");
    cluster.stop().await;
}

/// Kinds whose definitions are watched, and which are asked for as soon as they are said to be established.
#[tokio::test]
async fn a_kind_is_served_when_its_watchers_see_it_established() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client().clone();
    let definitions = client.dynamic(watchkeeper_meta::Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ));
    let mut events = definitions.watch().await.unwrap();
    let names = ["gizmos", "gadgets", "doodads"];
    let creating = async {
        for name in names {
            let definition = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{name}.example.com")},
                "spec": {
                    "group": "example.com", "scope": "Cluster",
                    "names": {"plural": name, "kind": name},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object"}}}],
                },
            });
            definitions.create(&definition).await.unwrap();
        }
    };
    let asking = async {
        let mut found = BTreeSet::new();
        while found.len() < names.len() {
            let event = events.next().await.unwrap().unwrap();
            let definition = event.object().unwrap().to_value().unwrap();
            let conditions = definition["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten();
            let is = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
            if conditions.filter(|it| is(it)).count() == 1 && found.insert(plural.to_owned()) {
                let kind = watchkeeper_meta::Resource::cluster(
                    "example.com",
                    "v1",
                    plural.to_owned(),
                    plural.to_owned(),
                );
                let listed = client.dynamic(kind).list().await;
                assert!(listed.is_ok(), "{plural}: {:?}", listed.unwrap_err());
            }
        }
    };
    tokio::join!(creating, asking);
    cluster.stop().await;
}
