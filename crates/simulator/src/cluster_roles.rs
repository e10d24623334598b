//! Aggregated cluster roles: the rules of all roles that match their label selectors are combined.

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::LabelSelector;
use watchkeeper_runtime::controller::{Action, Request};

use crate::cluster::{Cluster, Task, ignore_gone};
use crate::item::Item;
use crate::kinds::cluster_roles;

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let roles = cluster_roles();
    let controller = cluster.controller("cluster-roles", &roles).watches(
        cluster.informer(&roles),
        cluster.all_of(&roles),
        None,
    );
    cluster.run(controller, reconcile)
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let roles = cluster_roles();
    let Some(role) = Item::living(&request).filter(|role| role["aggregationRule"].is_object()) else {
        return Ok(Action::Done);
    };
    let known = cluster.snapshot(&roles);
    let mut others: Vec<Item> = known.iter().map(Item::read).collect();
    others.retain(|other| other.name() != role.name());
    others.sort_by(|one, other| one.name().cmp(other.name()));
    let rules = aggregated(&role, &others);
    if role.list("/rules") != rules {
        let patch = json!({"rules": rules});
        ignore_gone(cluster.merge(&roles, &role, patch).await.map(drop))?;
    }
    Ok(Action::Done)
}

/// The rules of all selected roles, without duplicates.
fn aggregated(role: &Item, others: &[Item]) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    for selector in role.list("/aggregationRule/clusterRoleSelectors") {
        let Ok(selector) = LabelSelector::from_json(selector) else {
            continue;
        };
        let selected = others.iter().filter(|other| selector.matches(&other.header()));
        for rule in selected.flat_map(|other| other.list("/rules")) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::item;

    fn role(name: &str, more: Value) -> Item {
        let mut role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        });
        for (field, value) in more.as_object().unwrap() {
            match field.as_str() {
                "labels" => role["metadata"]["labels"] = value.clone(),
                field => role[field] = value.clone(),
            }
        }
        item(&role)
    }

    #[test]
    fn rules_come_in_the_order_of_selectors_and_once() {
        let rule = |name: &str| json!({"apiGroups": [""], "resources": [name], "verbs": ["get"]});
        let all = role(
            "all",
            json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"b": "1"}}, {"matchLabels": {"a": "1"}}]}}),
        );
        let others = [
            role(
                "one",
                json!({"labels": {"a": "1"}, "rules": [rule("pods"), rule("secrets")]}),
            ),
            role("two", json!({"labels": {"b": "1"}, "rules": [rule("pods")]})),
            role("three", json!({"rules": [rule("nodes")]})),
        ];
        assert_eq!(aggregated(&all, &others), [rule("pods"), rule("secrets")]);
    }
}
