//! ValidatingAdmissionPolicies and MutatingAdmissionPolicies: CEL expressions, enabled by bindings.
//!
//! ```text
//! policies, bindings ─▶ compiled once, and again when one of them changes
//! write ─▶ matching ─▶ evaluate ─▶ denied, warned of, or allowed
//! ```
//!
//! Validating policies see a write last, when it is otherwise valid; mutating policies run before webhooks
//! ([`mutation`]). The server's own writes are exempt. A cluster in which no policy or webhook was ever written pays
//! one atomic load. For a resource with several versions, policies see the version of the request. Audit annotations,
//! and validation failures of bindings with the action `Audit`, go to the audit event of the request. All policies are
//! evaluated; the first denial is the answer.

mod authorizer;
mod evaluate;
mod mutation;
mod parameters;
mod policy;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use watchkeeper_kinds::{Kind, builtin};
use watchkeeper_meta::{Status, StatusCause, StatusReason};
use watchkeeper_storage::Feed;

use self::evaluate::{Denial, Notes};
use self::policy::Policy;

pub(super) use self::evaluate::{Input, all_hold};
pub(super) use self::mutation::Invocation;
use super::matching::Matching;
use super::request::AdmissionRequest;
use crate::followed::Followed;
use crate::metrics::Step;
use crate::{Registry, metadata};
pub(super) use watchkeeper_kinds::expressions::{Expression, conditions};

/// The active policies.
#[derive(Debug, Default)]
pub(crate) struct AdmissionPolicies {
    validating: Followed<Vec<Bound>>,
    mutating: Followed<Vec<Bound>>,
    none: Arc<Vec<Bound>>,
}

/// A policy and one of its bindings.
#[derive(Debug)]
pub(crate) struct Bound {
    policy: Arc<Policy>,
    binding: Binding,
}

/// A binding: its matching and its actions.
#[derive(Debug)]
struct Binding {
    name: String,
    matching: Option<Matching>,
    denies: bool,
    warns: bool,
    audits: bool,
    /// `validationActions`, as the audit event shows them.
    actions: Vec<String>,
    /// `paramRef`.
    parameters: Value,
}

/// The bound policies, and the feeds that report when they must be read again.
type Read = (Vec<Bound>, Vec<Feed>);

impl Registry {
    /// Rejects a write that an active policy denies.
    pub(crate) async fn check_policies(&self, write: AdmissionRequest<'_>) -> Result<(), Status> {
        if write.action.is_exempt(write.context) {
            return Ok(());
        }
        let bound = self.bound_policies().await?;
        if bound.is_empty() {
            return Ok(());
        }
        let operation = write.action.operation.name();
        let mut laps = self.durations().laps(Step::Validate, operation);
        laps.plugin("ValidatingAdmissionPolicy", self.enforce(&bound, write).await)
    }

    fn enforce<'a>(
        &'a self,
        bound: &'a [Bound],
        write: AdmissionRequest<'a>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let about: Vec<&Bound> = bound
                .iter()
                .filter(|bound| bound.policy.matching.may_match(&write))
                .collect();
            if about.is_empty() {
                return Ok(());
            }
            let home = self.namespace_of(&write).await?;
            let namespace = write.namespace();
            let described = write.described(write.action.definition);
            let authorizer = self.authorizer_for(&write).await?;
            let mut answer = Ok(());
            for Bound { policy, binding } in about {
                let is_meant = policy.matching.matches(&write, home.as_ref())
                    && binding
                        .matching
                        .as_ref()
                        .is_none_or(|matching| matching.matches(&write, home.as_ref()));
                if !is_meant {
                    continue;
                }
                let input = |parameters| Input {
                    object: write.object,
                    old: write.old,
                    namespace: home.as_ref().filter(|_| !write.is_of_namespace()),
                    request: &described,
                    parameters,
                    authorizer: &authorizer,
                };
                let mut notes = Notes::default();
                let denials = match self.parameters(policy, &binding.parameters, namespace).await? {
                    Ok(None) => policy.evaluate(&input(None), &mut notes),
                    Ok(Some(found)) => {
                        let each = found.iter();
                        each.flat_map(|parameters| policy.evaluate(&input(Some(parameters)), &mut notes))
                            .collect()
                    }
                    Err(why) => policy.on_misconfiguration(&why),
                };
                for (key, values) in notes.0 {
                    write
                        .context
                        .annotate(|| format!("{}/{key}", policy.name), || values.join(", "));
                }
                for denial in denials {
                    answer = answer.and(act(&write, policy, binding, denial));
                }
            }
            answer
        })
    }

    /// The active validating policies.
    pub(crate) async fn bound_policies(&self) -> Result<Arc<Vec<Bound>>, Status> {
        let book = self.admission_policies();
        let (policies, bindings) = (
            &builtin::VALIDATING_ADMISSION_POLICY,
            &builtin::VALIDATING_ADMISSION_POLICY_BINDING,
        );
        match self.may_have_admission_configuration() {
            true => {
                let read = || self.read_bound_policies(policies, bindings);
                book.validating.get(read).await
            }
            false => Ok(book.none.clone()),
        }
    }

    /// The active mutating policies, ordered by binding name.
    pub(super) async fn mutating_policies(&self) -> Result<Arc<Vec<Bound>>, Status> {
        let (policies, bindings) = (
            &builtin::MUTATING_ADMISSION_POLICY,
            &builtin::MUTATING_ADMISSION_POLICY_BINDING,
        );
        let read = || self.read_bound_policies(policies, bindings);
        self.admission_policies().mutating.get(read).await
    }

    fn read_bound_policies<'a>(
        &'a self,
        policies: &'static Kind,
        bindings: &'static Kind,
    ) -> BoxFuture<'a, Result<Read, Status>> {
        Box::pin(async move {
            let (bindings, feed) = self.followed_values(bindings).await?;
            let mut feeds = vec![feed];
            let mut bound = Vec::new();
            // A policy without a binding is inactive and need not be followed.
            if !bindings.is_empty() {
                let (policies, feed) = self.followed_values(policies).await?;
                feeds.push(feed);
                let policies: Vec<Arc<Policy>> = policies.iter().map(Policy::compile).map(Arc::new).collect();
                for binding in &bindings {
                    let wanted = &binding["spec"]["policyName"];
                    let policy = policies.iter().find(|policy| *wanted == *policy.name);
                    bound.extend(policy.map(|policy| Bound {
                        policy: policy.clone(),
                        binding: Binding::read(binding),
                    }));
                }
            }
            Ok((bound, feeds))
        })
    }
}

impl Binding {
    fn read(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let actions = spec["validationActions"].as_array().into_iter().flatten();
        let actions: Vec<String> = actions.filter_map(Value::as_str).map(str::to_owned).collect();
        let has = |wanted: &str| actions.iter().any(|action| action == wanted);
        Self {
            name: metadata::text(binding, "name").to_owned(),
            matching: spec.get("matchResources").map(Matching::of_policy),
            denies: has("Deny"),
            warns: has("Warn"),
            audits: has("Audit"),
            actions,
            parameters: spec["paramRef"].clone(),
        }
    }
}

/// Applies the actions of a binding: a denial is an error, a warning is not.
fn act(
    write: &AdmissionRequest<'_>,
    policy: &Policy,
    binding: &Binding,
    denial: Denial,
) -> Result<(), Status> {
    let (policy, bound, why) = (&policy.name, &binding.name, &denial.message);
    if binding.warns && !denial.is_unconditional {
        let text = format!(
            "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{bound}': {why}"
        );
        write.context.warnings.add(text);
    }
    if binding.audits && !denial.is_unconditional {
        audit_failure(write, policy, binding, &denial);
    }
    if !binding.denies && !denial.is_unconditional {
        return Ok(());
    }
    let whose = match denial.names_binding {
        true => format!("'{policy}' with binding '{bound}'"),
        false => format!("'{policy}'"),
    };
    let message = format!("ValidatingAdmissionPolicy {whose} denied request: {why}");
    let mut status = Status::forbidden(
        &write.action.definition.group_resource(),
        write.refused_name(),
        &message,
    )
    .with_cause(StatusCause {
        reason: "".into(),
        message,
        field: String::new(),
    });
    let (code, reason) = match &*denial.reason {
        "Unauthorized" => (401, StatusReason::UNAUTHORIZED),
        "Forbidden" => (403, StatusReason::FORBIDDEN),
        "RequestEntityTooLarge" => (413, StatusReason::REQUEST_ENTITY_TOO_LARGE),
        _ => (422, StatusReason::INVALID),
    };
    status.code = code;
    status.reason = reason;
    Err(status)
}

/// A validation that does not hold, as the audit event shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidationFailure<'a> {
    message: &'a str,
    policy: &'a str,
    binding: &'a str,
    expression_index: usize,
    validation_actions: &'a [String],
}

/// Adds a failed validation to the audit event. Only the first one is added, as in Kubernetes.
fn audit_failure(write: &AdmissionRequest<'_>, policy: &str, binding: &Binding, denial: &Denial) {
    let failure = ValidationFailure {
        message: &denial.message,
        policy,
        binding: &binding.name,
        expression_index: denial.index,
        validation_actions: &binding.actions,
    };
    write.context.annotate(
        || "validation.policy.admission.k8s.io/validation_failure".to_owned(),
        || serde_json::to_string(&[failure]).unwrap_or_default(),
    );
}
