//! Horizontal pod autoscalers: scale workloads by the simulated usage of their pods.
//!
//! ```text
//! what pods use ──▶ replicas for each metric ──▶ the most of them ──▶ within what was recommended lately,
//!   ([`usage`](crate::usage))   ([`replicas`])                       the policies and the limits ([`behaviour`]) ──▶ scale
//! ```
//!
//! Only resource metrics are simulated; for object, pod and external metrics the autoscaler reports an error.

mod behaviour;
mod replicas;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::{LabelSelector, ObjectKey, Resource};
use watchkeeper_runtime::controller::{Action, Request};
use watchkeeper_wire::schema::resources;

use self::behaviour::{History, Verdict};
use self::replicas::Proposal;
use crate::cluster::{Cluster, Task};
use crate::conditions::{self, Condition};
use crate::events;
use crate::garbage::established;
use crate::item::Item;
use crate::kinds::{autoscalers, custom_resource_definitions, pods};
use crate::pod_control::message;
use crate::time;

/// The interval at which metrics are evaluated, as in Kubernetes.
const INTERVAL: Duration = Duration::from_secs(15);

/// The recent recommendations and scaling of autoscalers.
type Histories = Mutex<HashMap<ObjectKey, History>>;

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let histories: Arc<Histories> = Arc::default();
    let controller = cluster.controller("autoscalers", &autoscalers());
    cluster.run(controller, move |cluster, request| {
        let histories = histories.clone();
        async move { reconcile(&cluster, &histories, request).await }
    })
}

async fn reconcile(cluster: &Cluster, histories: &Histories, request: Request) -> Result<Action, Error> {
    let Some(scaler) = Item::living(&request) else {
        histories.lock().remove(&request.key);
        return Ok(Action::Done);
    };
    let mut report = Report::of(&scaler);
    if let Some(target) = target(cluster, &scaler) {
        match target.scale(cluster, &scaler).await {
            Ok(scale) => decide(cluster, histories, &scaler, &target, scale, &mut report).await?,
            Err(error) => {
                let words = message(&error);
                report.not("AbleToScale", "FailedGetScale", unable_to_scale(&words));
                cluster
                    .events
                    .warning(events::AUTOSCALERS, &scaler, "FailedGetScale", words);
            }
        }
    } else {
        let kind = scaler.text("/spec/scaleTargetRef/kind");
        let words = format!("no matches for kind {kind:?}");
        report.not("AbleToScale", "FailedGetScale", unable_to_scale(&words));
    }
    cluster.report(&autoscalers(), &scaler, report.status).await?;
    Ok(Action::After(INTERVAL))
}

fn unable_to_scale(why: &str) -> String {
    format!("the HPA controller was unable to get the target's current scale: {why}")
}

/// The scale target.
struct Target {
    resource: Resource,
    name: String,
}

/// The size of a target and its pods.
struct Scale {
    wanted: i64,
    running: i64,
    selector: LabelSelector,
}

fn target(cluster: &Cluster, scaler: &Item) -> Option<Target> {
    let reference = scaler.at("/spec/scaleTargetRef");
    let text = |name: &str| reference[name].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion")
        .split_once('/')
        .unwrap_or(("", text("apiVersion")));
    let builtin = resources::by_kind(group, version, text("kind")).map(|known| known.resource.clone());
    let resource = builtin.or_else(|| {
        let definitions = cluster.snapshot(&custom_resource_definitions());
        let mut custom = definitions.iter().filter_map(established);
        custom.find(|known| known.group == group && known.kind == text("kind"))
    })?;
    Some(Target {
        resource,
        name: text("name").to_owned(),
    })
}

impl Target {
    async fn scale(&self, cluster: &Cluster, scaler: &Item) -> Result<Scale, Error> {
        let api = cluster.api(&self.resource, scaler.namespace());
        let scale = api.scale(&self.name).await?;
        Ok(Scale {
            wanted: scale.desired.into(),
            running: scale.current.into(),
            selector: scale.selector.parse().unwrap_or_else(|_| LabelSelector::new([])),
        })
    }

    async fn resize(&self, cluster: &Cluster, scaler: &Item, replicas: i64) -> Result<(), Error> {
        let api = cluster.api(&self.resource, scaler.namespace());
        let replicas = i32::try_from(replicas).unwrap_or(i32::MAX);
        api.scale_to(&self.name, replicas).await.map(drop)
    }
}

/// The status of an autoscaler under construction.
struct Report {
    status: Value,
    conditions: Vec<Value>,
}

impl Report {
    fn of(scaler: &Item) -> Self {
        Self {
            status: json!({"observedGeneration": scaler.generation()}),
            conditions: scaler.list("/status/conditions").to_vec(),
        }
    }

    fn is(&mut self, kind: &str, reason: &str, message: impl AsRef<str>) {
        self.put(kind, true, reason, message.as_ref());
    }

    fn not(&mut self, kind: &str, reason: &str, message: impl AsRef<str>) {
        self.put(kind, false, reason, message.as_ref());
    }

    fn put(&mut self, kind: &str, holds: bool, reason: &str, message: &str) {
        let condition = Condition {
            kind,
            holds: Some(holds),
            reason,
            message,
        };
        self.conditions = conditions::with(&self.conditions, condition);
        self.status["conditions"] = json!(self.conditions);
    }
}

/// Computes the desired number of replicas, and scales.
async fn decide(
    cluster: &Cluster,
    histories: &Histories,
    scaler: &Item,
    target: &Target,
    scale: Scale,
    report: &mut Report,
) -> Result<(), Error> {
    report.is(
        "AbleToScale",
        "SucceededGetScale",
        "the HPA controller was able to get the target's current scale",
    );
    report.status["currentReplicas"] = json!(scale.running);
    report.status["desiredReplicas"] = json!(scale.wanted);
    let least = scaler.at("/spec/minReplicas").as_i64().unwrap_or(1);
    let most = scaler.number("/spec/maxReplicas");
    let (desired, why) = if scale.wanted == 0 && least != 0 {
        let words = "scaling is disabled since the replica count of the target is zero";
        report.not("ScalingActive", "ScalingDisabled", words);
        return Ok(());
    } else if scale.wanted > most {
        (
            most,
            "Current number of replicas above Spec.MaxReplicas".to_owned(),
        )
    } else if scale.wanted < least {
        (
            least,
            "Current number of replicas below Spec.MinReplicas".to_owned(),
        )
    } else {
        let Some(proposal) = propose(cluster, scaler, &scale, report) else {
            return Ok(());
        };
        let words = format!(
            "the HPA was able to successfully calculate a replica count from {}",
            proposal.metric
        );
        report.is("ScalingActive", "ValidMetricFound", words);
        let mut histories = histories.lock();
        let history = histories.entry(scaler.key()).or_default();
        let verdict = history.limit(scaler, scale.wanted, proposal.replicas, (least, most));
        tell(report, &verdict);
        (verdict.replicas, proposal.why(verdict.replicas, scale.wanted))
    };
    report.status["desiredReplicas"] = json!(desired);
    if desired == scale.wanted {
        return Ok(());
    }
    target.resize(cluster, scaler, desired).await?;
    let mut histories = histories.lock();
    histories
        .entry(scaler.key())
        .or_default()
        .scaled(desired - scale.wanted);
    report.status["lastScaleTime"] = json!(time::timestamp());
    let words = format!("the HPA controller was able to update the target scale to {desired}");
    report.is("AbleToScale", "SucceededRescale", words);
    let words = format!("New size: {desired}; reason: {why}");
    cluster
        .events
        .normal(events::AUTOSCALERS, scaler, "SuccessfulRescale", words);
    Ok(())
}

/// Reports what limited a recommendation.
fn tell(report: &mut Report, verdict: &Verdict) {
    match verdict.is_stabilized {
        Some(words) => report.is("AbleToScale", "ScaleDownStabilized", words),
        None => report.is(
            "AbleToScale",
            "ReadyForNewScale",
            "recommended size matches current size",
        ),
    }
    match verdict.limit {
        Some((reason, words)) => report.is("ScalingLimited", reason, words),
        None => report.not(
            "ScalingLimited",
            "DesiredWithinRange",
            "the desired count is within the acceptable range",
        ),
    }
}

/// The largest number of replicas any metric proposes. A metric that is unavailable only prevents scaling down.
fn propose(cluster: &Cluster, scaler: &Item, scale: &Scale, report: &mut Report) -> Option<Proposal> {
    let known = cluster.snapshot(&pods());
    let own = known
        .in_namespace(scaler.namespace())
        .filter(|pod| scale.selector.matches(&pod.header()));
    let own: Vec<Item> = own.map(Item::read).collect();
    let (mut best, mut failures, mut current) = (None::<Proposal>, Vec::new(), Vec::new());
    let metrics = scaler.list("/spec/metrics");
    for metric in metrics {
        match Proposal::of(metric, &own, scale.wanted) {
            Ok(proposal) => {
                current.push(proposal.current.clone());
                if best.as_ref().is_none_or(|best| proposal.replicas > best.replicas) {
                    best = Some(proposal);
                }
            }
            Err(failure) => {
                let words = failure.words.as_str();
                cluster
                    .events
                    .warning(events::AUTOSCALERS, scaler, failure.reason, words);
                failures.push((metric, failure));
            }
        }
    }
    report.status["currentMetrics"] = json!(current);
    let is_held_back = best.as_ref().is_none_or(|best| best.replicas < scale.wanted);
    if let Some((metric, failure)) = failures.first().filter(|_| is_held_back) {
        let why = &failure.words;
        let words = format!("the HPA was unable to compute the replica count: {why}");
        report.not("ScalingActive", failure.reason, words);
        let words = format!(
            "invalid metrics ({} invalid out of {}), first error is: failed to get {} value: {why}",
            failures.len(),
            metrics.len(),
            replicas::name_of(metric),
        );
        cluster
            .events
            .warning(events::AUTOSCALERS, scaler, "FailedComputeMetricsReplicas", words);
        return None;
    }
    best
}
