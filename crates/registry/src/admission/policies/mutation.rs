//! MutatingAdmissionPolicies: change the object of a write.
//!
//! The mutations of all matching policies, bindings and parameters run in order, each on the result of the previous
//! one. An apply configuration is merged as in server-side apply, but no manager is recorded; a JSON patch is
//! applied. A failed mutation is skipped; its failure policy decides at the end if the write is rejected.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use watchkeeper_cel::Value as Evaluated;
use watchkeeper_meta::{Status, StatusCause, StatusReason, quote};
use watchkeeper_patch::configuration::field_set;
use watchkeeper_patch::json_patch::{self, JsonPatchError};
use watchkeeper_patch::typed::{atomics, merge};
use watchkeeper_wire::schema::Schema;

use super::authorizer::CelAuthorizer;
use super::evaluate::{Evaluation, Input};
use super::parameters::Misconfigured;
use super::policy::{Mutation, MutationKind, Policy};
use super::{Binding, Bound};
use crate::Registry;
use crate::admission::mutation::{Mutated, Rounds};
use crate::admission::request::{Action, Asked, whole};
use crate::context::timestamp;
use crate::metadata;

/// Identifies an invocation: the index of the policy, and the name of its parameters.
pub(in crate::admission) type Invocation = (usize, String);

/// A policy to evaluate for a write.
struct Due<'p> {
    key: Invocation,
    policy: &'p Policy,
    binding: &'p Binding,
    parameters: Option<Value>,
}

/// The failure of a policy.
struct PolicyFailure {
    message: String,
    /// `None` for the default reason.
    reason: Option<StatusReason>,
}

impl PolicyFailure {
    fn new(policy: &Policy, binding: &Binding, why: &str) -> Self {
        let (policy, binding) = (&policy.name, &binding.name);
        Self {
            message: format!("policy '{policy}' with binding '{binding}' denied request: {why}"),
            reason: None,
        }
    }

    fn misconfigured(policy: &Policy, binding: &Binding, why: &Misconfigured) -> Self {
        match why.names_binding() {
            true => Self::new(policy, binding, &why.message()),
            false => Self {
                message: format!("policy {} denied request: {}", quote(&policy.name), why.message()),
                reason: None,
            },
        }
    }
}

/// Adds a failure. That of a policy itself is the same for each of its bindings, and is listed once.
fn note(refusals: &mut Vec<PolicyFailure>, failure: PolicyFailure) {
    if refusals.iter().all(|known| known.message != failure.message) {
        refusals.push(failure);
    }
}

impl Registry {
    /// Runs mutating policies on an object; returns true if it changed.
    pub(in crate::admission) fn mutate_by_policies<'a, 'd>(
        &'a self,
        asked: Asked<'a>,
        bound: &'a [Bound],
        state: &'a mut Mutated<'d>,
        rounds: &'a mut Rounds,
    ) -> BoxFuture<'a, Result<bool, Status>> {
        Box::pin(async move {
            let old = asked.old.map(whole);
            let current = whole((state.object, state.managers));
            let write = asked.write(Some(&current), old.as_ref());
            let about = bound.iter().enumerate();
            let about: Vec<(usize, &Bound)> = about
                .filter(|(_, bound)| bound.policy.matching.may_match(&write))
                .collect();
            if about.is_empty() {
                return Ok(false);
            }
            let home = self.namespace_of(&write).await?;
            let authorizer = self.authorizer_for(&write).await?;
            let mut refusals = Vec::new();
            let mut due = Vec::new();
            for (place, Bound { policy, binding }) in about {
                let is_meant = policy.matching.matches(&write, home.as_ref())
                    && binding
                        .matching
                        .as_ref()
                        .is_none_or(|matching| matching.matches(&write, home.as_ref()));
                if !is_meant {
                    continue;
                }
                let found = self.parameters(policy, &binding.parameters, write.namespace());
                match found.await? {
                    Ok(found) => due.extend(Due::each(place, policy, binding, found)),
                    Err(why) if policy.fails_closed => {
                        note(&mut refusals, PolicyFailure::misconfigured(policy, binding, &why));
                    }
                    Err(_) => {}
                }
            }
            let cluster = Cluster {
                namespace: home.as_ref().filter(|_| !write.is_of_namespace()),
                authorizer: &authorizer,
                now: timestamp(self.clock().now()),
            };
            let is_changed = cluster.run(due, &asked, old.as_ref(), state, rounds, &mut refusals)?;
            match refused(&asked.action, metadata::text(state.object, "name"), refusals) {
                Some(status) => Err(status),
                None => Ok(is_changed),
            }
        })
    }
}

impl<'p> Due<'p> {
    /// One invocation for each parameter object.
    fn each(
        place: usize,
        policy: &'p Policy,
        binding: &'p Binding,
        found: Option<Vec<Value>>,
    ) -> impl Iterator<Item = Self> {
        let found = found.map_or_else(|| vec![None], |found| found.into_iter().map(Some).collect());
        found.into_iter().map(move |parameters| {
            let named = parameters.as_ref().map(|found| {
                let part = |name| metadata::text(found, name);
                format!("{}/{}", part("namespace"), part("name"))
            });
            Self {
                key: (place, named.unwrap_or_default()),
                policy,
                binding,
                parameters,
            }
        })
    }
}

/// The input of policies besides the object.
struct Cluster<'c> {
    namespace: Option<&'c Value>,
    authorizer: &'c CelAuthorizer,
    now: String,
}

impl Cluster<'_> {
    /// Runs the due policies; returns true if the object changed.
    fn run(
        &self,
        due: Vec<Due<'_>>,
        asked: &Asked<'_>,
        old: Option<&Value>,
        state: &mut Mutated<'_>,
        rounds: &mut Rounds,
        refusals: &mut Vec<PolicyFailure>,
    ) -> Result<bool, Status> {
        let before = state.object.clone();
        for due in due {
            if !rounds.is_first() && !rounds.policies.is_due(&due.key) {
                continue;
            }
            let left = state.object.clone();
            match self.ask(&due, asked, old, state, refusals)? {
                true if left != *state.object => rounds.note_change(),
                true => {}
                false => continue,
            }
            if due.policy.is_reinvoked {
                rounds.policies.wait(due.key);
            }
        }
        // A policy is reinvoked after its own change, too.
        let is_changed = before != *state.object;
        if is_changed {
            rounds.policies.call();
        }
        Ok(is_changed)
    }

    /// Runs the mutations of a policy; returns true if the policy matches the write.
    fn ask(
        &self,
        due: &Due<'_>,
        asked: &Asked<'_>,
        old: Option<&Value>,
        state: &mut Mutated<'_>,
        refusals: &mut Vec<PolicyFailure>,
    ) -> Result<bool, Status> {
        let Due { policy, binding, .. } = due;
        let mut refuse = |why: &str| {
            if policy.fails_closed {
                refusals.push(PolicyFailure {
                    reason: Some(StatusReason::INVALID),
                    ..PolicyFailure::new(policy, binding, why)
                });
            }
        };
        let mut is_asked = false;
        for mutation in &policy.mutations {
            let current = whole((state.object, state.managers));
            let write = asked.write(Some(&current), old);
            let described = write.described(write.action.definition);
            let input = Input {
                object: write.object,
                old: write.old,
                namespace: self.namespace,
                request: &described,
                parameters: due.parameters.as_ref(),
                authorizer: self.authorizer,
            };
            if !is_asked {
                match policy.is_about(&input) {
                    Ok(true) => is_asked = true,
                    Ok(false) => return Ok(false),
                    Err(why) => {
                        refuse(&why);
                        return Ok(false);
                    }
                }
            }
            match policy.patched(mutation, &input, &asked.action) {
                Ok(patched) => {
                    state.take_over(&asked.action, patched, &self.now)?;
                }
                Err(why) => refuse(&why),
            }
        }
        Ok(true)
    }
}

impl Policy {
    fn is_about(&self, input: &Input<'_>) -> Result<bool, String> {
        let mut evaluation = Evaluation::begin(input).map_err(|error| error.to_string())?;
        evaluation.all_hold(&self.conditions)
    }

    /// The object after a mutation.
    fn patched(&self, mutation: &Mutation, input: &Input<'_>, action: &Action<'_>) -> Result<Value, String> {
        let mut evaluation = Evaluation::begin(input).map_err(|error| error.to_string())?;
        evaluation.add_variables(self);
        let made = evaluation.run(&mutation.expression)?;
        let mut object = input.object.cloned().unwrap_or_default();
        match mutation.kind {
            MutationKind::Apply => {
                let mut config = made.to_patch()?;
                for name in ["apiVersion", "kind"] {
                    config[name] = object[name].clone();
                }
                apply(action, &mut object, &config).map_err(|why| format!("error applying patch: {why}"))?;
            }
            MutationKind::JsonPatch => {
                let mut patched = object.clone();
                match json_patch::apply(&mut patched, &operations(&made)?) {
                    Ok(()) => object = patched,
                    // A failed `test` operation skips the patch.
                    Err(JsonPatchError::TestFailed { .. }) => {}
                    Err(error) => return Err(format!("JSON Patch: {error}")),
                }
            }
        }
        Ok(object)
    }
}

/// Merges an apply configuration into an object.
fn apply(action: &Action<'_>, object: &mut Value, config: &Value) -> Result<(), String> {
    let definition = action.definition;
    let (schema, root) = match action.kind {
        None => (&*definition.schema, definition.type_id),
        Some(kind) => (
            Schema::builtin(),
            kind.root().ok_or("type converter must not be nil")?,
        ),
    };
    field_set(schema, root, config)
        .map_err(|error| format!("failed to convert patch object to typed object: {error}"))?;
    let atomics = atomics(schema, root, config);
    if !atomics.is_empty() {
        let atomics = atomics.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomics}"
        ));
    }
    merge(schema, root, object, config);
    Ok(())
}

/// The operations of a JSON patch from an evaluated expression.
fn operations(made: &Evaluated<'_>) -> Result<Value, String> {
    let unlike = "type mismatch: JSONPatchType.expression should evaluate to array";
    let made = made.items().ok_or(unlike)?;
    let operations = made.iter().map(|operation| {
        let text = |name: &str| {
            let value = operation.field(name);
            value
                .as_ref()
                .and_then(Evaluated::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let mut written = json!({"op": text("op"), "path": text("path")});
        match text("from") {
            from if from.is_empty() => {}
            from => written["from"] = json!(from),
        }
        if let Some(value) = operation.field("value") {
            written["value"] = value.to_patch()?;
        }
        Ok(written)
    });
    operations.collect()
}

/// The error for a write with failed mutations: the first gives the message, all are listed.
fn refused(action: &Action<'_>, name: &str, refusals: Vec<PolicyFailure>) -> Option<Status> {
    let first = refusals.first()?;
    let mut status = Status::forbidden(&action.definition.group_resource(), name, "");
    status.message.clone_from(&first.message);
    if let Some(reason) = &first.reason {
        status.reason = reason.clone();
    }
    for refusal in refusals {
        status = status.with_cause(StatusCause {
            reason: "".into(),
            message: refusal.message,
            field: String::new(),
        });
    }
    Some(status)
}
