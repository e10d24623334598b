//! Policies that validate writes: what a ValidatingAdmissionPolicy says in CEL, wherever a binding puts it into force.
//!
//! ```text
//! policies, bindings ─▶ compile: programs, once, and again when one of them has changed
//! write ─▶ matching: which of them are about it ─▶ evaluate: what they say ─▶ refused, warned of, or let pass
//! ```
//!
//! They see a write last, when it is in order otherwise. What the server writes to do its own work they do not see: it
//! could not even start again otherwise. A cluster without bindings pays for a look at a feed. Left out are `authorizer`,
//! audit annotations, and the writes that are no objects (bindings of pods, evictions, tokens); of a scale they see the
//! object that is scaled, and of a resource with several versions the one that was written.

mod compile;
mod evaluate;
mod matching;
mod parameters;

use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_meta::{Status, StatusCause, StatusReason};
use watchkeeper_storage::Feed;

use self::compile::Policy;
pub(crate) use self::compile::faults;
use self::evaluate::{Denial, Input};
use self::matching::{Matching, Request};
use crate::definition::Definition;
use crate::followed::Followed;
use crate::update::Part;
use crate::write::WriteContext;
use crate::{Registry, metadata};

/// The group of policies and bindings, which are not subject to policies: a wrong one could not be repaired.
const GROUP: &str = "admissionregistration.k8s.io";

/// The policies that are in force.
#[derive(Debug, Default)]
pub(crate) struct PolicyBook(Followed<Vec<Bound>>);

/// A policy, put into force by a binding.
#[derive(Debug)]
pub(crate) struct Bound {
    policy: Arc<Policy>,
    binding: Binding,
}

/// Where a policy is in force, and what follows from it.
#[derive(Debug)]
struct Binding {
    name: String,
    matching: Option<Matching>,
    denies: bool,
    warns: bool,
    /// `paramRef`.
    parameters: Value,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A write that policies look at.
#[derive(Clone, Copy)]
pub(crate) struct Write<'w> {
    pub(crate) definition: &'w Definition,
    pub(crate) part: Part,
    pub(crate) operation: Operation,
    /// The object as it will be; `None` if it goes.
    pub(crate) object: Option<&'w Value>,
    /// The object as it is; `None` if it is new.
    pub(crate) old: Option<&'w Value>,
    pub(crate) context: &'w WriteContext,
}

impl Registry {
    /// Refuses a write that a policy in force does not allow.
    pub(crate) async fn check_policies(&self, write: Write<'_>) -> Result<(), Status> {
        let is_exempt = write.context.by_server || write.part == Part::Whole;
        if is_exempt || write.definition.resource.group == GROUP {
            return Ok(());
        }
        let bound = self.bound_policies().await?;
        match bound.is_empty() {
            true => Ok(()),
            // In a box: every write would keep room for it.
            false => Box::pin(self.enforce(&bound, write)).await,
        }
    }

    /// Refuses a deletion that a policy in force does not allow.
    pub(crate) async fn check_deletion(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        name: &str,
        context: &WriteContext,
    ) -> Result<(), Status> {
        if self.bound_policies().await?.is_empty() {
            return Ok(());
        }
        let Some(stored) = self.find(definition, namespace, name).await? else {
            return Ok(());
        };
        let live = stored.to_value(definition)?;
        let write = Write {
            definition,
            part: Part::Object,
            operation: Operation::Delete,
            object: None,
            old: Some(&live),
            context,
        };
        self.check_policies(write).await
    }

    async fn enforce(&self, bound: &[Bound], write: Write<'_>) -> Result<(), Status> {
        let shown = write.object.or(write.old).unwrap_or(&Value::Null);
        let (name, namespace) = (metadata::text(shown, "name"), metadata::text(shown, "namespace"));
        let request = Request::of(&write);
        let about: Vec<&Bound> = bound
            .iter()
            .filter(|bound| bound.policy.matching.may_match(&request))
            .collect();
        if about.is_empty() {
            return Ok(());
        }
        let is_namespace = write.definition.resource.kind == "Namespace";
        let home = match namespace {
            _ if is_namespace => Some(shown.clone()),
            "" => None,
            namespace => self.find_namespace(namespace).await?,
        };
        let described = described(&write, name, namespace);
        for Bound { policy, binding } in about {
            let is_meant = policy.matching.matches(&request, home.as_ref())
                && binding
                    .matching
                    .as_ref()
                    .is_none_or(|matching| matching.matches(&request, home.as_ref()));
            if !is_meant {
                continue;
            }
            let input = |parameters| Input {
                object: write.object,
                old: write.old,
                namespace: home.as_ref().filter(|_| !is_namespace),
                request: &described,
                parameters,
            };
            let denials = match self.parameters(policy, &binding.parameters, namespace).await? {
                Ok(None) => policy.evaluate(&input(None)),
                Ok(Some(found)) => {
                    let each = found.iter();
                    each.flat_map(|parameters| policy.evaluate(&input(Some(parameters))))
                        .collect()
                }
                Err(why) => policy.when_it_fails(why),
            };
            for denial in denials {
                answer(&write, name, policy, binding, denial)?;
            }
        }
        Ok(())
    }

    /// The policies that are in force now.
    pub(crate) async fn bound_policies(&self) -> Result<Arc<Vec<Bound>>, Status> {
        self.policy_book().0.get(|| self.read_bound_policies()).await
    }

    async fn read_bound_policies(&self) -> Result<(Vec<Bound>, Vec<Feed>), Status> {
        let (bindings, feed) = self
            .followed_values(GROUP, "validatingadmissionpolicybindings")
            .await?;
        let mut feeds = vec![feed];
        let mut bound = Vec::new();
        // A policy that nobody binds is not in force, and need not be followed.
        if !bindings.is_empty() {
            let (policies, feed) = self.followed_values(GROUP, "validatingadmissionpolicies").await?;
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
    }
}

impl Binding {
    fn read(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let actions = spec["validationActions"].as_array();
        let has = |wanted: &str| actions.is_some_and(|actions| actions.iter().any(|action| action == wanted));
        Self {
            name: metadata::text(binding, "name").to_owned(),
            matching: spec.get("matchResources").map(Matching::read),
            denies: has("Deny"),
            warns: has("Warn"),
            parameters: spec["paramRef"].clone(),
        }
    }
}

/// What follows from what a policy says: the first denial ends the write, a warning does not.
fn answer(
    write: &Write<'_>,
    name: &str,
    policy: &Policy,
    binding: &Binding,
    denial: Denial,
) -> Result<(), Status> {
    let (policy, bound, why) = (&policy.name, &binding.name, &denial.message);
    if binding.warns {
        let text = format!(
            "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{bound}': {why}"
        );
        write.context.warnings.add(text);
    }
    if !binding.denies {
        return Ok(());
    }
    let message =
        format!("ValidatingAdmissionPolicy '{policy}' with binding '{bound}' denied request: {why}");
    let mut status =
        Status::forbidden(&write.definition.group_resource(), name, &message).with_cause(StatusCause {
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

/// The write, as expressions see it in `request`.
fn described(write: &Write<'_>, name: &str, namespace: &str) -> Value {
    let resource = &write.definition.resource;
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let plural = json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
    let part = write.part.subresource();
    let user = write.context.requester.as_ref();
    let user = user.map_or(
        json!({}),
        |user| json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra}),
    );
    let mut request = json!({
        "kind": kind, "resource": plural, "requestKind": kind, "requestResource": plural, "name": name,
        "operation": write.operation.name(), "userInfo": user, "dryRun": write.context.dry_run,
    });
    for (field, value) in [
        ("namespace", namespace),
        ("subResource", part),
        ("requestSubResource", part),
    ] {
        if !value.is_empty() {
            request[field] = json!(value);
        }
    }
    request
}
