//! Policies that change writes: what a MutatingAdmissionPolicy makes of an object.
//!
//! Of every policy, binding and parameter that are about a write, the mutations run in order, each on what the last one
//! left. A configuration is merged as server-side apply would, but nobody becomes a manager; a JSON patch is applied. A
//! mutation that fails is left out, and its failure policy decides in the end whether the write goes on without it.

use serde_json::{Value, json};
use watchkeeper_cel::Value as Evaluated;
use watchkeeper_meta::{Status, StatusCause, StatusReason};
use watchkeeper_patch::configuration::field_set;
use watchkeeper_patch::json_patch::{self, JsonPatchError};
use watchkeeper_patch::typed::{atomics, merge};
use watchkeeper_wire::schema::Schema;

use super::evaluate::{Evaluation, Input};
use super::policy::{Mutation, MutationKind, Policy};
use super::rights::Rights;
use super::{Binding, Bound};
use crate::Registry;
use crate::admission::mutation::{Mutated, Rounds};
use crate::admission::request::{Action, Asked, whole};
use crate::context::timestamp;
use crate::metadata;

/// What tells one asking of a policy from another: its place among those in force, and its parameters' name.
pub(in crate::admission) type Invocation = (usize, String);

/// A policy that is to be asked about a write.
struct Due<'p> {
    key: Invocation,
    policy: &'p Policy,
    binding: &'p Binding,
    parameters: Option<Value>,
}

/// Why a policy could not do what it should.
struct Refusal {
    message: String,
    /// `None` says what is usual.
    reason: Option<StatusReason>,
}

impl Refusal {
    fn new(policy: &Policy, binding: &Binding, why: &str) -> Self {
        let (policy, binding) = (&policy.name, &binding.name);
        Self {
            message: format!("policy '{policy}' with binding '{binding}' denied request: {why}"),
            reason: None,
        }
    }
}

impl Registry {
    /// Lets policies change an object. Whether it is another.
    pub(in crate::admission) async fn mutate_by_policies(
        &self,
        asked: Asked<'_>,
        bound: &[Bound],
        state: &mut Mutated<'_>,
        rounds: &mut Rounds,
    ) -> Result<bool, Status> {
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
        let home = self.home_of(&write).await?;
        let rights = self.rights_of(&write).await?;
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
            let namespace = metadata::text(write.shown(), "namespace");
            match self.parameters(policy, &binding.parameters, namespace).await? {
                Ok(found) => due.extend(Due::each(place, policy, binding, found)),
                Err(why) if policy.fails_closed => refusals.push(Refusal::new(policy, binding, &why)),
                Err(_) => {}
            }
        }
        let cluster = Cluster {
            namespace: home.as_ref().filter(|_| !write.is_of_namespace()),
            rights: &rights,
            now: timestamp(self.clock().now()),
        };
        let is_changed = cluster.run(due, &asked, old.as_ref(), state, rounds, &mut refusals)?;
        match refused(&asked.action, metadata::text(state.object, "name"), refusals) {
            Some(status) => Err(status),
            None => Ok(is_changed),
        }
    }
}

impl<'p> Due<'p> {
    /// One for each of the parameters that were found.
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

/// What policies see besides the object.
struct Cluster<'c> {
    namespace: Option<&'c Value>,
    rights: &'c Rights,
    now: String,
}

impl Cluster<'_> {
    /// Asks the policies whose turn it is. Whether the object is another.
    fn run(
        &self,
        due: Vec<Due<'_>>,
        asked: &Asked<'_>,
        old: Option<&Value>,
        state: &mut Mutated<'_>,
        rounds: &mut Rounds,
        refusals: &mut Vec<Refusal>,
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
        // A policy sees once more what it has made itself.
        let is_changed = before != *state.object;
        if is_changed {
            rounds.policies.call();
        }
        Ok(is_changed)
    }

    /// Runs the mutations of a policy. Whether it is about the write at all.
    fn ask(
        &self,
        due: &Due<'_>,
        asked: &Asked<'_>,
        old: Option<&Value>,
        state: &mut Mutated<'_>,
        refusals: &mut Vec<Refusal>,
    ) -> Result<bool, Status> {
        let Due { policy, binding, .. } = due;
        let mut refuse = |why: &str| {
            if policy.fails_closed {
                refusals.push(Refusal {
                    reason: Some(StatusReason::INVALID),
                    ..Refusal::new(policy, binding, why)
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
                rights: self.rights,
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

    /// The object as a mutation leaves it.
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
                    // A test says whether the rest is wanted.
                    Err(JsonPatchError::TestFailed { .. }) => {}
                    Err(error) => return Err(format!("JSON Patch: {error}")),
                }
            }
        }
        Ok(object)
    }
}

/// Merges a configuration into an object.
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

/// The operations of a JSON patch that an expression has made.
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

/// The answer to a write that policies could not change as they should: the first says why, all are listed.
fn refused(action: &Action<'_>, name: &str, refusals: Vec<Refusal>) -> Option<Status> {
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
