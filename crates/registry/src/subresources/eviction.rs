//! Eviction: deletes a pod if its disruption budget permits it.

use serde_json::{Value, json};
use watchkeeper_kinds::{Part, builtin};
use watchkeeper_meta::{DeleteOptions, LabelSelector, Labels, ListOptions, Status, StatusCause};

use crate::admission::request::EVICTION;
use crate::body::Body;
use crate::context::{WriteContext, timestamp};
use crate::definition::Definition;
use crate::object::Live;
use crate::write::{DeleteAdmission, Managed, Proposal, Target, Write, check_preconditions};
use crate::{Registry, metadata};

/// The field manager of spent budgets.
const MANAGER: &str = "kube-apiserver";
/// The message of a refused eviction.
const WOULD_VIOLATE: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// The limit on `disruptedPods`, until the controller has counted again.
const MAX_DISRUPTED_PODS: usize = 2000;
/// The `Retry-After` while the controller has not observed a budget yet.
const RETRY_SECONDS: i32 = 10;

impl Registry {
    /// Evicts a pod if its disruption budget permits it.
    pub async fn evict(
        &self,
        namespace: &str,
        name: &str,
        body: Body<'_>,
        mut context: WriteContext,
    ) -> Result<Status, Status> {
        let mut eviction = body.read_as("policy/v1", "Eviction")?;
        if metadata::text(&eviction, "name") != name {
            let why = "name in URL does not match name in Eviction object";
            return Err(Status::bad_request(why));
        }
        let read_options = |eviction: &Value| match eviction.get("deleteOptions") {
            Some(options) => DeleteOptions::from_json(options),
            None => Ok(DeleteOptions::default()),
        };
        // A dry run can be requested in the query or in the body's options.
        context.dry_run |= read_options(&eviction)?.dry_run;
        let pods = self.builtin(&builtin::POD)?;
        metadata::match_namespace(&pods, &mut eviction, namespace)?;
        self.admit_posted(&pods, &EVICTION, &mut eviction, &context)
            .await?;
        let mut options = read_options(&eviction)?;
        let pod = self.present(&pods, namespace, name).await?;
        if needs_budget(&pod) {
            self.spend_budget(namespace, &pod, &context).await?;
        }
        let target = Target::new(&pods, namespace, name, Part::Whole);
        if pod["metadata"]["deletionTimestamp"].is_null() {
            let now = timestamp(self.clock().now());
            let mark = |live: &Live| {
                check_preconditions(&pods, &live.value, &options)?;
                Ok(with_disruption_condition(&live.value, &now))
            };
            let marked = Write::unguarded(self, target, &context)
                .change(mark)
                .await?
                .revision;
            // The condition changed the pod's version: a precondition on the old version moves to the new one.
            if let Some(wanted) = &mut options.preconditions.resource_version {
                *wanted = marked.map(|revision| revision.to_string()).unwrap_or_default();
            }
        }
        // Admission of the eviction covers the deletion.
        Write::unguarded(self, target, &context)
            .delete(&options, DeleteAdmission::Skip)
            .await?;
        Ok(Status::success(201))
    }

    async fn spend_budget(&self, namespace: &str, pod: &Value, context: &WriteContext) -> Result<(), Status> {
        let budgets = self.builtin(&builtin::POD_DISRUPTION_BUDGET)?;
        let mut covering = self.budgets_of(&budgets, namespace, pod).await?;
        let Some(budget) = covering.pop() else {
            return Ok(());
        };
        if !covering.is_empty() {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::unclassified(why));
        }
        if is_ready(pod) || !ignores_unready(&budget) {
            let now = timestamp(self.clock().now());
            let spend = |live: &Live| spent(&live.value, metadata::text(pod, "name"), &now);
            let name = metadata::text(&budget, "name");
            let target = Target::new(&budgets, namespace, name, Part::Status);
            let spending = WriteContext {
                dry_run: context.dry_run,
                ..WriteContext::by_server(MANAGER)
            };
            Write::unguarded(self, target, &spending).change(spend).await?;
        }
        Ok(())
    }

    /// The budgets that select a pod.
    async fn budgets_of(
        &self,
        budgets: &Definition,
        namespace: &str,
        pod: &Value,
    ) -> Result<Vec<Value>, Status> {
        let list = self.list(budgets, namespace, &ListOptions::default()).await?;
        let mut covering = Vec::new();
        for budget in list.objects() {
            let budget = budget.to_value(budgets)?;
            let Some(selector) = budget["spec"].get("selector") else {
                continue;
            };
            let selector = LabelSelector::from_json(selector).map_err(Status::internal_error)?;
            if selector.matches(&PodLabels(&pod["metadata"]["labels"])) {
                covering.push(budget);
            }
        }
        Ok(covering)
    }
}

struct PodLabels<'a>(&'a Value);

impl Labels for PodLabels<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }
}

/// The pod with the condition `DisruptionTarget`.
fn with_disruption_condition(pod: &Value, now: &str) -> Proposal {
    let mut object = pod.clone();
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Some(list) = conditions.as_array_mut() {
        list.retain(|condition| condition["type"] != "DisruptionTarget");
        list.push(json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": now,
        }));
    }
    Proposal {
        object,
        managed: Managed::AsBefore,
    }
}

/// False for a pod that does not run or is being deleted: it does not count.
fn needs_budget(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    !matches!(phase, "Pending" | "Succeeded" | "Failed") && pod["metadata"]["deletionTimestamp"].is_null()
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// True if the budget does not count pods that are not ready.
fn ignores_unready(budget: &Value) -> bool {
    let count = |name: &str| budget["status"][name].as_i64().unwrap_or_default();
    match budget["spec"]["unhealthyPodEvictionPolicy"].as_str() {
        Some("AlwaysAllow") => true,
        _ => count("desiredHealthy") > 0 && count("currentHealthy") >= count("desiredHealthy"),
    }
}

/// The budget with one disruption less, and the pod in `disruptedPods`.
fn spent(budget: &Value, pod: &str, now: &str) -> Result<Proposal, Status> {
    let name = metadata::text(budget, "name");
    let count = |name: &str| budget["status"][name].as_i64().unwrap_or_default();
    let later = |text: String, seconds: i32| {
        let cause = StatusCause {
            reason: "DisruptionBudget".into(),
            message: text,
            field: String::new(),
        };
        Status::too_many_requests(WOULD_VIOLATE, seconds).with_cause(cause)
    };
    if count("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or_default() {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(later(why, RETRY_SECONDS));
    }
    let disrupted = budget["status"]["disruptedPods"]
        .as_object()
        .map_or(0, serde_json::Map::len);
    if disrupted > MAX_DISRUPTED_PODS {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(&budget_resource(), name, why));
    }
    if count("disruptionsAllowed") < 1 {
        let why = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            count("desiredHealthy"),
            count("currentHealthy")
        );
        return Err(later(why, 0));
    }
    let left = count("disruptionsAllowed") - 1;
    let mut object = budget.clone();
    object["status"]["disruptionsAllowed"] = json!(left);
    object["status"]["disruptedPods"][pod] = json!(now);
    if left == 0 {
        note_exhaustion(&mut object["status"], now);
    }
    Ok(Proposal {
        object,
        managed: Managed::ByChange,
    })
}

/// Sets the condition of a budget that allows no further disruption.
fn note_exhaustion(status: &mut Value, now: &str) {
    let observed = status["observedGeneration"].clone();
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let is_it = |condition: &Value| condition["type"] == "DisruptionAllowed";
    let at = conditions.iter().position(is_it).unwrap_or_else(|| {
        conditions.push(json!({"type": "DisruptionAllowed"}));
        conditions.len() - 1
    });
    let condition = &mut conditions[at];
    if condition["status"] != "False" {
        condition["status"] = json!("False");
        condition["lastTransitionTime"] = json!(now);
    }
    condition["observedGeneration"] = observed;
    condition["reason"] = json!("InsufficientPods");
    condition["message"] = json!("");
    status["conditions"] = json!(conditions);
}

fn budget_resource() -> watchkeeper_meta::GroupResource {
    watchkeeper_meta::GroupResource::new("policy", "poddisruptionbudget")
}
