//! Users who create, change and delete random objects, and ignore refusals.

use fastrand::Rng;
use serde_json::{Value, json};
use watchkeeper_client::{Client, DynamicApi};
use watchkeeper_meta::{DeleteOptions, PatchKind, PropagationPolicy, Resource};

use super::pick;
use crate::simulator::support::{resource, selector, template};

pub(super) struct Users(Client);

/// The kinds that users work with.
const KINDS: &[(&str, &str)] = &[
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("apps", "replicasets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("", "services"),
    ("policy", "poddisruptionbudgets"),
];

impl Users {
    pub(super) fn of(client: Client) -> Self {
        Self(client)
    }

    fn api(&self, resource: &Resource) -> DynamicApi {
        let api = self.0.dynamic(resource.clone());
        match resource.scope {
            watchkeeper_meta::Scope::Namespaced => api.namespace("default"),
            watchkeeper_meta::Scope::Cluster => api,
        }
    }

    /// Makes one random request.
    pub(super) async fn act(&self, rng: &mut Rng) {
        match rng.u8(..20) {
            0..=2 => self.delete_some_pod(rng).await,
            3 => self.move_a_node(rng).await,
            4..=6 => self.delete_something(rng).await,
            7..=13 => self.change_something(rng).await,
            _ => self.create_something(rng).await,
        }
    }

    /// Leaves a cluster that can settle: with a node, and without a schedule that starts jobs.
    pub(super) async fn finish(&self) {
        self.create(&resource("", "nodes"), json!({"metadata": {"name": "node-1"}}))
            .await;
        for plural in ["jobs", "cronjobs"] {
            let kind = resource("batch", plural);
            let suspended = json!({"spec": {"suspend": plural == "cronjobs"}});
            for name in self.names(&kind).await {
                self.patch(&kind, &name, &suspended).await;
            }
        }
        let deployments = resource("apps", "deployments");
        for name in self.names(&deployments).await {
            self.patch(&deployments, &name, &json!({"spec": {"paused": false}}))
                .await;
        }
    }

    async fn names(&self, kind: &Resource) -> Vec<String> {
        let listed = self.api(kind).list().await;
        let listed = listed.map(|listed| listed.items).unwrap_or_default();
        listed.iter().map(|object| object.name().to_owned()).collect()
    }

    async fn create(&self, kind: &Resource, mut object: Value) {
        object["apiVersion"] = json!(kind.group_version_kind().api_version());
        object["kind"] = json!(kind.kind);
        let _ = self.api(kind).create(&object).await;
    }

    async fn patch(&self, kind: &Resource, name: &str, patch: &Value) {
        let _ = self.api(kind).patch(name, PatchKind::Merge, patch).await;
    }

    async fn delete(&self, kind: &Resource, name: &str, options: &DeleteOptions) {
        let _ = self.api(kind).delete(name).with(options).await;
    }

    async fn delete_some_pod(&self, rng: &mut Rng) {
        let pods = resource("", "pods");
        let names = self.names(&pods).await;
        if !names.is_empty() {
            let options = DeleteOptions {
                grace_period_seconds: rng.bool().then_some(0),
                ..Default::default()
            };
            let name: &String = pick(rng, &names);
            self.delete(&pods, name, &options).await;
        }
    }

    async fn move_a_node(&self, rng: &mut Rng) {
        let nodes = resource("", "nodes");
        let name = format!("node-{}", rng.u8(1..5));
        match rng.u8(..3) {
            0 => self.delete(&nodes, &name, &DeleteOptions::default()).await,
            _ => self.create(&nodes, json!({"metadata": {"name": name}})).await,
        }
    }

    async fn delete_something(&self, rng: &mut Rng) {
        let (kind, name) = some_object(rng);
        let policy = match (rng.u8(..3), &*kind.plural) {
            // Orphaned slices are found by name, and have no owner in between.
            (0, plural) if plural != "services" => PropagationPolicy::Orphan,
            (1, _) => PropagationPolicy::Foreground,
            _ => PropagationPolicy::Background,
        };
        let options = DeleteOptions {
            propagation_policy: Some(policy),
            ..Default::default()
        };
        self.delete(&kind, &name, &options).await;
    }

    async fn create_something(&self, rng: &mut Rng) {
        let (kind, name) = some_object(rng);
        let spec = spec(&kind.plural, &name, rng);
        self.create(&kind, json!({"metadata": {"name": name}, "spec": spec}))
            .await;
    }

    async fn change_something(&self, rng: &mut Rng) {
        let (kind, name) = some_object(rng);
        let image = json!({"containers": [{"name": "c", "image": format!("image:{}", rng.u8(..3))}]});
        let patch = match (&*kind.plural, rng.u8(..3)) {
            ("jobs", 0) => json!({"parallelism": rng.u8(..4)}),
            ("jobs" | "cronjobs", _) => json!({"suspend": rng.bool()}),
            ("services", _) => json!({"publishNotReadyAddresses": rng.bool()}),
            ("poddisruptionbudgets", _) => json!({"minAvailable": rng.u8(..4)}),
            ("deployments", 0) => json!({"paused": rng.bool()}),
            ("daemonsets", _) | (_, 1) => json!({"template": {"spec": image}}),
            _ => json!({"replicas": rng.u8(..5)}),
        };
        self.patch(&kind, &name, &json!({"spec": patch})).await;
    }
}

/// One of a few objects, which may exist or not.
fn some_object(rng: &mut Rng) -> (Resource, String) {
    let (group, plural) = pick(rng, KINDS);
    let short: String = plural.chars().take(6).collect();
    (resource(group, plural), format!("{short}-{}", rng.u8(..2)))
}

fn spec(plural: &str, name: &str, rng: &mut Rng) -> Value {
    let image = format!("image:{}", rng.u8(..3));
    let (selector, template) = (selector(name), template(name, &image));
    let replicas = rng.u8(..5);
    match plural {
        "deployments" => {
            let strategy = match rng.u8(..3) {
                0 => json!({"type": "Recreate"}),
                _ => json!({"rollingUpdate": {"maxSurge": rng.u8(1..3), "maxUnavailable": rng.u8(..2)}}),
            };
            json!({"replicas": replicas, "selector": selector, "template": template, "strategy": strategy})
        }
        "replicasets" => json!({"replicas": replicas, "selector": selector, "template": template}),
        "statefulsets" => {
            let policy = if rng.bool() { "Parallel" } else { "OrderedReady" };
            let request =
                json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
            json!({
                "replicas": replicas, "selector": selector, "template": template, "serviceName": name,
                "podManagementPolicy": policy,
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": request}],
            })
        }
        "daemonsets" => {
            let rolling = match rng.bool() {
                true => json!({"maxUnavailable": 1}),
                false => json!({"maxSurge": 1, "maxUnavailable": 0}),
            };
            json!({"selector": selector, "template": template, "updateStrategy": {"rollingUpdate": rolling}})
        }
        "jobs" => job(rng),
        "cronjobs" => {
            let policy = *pick(rng, &["Allow", "Forbid", "Replace"]);
            json!({"schedule": "* * * * *", "concurrencyPolicy": policy, "jobTemplate": {"spec": job(rng)}})
        }
        "services" => {
            let app = pick(rng, &["deploy-0", "statef-0", "daemon-0", "replic-0"]);
            json!({"selector": {"app": app}, "ports": [{"port": 80}]})
        }
        _ => {
            let app = pick(rng, &["deploy-0", "statef-0"]);
            json!({"minAvailable": rng.u8(..4), "selector": crate::simulator::support::selector(app)})
        }
    }
}

fn job(rng: &mut Rng) -> Value {
    let code = if rng.u8(..3) == 0 { "1" } else { "0" };
    let policy = if rng.bool() { "Never" } else { "OnFailure" };
    json!({
        "completions": rng.u8(1..4),
        "parallelism": rng.u8(1..4),
        "completionMode": if rng.bool() { "Indexed" } else { "NonIndexed" },
        "backoffLimit": rng.u8(..3),
        "template": {
            "metadata": {"annotations": {"simulator.watchkeeper/exit-code": code}},
            "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "job:1"}]},
        },
    })
}
