//! The structural schemas of Rust types, and the types that have none.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use expect_test::{Expect, expect, expect_file};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchkeeper_client::install_crds;
use watchkeeper_custom::{CustomResource, Definition, MergeError, Resource, merge_crds, plural};
use watchkeeper_meta::Time;
use watchkeeper_testing::TestCluster;

use super::{real, server};

/// Compares the schema of a type, one line per member of the root.
fn check<T: JsonSchema>(expected: Expect) {
    expected.assert_eq(&shown::<T>());
}

/// A kind whose spec is this type, without attributes that refer to fields.
fn of_spec<T: JsonSchema>() -> Definition {
    Definition {
        columns: &[],
        selectable: &[],
        rules: &[],
        scale: None,
        spec: |generator| generator.subschema_for::<T>(),
        ..Site::definition()
    }
}

fn shown<T: JsonSchema>() -> String {
    match of_spec::<T>().crd() {
        Ok(crd) => {
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
            let members = schema.as_object().unwrap().iter();
            members
                .map(|(word, value)| format!("{word}: {value}\n"))
                .collect()
        }
        Err(error) => format!("{error}\n"),
    }
}

/// A site that is served
/// under a domain.
///
/// It has replicas.
#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(
    group = "example.com",
    version = "v1",
    namespaced,
    status = SiteStatus,
    shortname = "st",
    category = "all",
    category = "sites",
    scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector"),
    column(name = "Domain", type = "string", path = ".spec.domain", description = "where it is", priority = 1),
    selectable = ".spec.domain",
    rule("self.spec.replicas <= 10", message = "too many replicas"),
    deprecated = "use v2",
    crate = watchkeeper_custom
)]
struct SiteSpec {
    domain: String,
    replicas: i32,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct SiteStatus {
    replicas: i32,
    selector: String,
}

#[test]
fn attributes_produce_the_definition() {
    let crd = serde_json::to_string_pretty(&Site::crd()).unwrap();
    expect![[r#"
        {
          "apiVersion": "apiextensions.k8s.io/v1",
          "kind": "CustomResourceDefinition",
          "metadata": {
            "name": "sites.example.com"
          },
          "spec": {
            "group": "example.com",
            "names": {
              "categories": [
                "all",
                "sites"
              ],
              "kind": "Site",
              "listKind": "SiteList",
              "plural": "sites",
              "shortNames": [
                "st"
              ],
              "singular": "site"
            },
            "scope": "Namespaced",
            "versions": [
              {
                "additionalPrinterColumns": [
                  {
                    "description": "where it is",
                    "jsonPath": ".spec.domain",
                    "name": "Domain",
                    "priority": 1,
                    "type": "string"
                  }
                ],
                "deprecated": true,
                "deprecationWarning": "use v2",
                "name": "v1",
                "schema": {
                  "openAPIV3Schema": {
                    "description": "A site that is served under a domain.\n\nIt has replicas.",
                    "properties": {
                      "spec": {
                        "description": "A site that is served\nunder a domain.\n\nIt has replicas.",
                        "properties": {
                          "domain": {
                            "type": "string"
                          },
                          "replicas": {
                            "format": "int32",
                            "type": "integer"
                          }
                        },
                        "required": [
                          "domain",
                          "replicas"
                        ],
                        "type": "object"
                      },
                      "status": {
                        "properties": {
                          "replicas": {
                            "format": "int32",
                            "type": "integer"
                          },
                          "selector": {
                            "type": "string"
                          }
                        },
                        "required": [
                          "replicas",
                          "selector"
                        ],
                        "type": "object"
                      }
                    },
                    "required": [
                      "spec"
                    ],
                    "type": "object",
                    "x-kubernetes-validations": [
                      {
                        "message": "too many replicas",
                        "rule": "self.spec.replicas <= 10"
                      }
                    ]
                  }
                },
                "selectableFields": [
                  {
                    "jsonPath": ".spec.domain"
                  }
                ],
                "served": true,
                "storage": true,
                "subresources": {
                  "scale": {
                    "labelSelectorPath": ".status.selector",
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas"
                  },
                  "status": {}
                }
              }
            ]
          }
        }"#]]
    .assert_eq(&crd);
}

#[test]
fn a_kind_is_serialized_with_its_type_and_checked_when_read() {
    let site = Site::new(
        "home",
        SiteSpec {
            domain: "a.example".into(),
            replicas: 1,
        },
    );
    let written = serde_json::to_value(&site).unwrap();
    assert_eq!(
        written,
        json!({
            "apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "home"},
            "spec": {"domain": "a.example", "replicas": 1},
        })
    );
    let spec = json!({"domain": "a.example", "replicas": 1});
    let bare: Site = serde_json::from_value(json!({"spec": spec, "status": null})).unwrap();
    assert_eq!((bare.spec.replicas, bare.status.is_none()), (1, true));
    let other = json!({"apiVersion": "example.com/v2", "kind": "Site", "spec": spec});
    let error = serde_json::from_value::<Site>(other).unwrap_err().to_string();
    assert_eq!(error, "expected example.com/v1 Site, found example.com/v2 Site");
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Scalars {
    /// Of 8 bits.
    small: u8,
    port: u16,
    count: u32,
    size: u64,
    offset: i64,
    ratio: f64,
    letter: char,
    #[schemars(range(max = 5), extend("exclusiveMinimum" = 0))]
    bounded: i32,
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z]+$"))]
    name: String,
    non_zero: std::num::NonZeroI32,
    #[schemars(extend("format" = "date-time"))]
    at: String,
    since: Option<Time>,
    #[schemars(extend("format" = "duration"))]
    iso_duration: String,
}

#[test]
fn numbers_and_texts_keep_their_limits() {
    check::<Scalars>(expect![[r#"
        properties: {"at":{"format":"date-time","type":"string"},"bounded":{"exclusiveMinimum":true,"format":"int32","maximum":5,"minimum":0,"type":"integer"},"count":{"format":"int64","maximum":4294967295,"minimum":0,"type":"integer"},"iso_duration":{"type":"string"},"letter":{"maxLength":1,"minLength":1,"type":"string"},"name":{"maxLength":63,"minLength":1,"pattern":"^[a-z]+$","type":"string"},"non_zero":{"format":"int32","not":{"enum":[0]},"type":"integer"},"offset":{"format":"int64","type":"integer"},"port":{"format":"int32","maximum":65535,"minimum":0,"type":"integer"},"ratio":{"format":"double","type":"number"},"since":{"format":"date-time","nullable":true,"type":"string"},"size":{"format":"int64","minimum":0,"type":"integer"},"small":{"description":"Of 8 bits.","format":"int32","maximum":255,"minimum":0,"type":"integer"}}
        required: ["small","port","count","size","offset","ratio","letter","bounded","name","non_zero","at","iso_duration"]
        type: "object"
    "#]]);
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Shapes {
    maybe: Option<String>,
    maybe_nested: Option<Nested>,
    list: Vec<Nested>,
    set: BTreeSet<String>,
    map: BTreeMap<String, Nested>,
    numbered: BTreeMap<u32, bool>,
    free: Value,
    /// Anything, or nothing.
    maybe_free: Option<Value>,
    free_object: serde_json::Map<String, Value>,
    pair: (i32, i32),
    array: [bool; 3],
    #[serde(default = "eighty")]
    port: u16,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    keyed: Vec<Nested>,
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self > 0"}]))]
    ruled: i32,
}

fn eighty() -> u16 {
    80
}

/// A part.
#[derive(JsonSchema, Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Nested {
    name: String,
}

#[test]
fn collections_and_options_are_structural() {
    check::<Shapes>(expect![[r#"
        properties: {"array":{"items":{"type":"boolean"},"maxItems":3,"minItems":3,"type":"array"},"free":{"x-kubernetes-preserve-unknown-fields":true},"free_object":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"keyed":{"items":{"description":"A part.","properties":{"name":{"type":"string"}},"required":["name"],"type":"object"},"type":"array","x-kubernetes-list-map-keys":["name"],"x-kubernetes-list-type":"map"},"list":{"items":{"description":"A part.","properties":{"name":{"type":"string"}},"required":["name"],"type":"object"},"type":"array"},"map":{"additionalProperties":{"description":"A part.","properties":{"name":{"type":"string"}},"required":["name"],"type":"object"},"type":"object"},"maybe":{"nullable":true,"type":"string"},"maybe_free":{"description":"Anything, or nothing.","x-kubernetes-preserve-unknown-fields":true},"maybe_nested":{"description":"A part.","nullable":true,"properties":{"name":{"type":"string"}},"required":["name"],"type":"object"},"numbered":{"additionalProperties":{"type":"boolean"},"type":"object"},"pair":{"items":{"format":"int32","type":"integer"},"maxItems":2,"minItems":2,"type":"array"},"port":{"default":80,"format":"int32","maximum":65535,"minimum":0,"type":"integer"},"ruled":{"format":"int32","type":"integer","x-kubernetes-validations":[{"rule":"self > 0"}]},"set":{"items":{"type":"string"},"type":"array","x-kubernetes-list-type":"set"}}
        required: ["list","set","map","numbered","free","free_object","pair","array","keyed","ruled"]
        type: "object"
    "#]]);
}

#[derive(JsonSchema)]
#[allow(dead_code)]
enum Level {
    Low,
    High,
}

/// How loud.
#[derive(JsonSchema)]
#[allow(dead_code)]
enum Documented {
    /// Nearly silent.
    Low,
    /// As loud as can be.
    High,
    Other,
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Units {
    level: Level,
    maybe: Option<Level>,
    documented: Documented,
}

#[test]
fn unit_enums_are_lists_of_values() {
    check::<Units>(expect![[r#"
        properties: {"documented":{"description":"How loud.\n\n- `Low`: Nearly silent.\n- `High`: As loud as can be.","enum":["Other","Low","High"],"type":"string"},"level":{"enum":["Low","High"],"type":"string"},"maybe":{"allOf":[{"enum":["Low","High"]}],"nullable":true,"type":"string"}}
        required: ["level","documented"]
        type: "object"
    "#]]);
}

#[derive(JsonSchema)]
#[allow(dead_code)]
enum External {
    /// A repository.
    Git {
        url: String,
        depth: Option<u8>,
    },
    Image(Nested),
    Empty {},
}

#[test]
fn an_externally_tagged_enum_requires_one_of_its_fields() {
    check::<External>(expect![[r#"
        oneOf: [{"required":["Git"]},{"required":["Image"]},{"required":["Empty"]}]
        properties: {"Empty":{"type":"object"},"Git":{"description":"A repository.","properties":{"depth":{"format":"int32","maximum":255,"minimum":0,"nullable":true,"type":"integer"},"url":{"type":"string"}},"required":["url"],"type":"object"},"Image":{"description":"A part.","properties":{"name":{"type":"string"}},"required":["name"],"type":"object"}}
        type: "object"
    "#]]);
}

#[derive(JsonSchema)]
#[serde(tag = "type")]
#[allow(dead_code)]
enum Internal {
    /// A repository.
    Git {
        url: String,
        #[serde(default)]
        depth: u8,
    },
    Image {
        name: String,
        #[schemars(length(max = 3))]
        url: String,
    },
    Nested(Nested),
    /// No source at all.
    Nothing,
}

#[test]
fn an_internally_tagged_enum_keeps_what_each_variant_requires() {
    check::<Internal>(expect![[r#"
        oneOf: [{"properties":{"type":{"enum":["Git"]}},"required":["url"]},{"properties":{"type":{"enum":["Image"]},"url":{"maxLength":3}},"required":["name","url"]},{"not":{"anyOf":[{"required":["depth"]},{"required":["url"]}]},"properties":{"type":{"enum":["Nested"]}},"required":["name"]},{"properties":{"type":{"enum":["Nothing"]}}}]
        properties: {"depth":{"format":"int32","maximum":255,"minimum":0,"type":"integer"},"name":{"type":"string"},"type":{"description":"- `Git`: A repository.\n- `Nested`: A part.\n- `Nothing`: No source at all.","enum":["Git","Image","Nested","Nothing"],"type":"string"},"url":{"type":"string"}}
        required: ["type"]
        type: "object"
    "#]]);
}

#[derive(JsonSchema)]
#[serde(tag = "type", content = "with")]
#[allow(dead_code)]
enum Adjacent {
    Git { url: String },
    Image { name: String },
    Nothing,
}

#[test]
fn an_adjacently_tagged_enum_shares_its_content() {
    check::<Adjacent>(expect![[r#"
        oneOf: [{"properties":{"type":{"enum":["Git"]},"with":{"required":["url"]}},"required":["with"]},{"properties":{"type":{"enum":["Image"]},"with":{"required":["name"]}},"required":["with"]},{"properties":{"type":{"enum":["Nothing"]}}}]
        properties: {"type":{"enum":["Git","Image","Nothing"],"type":"string"},"with":{"properties":{"name":{"type":"string"},"url":{"type":"string"}},"type":"object"}}
        required: ["type"]
        type: "object"
    "#]]);
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum Untagged {
    Port { port: u16 },
    Socket { path: String },
}

#[derive(JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
#[allow(dead_code)]
enum Exact {
    Port { port: u16 },
    Socket { path: String },
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum IntOrString {
    Int(i32),
    String(String),
}

#[test]
fn an_untagged_enum_requires_what_any_variant_does() {
    check::<Untagged>(expect![[r#"
        anyOf: [{"required":["port"]},{"required":["path"]}]
        properties: {"path":{"type":"string"},"port":{"format":"int32","maximum":65535,"minimum":0,"type":"integer"}}
        type: "object"
    "#]]);
    check::<Exact>(expect![[r#"
        anyOf: [{"not":{"required":["path"]},"required":["port"]},{"not":{"required":["port"]},"required":["path"]}]
        properties: {"path":{"type":"string"},"port":{"format":"int32","maximum":65535,"minimum":0,"type":"integer"}}
        type: "object"
    "#]]);
    check::<IntOrString>(expect![[r#"
        maximum: 2147483647
        minimum: -2147483648
        x-kubernetes-int-or-string: true
    "#]]);
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Flattened {
    own: String,
    #[serde(flatten)]
    source: External,
    #[serde(flatten)]
    maybe: Option<Internal>,
    #[serde(flatten)]
    nested: Nested,
}

#[test]
fn flattened_enums_stand_beside_named_fields() {
    check::<Flattened>(expect![[r#"
        description: "A part."
        oneOf: [{"required":["Git"]},{"required":["Image"]},{"required":["Empty"]}]
        properties: {"Empty":{"type":"object"},"Git":{"description":"A repository.","properties":{"depth":{"format":"int32","maximum":255,"minimum":0,"nullable":true,"type":"integer"},"url":{"type":"string"}},"required":["url"],"type":"object"},"Image":{"description":"A part.","properties":{"name":{"type":"string"}},"required":["name"],"type":"object"},"depth":{"format":"int32","maximum":255,"minimum":0,"type":"integer"},"name":{"type":"string"},"own":{"type":"string"},"type":{"description":"- `Git`: A repository.\n- `Nested`: A part.\n- `Nothing`: No source at all.","enum":["Git","Image","Nested","Nothing"],"type":"string"},"url":{"type":"string"}}
        required: ["own","name"]
        type: "object"
    "#]]);
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Recursive {
    children: Vec<Recursive>,
}

#[derive(JsonSchema)]
#[allow(dead_code)]
enum Mixed {
    Nothing,
    Something { name: String },
}

#[derive(JsonSchema)]
#[serde(tag = "type")]
#[allow(dead_code)]
enum Clashing {
    Number { value: i32 },
    Flag { value: bool },
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct MapBesideFields {
    name: String,
    #[serde(flatten)]
    rest: BTreeMap<String, String>,
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Unit {
    unit: (),
}

#[test]
fn types_without_a_structural_schema_are_rejected_with_the_field() {
    let refused = [
        shown::<Recursive>(),
        shown::<Mixed>(),
        shown::<Clashing>(),
        shown::<MapBesideFields>(),
        shown::<Unit>(),
        shown::<(String, bool)>(),
    ];
    expect![[r#"
        spec.children[]: `Recursive` contains itself, and a structural schema has an end; use a `serde_json::Value` here
        spec: unit variants are text and variants with fields are objects, and a field has one type; give the unit variants braces, or the enum a `tag`
        spec.value: a field has one type, not boolean or integer
        spec: an object has named fields or is a map, not both; give the map a field of its own
        spec.unit: `null` is its only value; leave the field out
        spec: the items of a tuple must have one type; use a struct
    "#]].assert_eq(&refused.concat());
}

#[test]
fn a_path_that_leads_to_no_field_is_rejected() {
    let refused = |definition: Definition| definition.crd().unwrap_err().to_string();
    let no_status = Definition {
        status: None,
        ..Site::definition()
    };
    assert_eq!(
        refused(no_status),
        "status: there is no such field, but `scale` refers to it"
    );
    let other_spec = Definition {
        spec: of_spec::<Units>().spec,
        ..Site::definition()
    };
    assert_eq!(
        refused(other_spec),
        "spec.domain: there is no such field, but the column \"Domain\" refers to it"
    );
}

/// The definition of a kind whose spec is this type.
fn definition<T: JsonSchema>(kind: &'static str) -> Value {
    let definition = Definition {
        resource: watchkeeper_meta::Resource::cluster("example.com", "v1", kind, plural(kind)),
        singular: kind.to_lowercase(),
        short_names: &[],
        ..of_spec::<T>()
    };
    definition.crd().unwrap()
}

/// What is stored is recorded in `accepted.jsonl`: `.ci/apiextensions` has it accepted, unchanged, by the code of a real
/// server. After a change, write the file with `UPDATE_EXPECT=1` and run that.
#[tokio::test]
async fn a_server_accepts_every_schema() {
    let cluster = TestCluster::start().await.unwrap();
    let definitions = [
        Site::crd(),
        definition::<Scalars>("Scalars"),
        definition::<Shapes>("Shapes"),
        definition::<Units>("Units"),
        definition::<External>("External"),
        definition::<Internal>("Internal"),
        definition::<Adjacent>("Adjacent"),
        definition::<Untagged>("Untagged"),
        definition::<Exact>("Exact"),
        definition::<IntOrString>("IntOrString"),
        definition::<Flattened>("Flattened"),
        server::Thing::crd(),
    ];
    let real = real::apiextensions();
    let mut accepted = String::new();
    for crd in definitions {
        let installed = install_crds(cluster.client(), std::slice::from_ref(&crd)).await;
        installed.unwrap_or_else(|error| panic!("{error}: {}", error.source().unwrap()));
        let ours = real::stored(cluster.client(), &crd).await;
        accepted += &format!("{}\n", json!({"metadata": crd["metadata"], "spec": ours}));
        if let Some(real) = &real {
            assert_eq!(
                real::install(real, &crd).await,
                ours,
                "the real server interprets it differently"
            );
        }
    }
    expect_file!["accepted.jsonl"].assert_eq(&accepted);
    cluster.stop().await;
}

mod v2 {
    use super::*;

    #[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[resource(
        group = "example.com",
        version = "v2",
        kind = "Site",
        namespaced,
        shortname = "st",
        category = "all"
    )]
    #[resource(category = "sites", crate = watchkeeper_custom)]
    pub(super) struct SiteSpec {
        pub(super) host: String,
    }
}

#[test]
fn versions_merge_into_one_definition() {
    let crds = [v2::Site::crd(), Site::crd()];
    let merged = merge_crds(&crds, "v2").unwrap();
    let version = |index: usize| {
        let version = &merged["spec"]["versions"][index];
        (version["name"].clone(), version["storage"].clone())
    };
    assert_eq!(
        (version(0), version(1)),
        ((json!("v2"), json!(true)), (json!("v1"), json!(false)))
    );

    let twice = [Site::crd(), Site::crd()];
    assert_eq!(merge_crds(&twice, "v1"), Err(MergeError::Twice("v1".into())));
    assert_eq!(merge_crds(&crds, "v3"), Err(MergeError::NoStorage("v3".into())));
    assert_eq!(merge_crds(&[], "v1"), Err(MergeError::Nothing));
    let mut other = v2::Site::crd();
    other["spec"]["names"]["shortNames"] = json!(["s"]);
    assert_eq!(
        merge_crds(&[Site::crd(), other], "v2").unwrap_err().to_string(),
        r#"the definitions disagree about spec.names.shortNames: ["st"] and ["s"]"#
    );
}

mod v3 {
    use super::*;

    #[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[resource(
        group = "example.com",
        version = "v3",
        kind = "Site",
        namespaced,
        shortname = "st",
        category = "all",
        storage = false
    )]
    #[resource(category = "sites", crate = watchkeeper_custom)]
    pub(super) struct SiteSpec {
        pub(super) address: String,
    }
}

#[test]
fn a_version_that_is_not_stored_cannot_be_the_storage_version() {
    let crds = [v3::Site::crd(), v2::Site::crd()];
    assert_eq!(
        merge_crds(&crds, "v3").unwrap_err().to_string(),
        "objects are to be stored in version v3, whose definition says `storage = false`: remove that, or name another version"
    );
    let merged = merge_crds(&crds, "v2").unwrap();
    let stored = |index: usize| merged["spec"]["versions"][index]["storage"].clone();
    assert_eq!((stored(0), stored(1)), (json!(false), json!(true)));
}
