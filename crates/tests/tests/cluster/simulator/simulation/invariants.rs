//! Invariants of a cluster at rest, whatever happened before.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use watchkeeper_client::Client;
use watchkeeper_meta::Scope;

use crate::simulator::support::{holds, resource};

const KINDS: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "nodes"),
    ("", "services"),
    ("", "endpoints"),
    ("", "persistentvolumes"),
    ("", "persistentvolumeclaims"),
    ("apps", "replicasets"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("apps", "controllerrevisions"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("discovery.k8s.io", "endpointslices"),
    ("policy", "poddisruptionbudgets"),
];

/// All objects at one moment.
pub(super) struct World(BTreeMap<&'static str, Vec<Value>>);

impl World {
    pub(super) async fn see(client: &Client) -> Self {
        let mut world = BTreeMap::new();
        for (group, plural) in KINDS {
            let kind = resource(group, plural);
            let api = match kind.scope {
                Scope::Namespaced => client.dynamic(kind).namespace("default"),
                Scope::Cluster => client.dynamic(kind),
            };
            let listed = api.list().await.unwrap();
            let values = listed.items.iter().map(|object| object.to_value().unwrap());
            world.insert(*plural, values.collect());
        }
        Self(world)
    }

    /// The objects that differ from an earlier state.
    pub(super) fn changes_since(&self, before: &Self) -> BTreeSet<String> {
        let versions = |world: &Self| -> BTreeSet<String> {
            let all = world
                .0
                .iter()
                .flat_map(|(plural, all)| all.iter().map(move |one| (plural, one)));
            all.map(|(plural, one)| {
                format!(
                    "{plural} {} {}",
                    name(one),
                    text(one, "/metadata/resourceVersion")
                )
            })
            .collect()
        };
        versions(self)
            .symmetric_difference(&versions(before))
            .cloned()
            .collect()
    }

    /// All violated invariants.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Problems::default();
        self.check_owners(&mut problems);
        self.check_pods(&mut problems);
        self.all("replicasets")
            .for_each(|set| self.check_replica_set(set, &mut problems));
        self.all("deployments")
            .for_each(|one| self.check_deployment(one, &mut problems));
        self.all("statefulsets")
            .for_each(|set| self.check_stateful_set(set, &mut problems));
        self.all("daemonsets")
            .for_each(|set| self.check_daemon_set(set, &mut problems));
        self.all("jobs")
            .for_each(|job| self.check_job(job, &mut problems));
        self.all("cronjobs")
            .for_each(|one| self.check_cron_job(one, &mut problems));
        self.all("services")
            .for_each(|service| self.check_service(service, &mut problems));
        self.all("poddisruptionbudgets")
            .for_each(|budget| self.check_budget(budget, &mut problems));
        self.check_volumes(&mut problems);
        problems.0
    }

    fn all(&self, plural: &str) -> impl Iterator<Item = &Value> + Clone {
        self.0[plural].iter()
    }

    fn owned<'a>(&'a self, plural: &str, owner: &'a Value) -> impl Iterator<Item = &'a Value> + Clone {
        let uid = &owner["metadata"]["uid"];
        self.all(plural)
            .filter(move |one| one["metadata"]["ownerReferences"][0]["uid"] == *uid)
    }

    fn labelled<'a>(&'a self, app: &'a Value) -> impl Iterator<Item = &'a Value> + Clone {
        self.all("pods")
            .filter(move |pod| pod["metadata"]["labels"]["app"] == *app)
    }

    /// Checks that nothing outlives its owner, and nothing is left terminating.
    fn check_owners(&self, problems: &mut Problems) {
        let uids: BTreeSet<&str> = self
            .0
            .values()
            .flatten()
            .map(|one| text(one, "/metadata/uid"))
            .collect();
        for one in self.0.values().flatten() {
            let owners = one["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten();
            for owner in owners {
                problems.expect(
                    uids.contains(text(owner, "/uid")),
                    one,
                    "has an owner that is gone",
                );
            }
            problems.expect(
                one["metadata"]["deletionTimestamp"].is_null(),
                one,
                "is still being deleted",
            );
        }
    }

    fn check_pods(&self, problems: &mut Problems) {
        let nodes: BTreeSet<&str> = self.all("nodes").map(name).collect();
        let mut addresses = BTreeSet::new();
        for pod in self.all("pods") {
            let has_ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
            problems.expect(holds(pod, "Ready") || has_ended, pod, "is neither ready nor over");
            problems.expect(
                nodes.contains(text(pod, "/spec/nodeName")),
                pod,
                "is on a node that is gone",
            );
            problems.expect(
                addresses.insert(text(pod, "/status/podIP")),
                pod,
                "shares its address",
            );
            problems.expect(
                pod["metadata"]["finalizers"].is_null(),
                pod,
                "has not been counted",
            );
        }
    }

    fn check_replica_set(&self, set: &Value, problems: &mut Problems) {
        let wanted = number(set, "/spec/replicas");
        let pods = self.owned("pods", set).filter(|pod| holds(pod, "Ready")).count() as u64;
        problems.expect(pods == wanted, set, "has another number of pods");
        problems.counts(set, &["replicas", "readyReplicas", "availableReplicas"], wanted);
    }

    fn check_deployment(&self, deployment: &Value, problems: &mut Problems) {
        let wanted = number(deployment, "/spec/replicas");
        let image = |one: &Value| text(one, "/spec/template/spec/containers/0/image").to_owned();
        for set in self.owned("replicasets", deployment) {
            let own = if image(set) == image(deployment) {
                wanted
            } else {
                0
            };
            problems.expect(number(set, "/spec/replicas") == own, set, "has another size");
        }
        let current = self
            .owned("replicasets", deployment)
            .filter(|set| image(set) == image(deployment));
        problems.expect(
            current.clone().count() == 1,
            deployment,
            "has another number of current sets",
        );
        let revision = "/metadata/annotations/deployment.kubernetes.io~1revision";
        let is_latest = current
            .clone()
            .all(|set| text(set, revision) == text(deployment, revision));
        problems.expect(is_latest, deployment, "has another revision than its set");
        let counts = [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
        ];
        problems.counts(deployment, &counts, wanted);
        problems.expect(holds(deployment, "Available"), deployment, "is not available");
    }

    fn check_stateful_set(&self, set: &Value, problems: &mut Problems) {
        let wanted = number(set, "/spec/replicas");
        let names: BTreeSet<String> = self.owned("pods", set).map(|pod| name(pod).to_owned()).collect();
        let expected: BTreeSet<String> = (0..wanted)
            .map(|number| format!("{}-{number}", name(set)))
            .collect();
        problems.expect(names == expected, set, "has pods of other names");
        self.check_images(set, problems);
        for pod in &names {
            let claim = self
                .all("persistentvolumeclaims")
                .find(|claim| name(claim) == format!("data-{pod}"));
            let is_bound = claim.is_some_and(|claim| text(claim, "/status/phase") == "Bound");
            problems.expect(is_bound, set, "has a pod without its disk");
        }
        let counts = [
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "currentReplicas",
            "updatedReplicas",
        ];
        problems.counts(set, &counts, wanted);
        let is_settled = set["status"]["currentRevision"] == set["status"]["updateRevision"];
        problems.expect(is_settled, set, "has not moved to its revision");
    }

    fn check_daemon_set(&self, set: &Value, problems: &mut Problems) {
        let nodes: Vec<&str> = self.all("nodes").map(name).collect();
        let mut places: Vec<&str> = self
            .owned("pods", set)
            .map(|pod| text(pod, "/spec/nodeName"))
            .collect();
        places.sort_unstable();
        problems.expect(places == nodes, set, "is not once on every node");
        self.check_images(set, problems);
        let counts = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "updatedNumberScheduled",
            "numberReady",
            "numberAvailable",
        ];
        problems.counts(set, &counts, nodes.len() as u64);
        problems.expect(
            number(set, "/status/numberMisscheduled") == 0,
            set,
            "is where it should not be",
        );
    }

    fn check_images(&self, set: &Value, problems: &mut Problems) {
        let image = set["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        let is_new = |pod: &Value| pod["spec"]["containers"][0]["image"] == image;
        problems.expect(
            self.owned("pods", set).all(is_new),
            set,
            "has pods of an old template",
        );
    }

    fn check_job(&self, job: &Value, problems: &mut Problems) {
        let counted = |name: &str| number(job, &format!("/status/{name}"));
        // No pods run, so the job cannot finish.
        let is_idle = number(job, "/spec/parallelism") == 0 || job["spec"]["suspend"] == true;
        let is_over = holds(job, "Complete") || holds(job, "Failed");
        problems.expect(is_over || is_idle, job, "has not ended");
        problems.expect(counted("active") == 0, job, "counts pods that run");
        if holds(job, "Complete") {
            problems.expect(
                counted("succeeded") == number(job, "/spec/completions"),
                job,
                "has another number of successes",
            );
        }
        let phase = |phase: &'static str| {
            self.owned("pods", job)
                .filter(move |pod| text(pod, "/status/phase") == phase)
        };
        // Pods may have been deleted since, but each existing one must have been counted.
        problems.expect(
            phase("Failed").count() as u64 <= counted("failed"),
            job,
            "has not counted its failures",
        );
        problems.expect(
            phase("Succeeded").count() as u64 <= counted("succeeded"),
            job,
            "has not counted its successes",
        );
        problems.expect(
            number(job, "/status/failed") <= 64,
            job,
            "has failed more often than it can",
        );
    }

    fn check_cron_job(&self, cron_job: &Value, problems: &mut Problems) {
        let jobs = self.owned("jobs", cron_job);
        let running = jobs
            .clone()
            .filter(|job| !holds(job, "Complete") && !holds(job, "Failed"));
        let active = cron_job["status"]["active"].as_array().map_or(0, Vec::len);
        problems.expect(active == running.count(), cron_job, "names other jobs than run");
        let kept = |kind: &str, most: usize| jobs.clone().filter(|job| holds(job, kind)).count() <= most;
        problems.expect(
            kept("Complete", 3) && kept("Failed", 1),
            cron_job,
            "keeps more jobs than it may",
        );
    }

    /// Checks that slices and endpoints name exactly the ready pods.
    fn check_service(&self, service: &Value, problems: &mut Problems) {
        let pods = self
            .labelled(&service["spec"]["selector"]["app"])
            .filter(|pod| holds(pod, "Ready"));
        let pods: BTreeSet<&str> = pods.map(|pod| text(pod, "/status/podIP")).collect();
        let endpoints = self
            .owned("endpointslices", service)
            .flat_map(|slice| list(slice, "/endpoints"));
        let named: Vec<&str> = endpoints.map(|endpoint| text(endpoint, "/addresses/0")).collect();
        let distinct: BTreeSet<&str> = named.iter().copied().collect();
        problems.expect(
            distinct == pods && named.len() == pods.len(),
            service,
            "has slices of other pods",
        );
        let older = self.all("endpoints").filter(|one| name(one) == name(service));
        let older = older
            .flat_map(|one| list(one, "/subsets"))
            .flat_map(|subset| list(subset, "/addresses"));
        let older: BTreeSet<&str> = older.map(|address| text(address, "/ip")).collect();
        problems.expect(older == pods, service, "has endpoints of other pods");
    }

    fn check_budget(&self, budget: &Value, problems: &mut Problems) {
        let healthy = self.labelled(&budget["spec"]["selector"]["matchLabels"]["app"]);
        let healthy = healthy.filter(|pod| holds(pod, "Ready")).count() as u64;
        let allowed = healthy.saturating_sub(number(budget, "/spec/minAvailable"));
        problems.expect(
            number(budget, "/status/currentHealthy") == healthy,
            budget,
            "counts other pods",
        );
        problems.expect(
            number(budget, "/status/disruptionsAllowed") == allowed,
            budget,
            "allows another number",
        );
    }

    fn check_volumes(&self, problems: &mut Problems) {
        let claims: BTreeSet<&str> = self
            .all("persistentvolumeclaims")
            .map(|one| text(one, "/metadata/uid"))
            .collect();
        let bound = self
            .all("persistentvolumes")
            .map(|one| text(one, "/spec/claimRef/uid"));
        let bound: Vec<&str> = bound.collect();
        let distinct: BTreeSet<&str> = bound.iter().copied().collect();
        if distinct != claims || bound.len() != claims.len() {
            problems.0.push("volumes and claims differ".to_owned());
        }
    }
}

#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn expect(&mut self, is_well: bool, object: &Value, what: &str) {
        if !is_well {
            let status = &object["status"];
            self.0.push(format!(
                "{} {} {what}: {status}",
                text(object, "/kind"),
                name(object)
            ));
        }
    }

    fn counts(&mut self, object: &Value, counts: &[&str], wanted: u64) {
        let generation = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        let all = counts
            .iter()
            .all(|count| number(object, &format!("/status/{count}")) == wanted);
        self.expect(
            generation && all,
            object,
            &format!("does not say {wanted} of everything"),
        );
    }
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> u64 {
    object
        .pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or_default()
}

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + Clone + use<'a> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}
