//! Custom kinds from Rust structs.
//!
//! `#[derive(Resource)]` on the struct of a spec makes the kind: a struct with metadata, spec and status that is a
//! [`ResourceType`](watchkeeper_client::ResourceType), and its CustomResourceDefinition with a structural schema.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use watchkeeper_custom::Resource;
//!
//! /// A site that is served under a domain.
//! #[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
//! #[resource(group = "example.com", version = "v1", namespaced, crate = watchkeeper_custom)]
//! struct WebsiteSpec {
//!     domain: String,
//!     #[schemars(range(max = 10))]
//!     replicas: u32,
//! }
//!
//! let site = Website::new("home", WebsiteSpec { domain: "example.com".into(), replicas: 2 });
//! assert_eq!(serde_json::to_value(&site).unwrap()["kind"], "Website");
//! let schema = &Website::crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
//! assert_eq!(schema["properties"]["spec"]["properties"]["replicas"]["maximum"], 10);
//! ```
//!
//! | attribute | meaning |
//! |---|---|
//! | `group = "example.com"`, `version = "v1"` | required |
//! | `kind = "Website"` | default: the name of the struct without `Spec` |
//! | `plural`, `singular` | default: derived from the kind |
//! | `namespaced` | the kind is namespaced; default: cluster-scoped |
//! | `status = WebsiteStatus` | the type of `status`, which becomes a subresource |
//! | `shortname = "ws"`, `category = "all"` | any number of them |
//! | `column(name = "Domain", path = ".spec.domain")` | a printer column of the field's type; also `type`, `description`, `format`, `priority` |
//! | `scale(spec = ".spec.replicas", status = ".status.replicas")` | the subresource `scale`; also `selector` |
//! | `selectable = ".spec.domain"` | a field that field selectors may use |
//! | `rule = "self.spec.a <= self.spec.b"`, `rule("…", message = "…")` | CEL over the whole object; also `message_expression`, `reason`, `field_path` |
//! | `served = false`, `storage = false`, `deprecated`, `deprecated = "…"` | of this version; see [`merge_crds`] |
//! | `derive(Default, PartialEq)` | for the kind, beside `Clone` and `Debug` |
//! | `metadata = ObjectMeta` | another [`Metadata`] type than [`watchkeeper_meta::ObjectMeta`] |
//! | `crate = watchkeeper_custom` | the path of this crate, if not `watchkeeper::custom` |
//!
//! # Schemas
//! The schema is made from schemars' `JsonSchema`. Doc comments become descriptions, `Option`s are nullable, serde's
//! defaults become defaults, and `range`, `length` and `regex` of `#[schemars(…)]` are enforced by the server. For
//! everything else there are extensions:
//!
//! ```
//! # use schemars::JsonSchema;
//! #[derive(JsonSchema)]
//! struct Rollout {
//!     #[schemars(extend("x-kubernetes-validations" = [{"rule": "self >= oldSelf", "message": "never goes back"}]))]
//!     step: u32,
//!     #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
//!     targets: Vec<Target>,
//! }
//!
//! #[derive(JsonSchema)]
//! struct Target {
//!     name: String,
//! }
//! ```
//!
//! | Rust | schema |
//! |---|---|
//! | enum of unit variants | a text of these values |
//! | enum with any tag, or none | an object with the fields of all variants; `oneOf` or `anyOf` says what each requires |
//! | untagged enum of a number and a text | `x-kubernetes-int-or-string` |
//! | `BTreeMap`, `HashMap` | `additionalProperties`; keys are any text, also where the struct wants numbers |
//! | `BTreeSet`, `HashSet` | a list of type `set` |
//! | `serde_json::Value`, `Map` | `x-kubernetes-preserve-unknown-fields` |
//! | `u8` … `u64` | an integer with bounds; Kubernetes has no values above `i64::MAX` |
//! | [`Time`](watchkeeper_meta::Time) | a text of format `date-time` |
//! | the types of `k8s-openapi`, with its feature `schemars` | their own schema |
//!
//! In a structural schema each field has one type. Everything else is a [`SchemaError`] that names the field:
//! recursive types, tuples of different types, variants of which some are text and some are objects (unit variants
//! beside others, without a tag), fields that differ in type between variants, a flattened map beside named fields, a
//! CEL rule on one variant, and `()`. So is a path of a column, `scale`, `selectable` or `field_path` that leads to no
//! field.

#[doc(hidden)]
pub mod form;

mod condition;
mod definition;
mod merge;
mod paths;
mod plural;
mod structural;

pub use condition::{Condition, ConditionStatus, set_condition};
pub use definition::{Column, CustomResource, Definition, Metadata, Rule, Scale};
pub use merge::{MergeError, merge_crds};
pub use plural::plural;
pub use structural::SchemaError;
pub use watchkeeper_derive::Resource;

/// The crates used by derived code.
#[doc(hidden)]
pub mod reexported {
    pub use {schemars, serde, serde_json, watchkeeper_client as client, watchkeeper_meta as meta};
}
