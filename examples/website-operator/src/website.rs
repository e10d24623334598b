//! The kind.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watchkeeper::prelude::*;

/// Pages that are served under a domain.
#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", namespaced, status = WebsiteStatus, shortname = "site")]
#[resource(column(name = "Domain", path = ".spec.domain"))]
#[resource(column(name = "Ready", path = ".status.conditions[?(@.type=='Ready')].status"))]
#[resource(rule(
    "self.spec.domain == oldSelf.spec.domain",
    message = "a website keeps its domain"
))]
pub struct WebsiteSpec {
    /// The domain of the pages. It is unique.
    #[schemars(length(max = 200), regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub domain: String,
    /// The HTML by file name.
    pub pages: BTreeMap<String, String>,
    /// The number of pods that serve them.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,
}

/// The observed state.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct WebsiteStatus {
    /// `Ready`: the domain is the website's, and its pods are available.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

fn one() -> i32 {
    1
}
