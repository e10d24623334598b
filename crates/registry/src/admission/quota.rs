//! The ResourceQuota plugin.
//!
//! A quota's status has the limits and the usage. The quota controller writes it, and so does this plugin, which adds
//! the usage of a write before the write is stored. A quota without a status limits nothing yet, as in Kubernetes.
//! Only the controller subtracts the usage of deleted objects.

use serde_json::{Value, json};
use watchkeeper_kinds::quota::{STATED, Usage, amounts, is_about, usage};
use watchkeeper_kinds::{Part, builtin, has_pod_resources};
use watchkeeper_meta::{ListOptions, Status};

use crate::context::WriteContext;
use crate::definition::Definition;
use crate::object::Live;
use crate::write::{Managed, Proposal, Target, Write};
use crate::{Registry, metadata};

/// The field manager of the charges.
const MANAGER: &str = "kube-apiserver";

impl Registry {
    /// Charges the usage of a write to the quotas of its namespace, or names the exceeded one.
    pub(crate) async fn charge(
        &self,
        definition: &Definition,
        live: Option<&Value>,
        object: &Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
        let namespace = metadata::text(object, "namespace");
        if namespace.is_empty() || definition.kind.quota_exempt {
            return Ok(());
        }
        let quotas = self.builtin(&builtin::RESOURCE_QUOTA)?;
        let name = metadata::text(object, "name");
        let refuse = |why| Status::forbidden(&definition.group_resource(), name, why);
        let mut charged = Vec::new();
        for quota in self
            .list(&quotas, namespace, &ListOptions::default())
            .await?
            .objects()
        {
            let quota = quota.to_value(&quotas)?;
            let bill = bill(definition, &quota, live, object).map_err(refuse)?;
            if !bill.is_empty() {
                charge(&quota, &bill).map_err(refuse)?;
                charged.push((metadata::text(&quota, "name").to_owned(), bill));
            }
        }
        if context.dry_run {
            return Ok(());
        }
        let counting = WriteContext::by_server(MANAGER);
        for (quota, bill) in charged {
            let propose = |live: &Live| {
                charge(&live.value, &bill).map_err(refuse).map(|object| Proposal {
                    object,
                    managed: Managed::ByChange,
                })
            };
            let target = Target::new(&quotas, namespace, &quota, Part::Status);
            // Charging a quota is a write of its own.
            let mut write = Write::unguarded(self, target, &counting);
            Box::pin(write.change(propose)).await?;
        }
        Ok(())
    }
}

/// True if an update of this part can increase usage.
pub(crate) fn can_grow(definition: &Definition, part: Part) -> bool {
    definition.kind.grows_by.contains(&part)
}

/// The usage of a write under a quota; empty if the quota does not apply.
fn bill(
    definition: &Definition,
    quota: &Value,
    live: Option<&Value>,
    object: &Value,
) -> Result<Usage, String> {
    let resource = definition.group_resource();
    let taken = usage(&resource, object);
    let limited = amounts(&quota["status"]["hard"]);
    let restricted: Vec<&String> = limited.keys().filter(|name| taken.contains_key(*name)).collect();
    let is_pod = definition.is(&builtin::POD);
    if restricted.is_empty() || !is_about(quota, &resource, object) {
        return Ok(Usage::new());
    }
    let name = metadata::text(quota, "name");
    if is_pod && let Some(missing) = unstated(&restricted, object) {
        return Err(format!("failed quota: {name}: must specify {missing}"));
    }
    let used = amounts(&quota["status"]["used"]);
    if !restricted.iter().all(|resource| used.contains_key(*resource)) {
        let names: Vec<&str> = restricted.iter().map(|name| name.as_str()).collect();
        let names = names.join(",");
        return Err(format!("status unknown for quota: {name}, resources: {names}"));
    }
    let before = match live {
        Some(live) if is_about(quota, &resource, live) => usage(&resource, live),
        _ => Usage::new(),
    };
    let mut bill = Usage::new();
    for name in restricted {
        let more = match before.get(name) {
            Some(before) => taken[name].checked_sub(before),
            None => Some(taken[name].clone()),
        };
        bill.extend(
            more.filter(|more| !more.is_zero() && !more.is_negative())
                .map(|more| (name.clone(), more)),
        );
    }
    Ok(bill)
}

/// The quota with the usage added, or the error if it is exceeded.
fn charge(quota: &Value, bill: &Usage) -> Result<Value, String> {
    let (hard, used) = (
        amounts(&quota["status"]["hard"]),
        amounts(&quota["status"]["used"]),
    );
    let mut charged = quota.clone();
    let mut exceeded = Vec::new();
    for (name, more) in bill {
        let sum = used
            .get(name)
            .map_or(Some(more.clone()), |used| used.checked_add(more));
        match (sum, hard.get(name)) {
            (Some(sum), Some(hard)) if sum <= *hard => {
                charged["status"]["used"][name] = json!(sum.to_string());
            }
            // The limit was removed meanwhile.
            (Some(_), None) => {}
            _ => exceeded.push(name),
        }
    }
    if exceeded.is_empty() {
        return Ok(charged);
    }
    let shown = |amounts: &Usage| {
        let parts = exceeded
            .iter()
            .filter_map(|name| Some((name, amounts.get(*name)?)));
        let parts = parts.map(|(name, amount)| format!("{name}={amount}"));
        parts.collect::<Vec<_>>().join(",")
    };
    Err(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        metadata::text(quota, "name"),
        shown(bill),
        shown(&used),
        shown(&hard),
    ))
}

/// The limited resources that some containers do not request: `cpu for: a,b; memory for: a`. A pod that states any as a
/// whole need not state others.
fn unstated(restricted: &[&String], pod: &Value) -> Option<String> {
    if has_pod_resources(pod) {
        return None;
    }
    let lists = ["containers", "initContainers"].map(|list| pod["spec"][list].as_array());
    let containers: Vec<&Value> = lists.into_iter().flatten().flatten().collect();
    let mut missing = Vec::new();
    for name in restricted.iter().filter(|name| STATED.contains(&name.as_str())) {
        let (list, resource) = name.split_once('.').unwrap_or(("requests", name));
        let lacks = |container: &&&Value| container["resources"][list].get(resource).is_none();
        let mut without: Vec<&str> = containers
            .iter()
            .filter(lacks)
            .filter_map(|container| container["name"].as_str())
            .collect();
        without.sort_unstable();
        without.dedup();
        if !without.is_empty() {
            missing.push(format!("{name} for: {}", without.join(",")));
        }
    }
    (!missing.is_empty()).then(|| missing.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str) -> std::sync::Arc<Definition> {
        let mut known = Definition::builtin().into_iter();
        known
            .find(|known| known.resource.plural == plural && known.resource.group.is_empty())
            .unwrap()
    }

    /// The usage after a create, or the error.
    fn check(plural: &str, quota: Value, object: Value, outcome: &str) {
        let definition = definition(plural);
        let answer = bill(&definition, &quota, None, &object).and_then(|bill| charge(&quota, &bill));
        let answer = answer.map_or_else(|why| why, |charged| charged["status"]["used"].to_string());
        assert_eq!(answer, outcome, "{quota} {object}");
    }

    fn quota(spec: Value, hard: Value, used: Value) -> Value {
        json!({"metadata": {"name": "q"}, "spec": spec, "status": {"hard": hard, "used": used}})
    }

    #[test]
    fn object_counts_are_charged() {
        let limits = |hard: Value, used: Value| quota(json!({}), hard, used);
        let none = json!({});
        check(
            "configmaps",
            limits(json!({"configmaps": "2"}), json!({"configmaps": "1"})),
            none.clone(),
            r#"{"configmaps":"2"}"#,
        );
        check(
            "configmaps",
            limits(
                json!({"count/configmaps": "1", "pods": "0"}),
                json!({"count/configmaps": "1"}),
            ),
            none.clone(),
            "exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1",
        );
        check(
            "configmaps",
            limits(json!({"pods": "0"}), json!({})),
            none.clone(),
            "{}",
        );
        check(
            "secrets",
            limits(json!({"secrets": "1"}), json!({})),
            none,
            "status unknown for quota: q, resources: secrets",
        );
    }

    #[test]
    fn the_resources_of_pods_are_charged() {
        let pod = |resources: Value| json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
        let limits = |spec: Value| {
            quota(
                spec,
                json!({"requests.cpu": "1", "limits.memory": "1Gi"}),
                json!({"requests.cpu": "500m", "limits.memory": "0"}),
            )
        };
        check(
            "pods",
            limits(json!({})),
            pod(json!({"requests": {"cpu": "250m"}, "limits": {"memory": "64Mi"}})),
            r#"{"limits.memory":"64Mi","requests.cpu":"750m"}"#,
        );
        check(
            "pods",
            limits(json!({})),
            pod(json!({"requests": {"cpu": "2"}, "limits": {"memory": "64Mi"}})),
            "exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=500m, limited: requests.cpu=1",
        );
        check(
            "pods",
            limits(json!({})),
            pod(json!({})),
            "failed quota: q: must specify limits.memory for: c; requests.cpu for: c",
        );
        let mut whole = pod(json!({}));
        whole["spec"]["resources"] = json!({"requests": {"cpu": "100m"}});
        let charged = r#"{"limits.memory":"0","requests.cpu":"600m"}"#;
        check("pods", limits(json!({})), whole, charged);
        check(
            "pods",
            limits(json!({"scopes": ["Terminating"]})),
            pod(json!({})),
            r#"{"limits.memory":"0","requests.cpu":"500m"}"#,
        );
    }

    #[test]
    fn services_and_claims_are_charged() {
        check(
            "services",
            quota(
                json!({}),
                json!({"services.nodeports": "1"}),
                json!({"services.nodeports": "0"}),
            ),
            json!({"spec": {"type": "NodePort", "ports": [{"nodePort": 1}, {"nodePort": 2}]}}),
            "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1",
        );
        check(
            "persistentvolumeclaims",
            quota(
                json!({}),
                json!({"fast.storageclass.storage.k8s.io/requests.storage": "10Gi"}),
                json!({"fast.storageclass.storage.k8s.io/requests.storage": "0"}),
            ),
            json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "4Gi"}}}}),
            r#"{"fast.storageclass.storage.k8s.io/requests.storage":"4Gi"}"#,
        );
    }
}
