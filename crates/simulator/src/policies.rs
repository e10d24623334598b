//! Type checking of validating admission policies: warnings about expressions that do not fit the kinds they match.
//!
//! Kinds are those that the rules name without wildcards; their schemas are the server's own documents. A policy is
//! checked once per generation.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_client::discovery::Discovery;
use watchkeeper_kinds::type_checking::{TypedKind, check_types};
use watchkeeper_meta::{GroupVersion, GroupVersionKind};
use watchkeeper_runtime::controller::{Action, Request};

use crate::cluster::{Cluster, Task, ignore_gone};
use crate::item::Item;
use crate::kinds::policies;

/// The field manager of the status, as in Kubernetes.
const MANAGER: &str = "validatingadmissionpolicy-status-controller";

/// The number of kinds that are checked, as in Kubernetes.
const MAX_KINDS: usize = 10;

/// The largest document of a real server has 6 MB.
const MAX_DOCUMENT: usize = 64 << 20;

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let controller = cluster.controller("policies", &policies());
    cluster.run(controller, reconcile)
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(policy) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    let generation = policy["metadata"]["generation"].as_i64();
    if generation <= policy["status"]["observedGeneration"].as_i64() {
        return Ok(Action::Done);
    }
    let warnings = warnings(&cluster, &policy["spec"]).await?;
    let kind = policies().group_version_kind();
    let status = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "status": {"observedGeneration": generation, "typeChecking": warnings},
    });
    let api = cluster.api(&policies(), "").subresource("status");
    let applied = api.apply(policy.name(), &status, MANAGER).force().await;
    ignore_gone(applied.map(drop))?;
    Ok(Action::Done)
}

/// The value of `typeChecking`: empty without warnings.
async fn warnings(cluster: &Cluster, spec: &Value) -> Result<Value, Error> {
    let kinds = kinds_to_check(spec, &cluster.client.discover().await?);
    let mut documents = Documents {
        cluster,
        read: HashMap::new(),
    };
    let mut typed = Vec::new();
    for kind in kinds {
        typed.extend(documents.kind(kind).await?);
    }
    let parameters = match parameter_kind(spec) {
        Some(kind) => documents.kind(kind).await?,
        None => None,
    };
    let warnings = check_types(spec, &typed, parameters.as_ref()).into_iter();
    let warnings = warnings.map(|it| json!({"fieldRef": it.field_ref, "warning": it.warning}));
    let warnings: Vec<Value> = warnings.collect();
    Ok(match warnings.is_empty() {
        true => json!({}),
        false => json!({"expressionWarnings": warnings}),
    })
}

/// The documents that were needed so far, by path.
struct Documents<'a> {
    cluster: &'a Cluster,
    read: HashMap<String, Value>,
}

impl Documents<'_> {
    /// The type of a kind; `None` if the server does not describe it.
    async fn kind(&mut self, kind: GroupVersionKind) -> Result<Option<TypedKind>, Error> {
        let path = match &*kind.group {
            "" => format!("/openapi/v3/api/{}", kind.version),
            group => format!("/openapi/v3/apis/{group}/{}", kind.version),
        };
        if !self.read.contains_key(&path) {
            let document = self.fetch(&path).await?;
            self.read.insert(path.clone(), document);
        }
        Ok(TypedKind::read(kind, &self.read[&path]))
    }

    async fn fetch(&self, path: &str) -> Result<Value, Error> {
        match self.cluster.client.get_raw(path, MAX_DOCUMENT).await {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
            Err(error) if error.is_not_found() => Ok(Value::Null),
            Err(error) => Err(error),
        }
    }
}

fn parameter_kind(spec: &Value) -> Option<GroupVersionKind> {
    let text = |field: &str| spec["paramKind"][field].as_str().map(str::to_owned);
    let version: GroupVersion = text("apiVersion")?.parse().ok()?;
    Some(GroupVersionKind::new(
        version.group,
        version.version,
        text("kind")?,
    ))
}

/// The served kinds that the rules name, in order.
fn kinds_to_check(spec: &Value, discovery: &Discovery) -> BTreeSet<GroupVersionKind> {
    let mut kinds = BTreeSet::new();
    let rules = spec["matchConstraints"]["resourceRules"].as_array();
    for rule in rules.into_iter().flatten() {
        let found = discovery.resources().filter(|found| names(rule, &found.resource));
        let found = found.map(|found| found.resource.group_version_kind());
        let room = MAX_KINDS.saturating_sub(kinds.len());
        kinds.extend(found.collect::<BTreeSet<_>>().into_iter().take(room));
    }
    kinds
}

/// True if a rule names a resource by its own words, without a wildcard in its groups or versions.
fn names(rule: &Value, resource: &watchkeeper_meta::Resource) -> bool {
    let words = |field: &str| {
        rule[field]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    };
    let is_exact = |field: &str, value: &str| {
        !words(field).any(|word| word.contains('*')) && words(field).any(|word| word == value)
    };
    is_exact("apiGroups", &resource.group)
        && is_exact("apiVersions", &resource.version)
        && words("resources").any(|word| word == resource.plural)
}
