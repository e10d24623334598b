//! What the fields of a kind mean: defaults, what the server owns, what is not allowed.
//!
//! Every kind gets the defaults its schema states. A kind people meet often has a module of its own with [`Hooks`],
//! which says what is not allowed; of all others the schema does.

mod admission_registration;
mod autoscaler;
mod claims;
mod custom_resource_definition;
mod data;
mod defaulting;
mod disruption_budget;
mod endpoints;
mod event;
mod formats;
mod go_structs;
mod ingress;
mod lease;
mod limit_range;
mod namespace;
mod network_policy;
mod node;
mod place;
mod plain_defaults;
mod pod;
pub(crate) mod priority_class;
mod quota;
mod rbac;
pub(crate) mod resource_names;
mod runtime_class;
mod schema_plan;
mod schema_rules;
mod service;
mod service_account;
mod signing_request;
mod storage_class;
mod volume_sources;
mod volumes;
mod webhook_client;
mod workloads;

use serde_json::{Value, json};
use watchkeeper_meta::{FieldErrors, FieldPath};
use watchkeeper_patch::field_set::{FieldSet, PathElement};
use watchkeeper_wire::difference::Difference;

pub(crate) use self::claims::CLASS_ANNOTATION;
pub(crate) use self::custom_resource_definition::approval::Approval;
pub(crate) use self::defaulting::fill_from_schema;
use self::place::{Faults, Place, Rule};
use crate::custom::{CustomVersion, expressions, nulls};
use crate::definition::Definition;
use crate::update::Part;
use crate::write::{Warnings, WriteContext};

/// Where a kind differs from all others. Every hook sees whole objects, in the form the server prints.
pub(crate) struct Hooks {
    /// Fills in what the client left open.
    default: fn(&mut Value),
    /// Resets what the client may not set on a new object.
    prepare_for_create: fn(&mut Value),
    /// Resets what the client may not change; the second value is the live object, the text what time it is.
    prepare_for_update: fn(Part, &mut Value, &Value, &str),
    /// What is wrong with an object.
    check: Rule,
    /// What is wrong with a new object, and would not be with one that is there.
    check_new: Rule,
    /// What is wrong with a change.
    check_change: fn(&Change<'_>, &mut Faults),
    /// Whether the change is looked at before the object is, which shows in the order of faults.
    change_first: bool,
    /// What the writer should hear; the second value is the live object, if there is one.
    warn: fn(&Value, Option<&Value>, &Warnings),
    /// Whether a label or an annotation with this key means anything to the other hooks. Where none of an object's
    /// does, they have nothing to do when its labels, annotations or finalizers change and nothing else. `None` if they
    /// may have.
    heeds: Option<fn(&str) -> bool>,
}

/// A write to an object that is there.
struct Change<'v> {
    /// What is written.
    part: Part,
    /// The object as it would be.
    new: Place<'v, 'v>,
    /// The object as it is.
    live: Place<'v, 'v>,
}

/// A kind without rules of its own.
const PLAIN: Hooks = Hooks {
    default: |_| {},
    prepare_for_create: |_| {},
    prepare_for_update: |_, _, _, _| {},
    check: |_, _| {},
    check_new: |_, _| {},
    check_change: |_, _| {},
    change_first: false,
    warn: |_, _, _| {},
    heeds: None,
};

fn hooks(definition: &Definition) -> &'static Hooks {
    own_hooks(definition).unwrap_or(&PLAIN)
}

fn own_hooks(definition: &Definition) -> Option<&'static Hooks> {
    Some(match (&*definition.resource.group, &*definition.resource.kind) {
        ("", "Namespace") => &namespace::HOOKS,
        ("", "Service") => &service::HOOKS,
        ("", "Pod") => &pod::HOOKS,
        ("", "PodTemplate") => &workloads::pod_template::HOOKS,
        ("", "ReplicationController") => &workloads::replication_controller::HOOKS,
        ("apps", "ControllerRevision") => &workloads::controller_revision::HOOKS,
        ("apps", "DaemonSet") => &workloads::daemon_set::HOOKS,
        ("apps", "Deployment") => &workloads::deployment::HOOKS,
        ("apps", "ReplicaSet") => &workloads::replica_set::HOOKS,
        ("apps", "StatefulSet") => &workloads::stateful_set::HOOKS,
        ("batch", "CronJob") => &workloads::cron_job::HOOKS,
        ("batch", "Job") => &workloads::job::HOOKS,
        ("", "ConfigMap") => &data::CONFIG_MAP,
        ("", "Secret") => &data::SECRET,
        ("", "ServiceAccount") => &service_account::HOOKS,
        ("", "PersistentVolumeClaim") => &claims::HOOKS,
        ("", "PersistentVolume") => &volumes::HOOKS,
        ("", "Node") => &node::HOOKS,
        ("", "Endpoints") => &endpoints::ENDPOINTS,
        ("", "Event") => &event::CORE,
        ("", "ResourceQuota") => &quota::HOOKS,
        ("", "LimitRange") => &limit_range::HOOKS,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
            &admission_registration::MUTATING_WEBHOOKS
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            &admission_registration::VALIDATING_POLICY
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            &admission_registration::VALIDATING_POLICY_BINDING
        }
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            &admission_registration::VALIDATING_WEBHOOKS
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => &custom_resource_definition::HOOKS,
        ("autoscaling", "HorizontalPodAutoscaler") => &autoscaler::HOOKS,
        ("certificates.k8s.io", "CertificateSigningRequest") => &signing_request::HOOKS,
        ("coordination.k8s.io", "Lease") => &lease::HOOKS,
        ("discovery.k8s.io", "EndpointSlice") => &endpoints::SLICE,
        ("events.k8s.io", "Event") => &event::EVENTS,
        ("networking.k8s.io", "Ingress") => &ingress::INGRESS,
        ("networking.k8s.io", "IngressClass") => &ingress::CLASS,
        ("networking.k8s.io", "NetworkPolicy") => &network_policy::HOOKS,
        ("node.k8s.io", "RuntimeClass") => &runtime_class::HOOKS,
        ("policy", "PodDisruptionBudget") => &disruption_budget::HOOKS,
        ("rbac.authorization.k8s.io", "ClusterRole") => &rbac::CLUSTER_ROLE,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => &rbac::CLUSTER_ROLE_BINDING,
        ("rbac.authorization.k8s.io", "Role") => &rbac::ROLE,
        ("rbac.authorization.k8s.io", "RoleBinding") => &rbac::ROLE_BINDING,
        ("scheduling.k8s.io", "PriorityClass") => &priority_class::HOOKS,
        ("storage.k8s.io", "StorageClass") => &storage_class::HOOKS,
        _ => return None,
    })
}

/// Fills in what the client left open: first what the schema says, then what the kind says. What is as it is stored has
/// its defaults.
pub(crate) fn default(definition: &Definition, object: &mut Value, difference: &Difference) {
    fill_from_schema(&definition.schema, definition.type_id, object, difference);
    match (own_hooks(definition), definition.open_api()) {
        (_, Some(schema)) => nulls::drop_entries(schema, object),
        (Some(hooks), None) => (hooks.default)(object),
        (None, None) => plain_defaults::fill(definition, object),
    }
}

/// Resets what the client may not set on a new object: first of all, its status.
pub(crate) fn prepare_for_create(definition: &Definition, object: &mut Value) {
    if definition.has_status() && keeps_no_status(definition) {
        match object.as_object_mut() {
            Some(fields) if definition.is_custom() => drop(fields.remove("status")),
            _ => object["status"] = json!({}),
        }
    }
    (hooks(definition).prepare_for_create)(object);
}

/// Writes on a request of someone's who that is.
pub(crate) fn sign(definition: &Definition, object: &mut Value, context: &WriteContext) {
    if is_signing_request(definition) {
        signing_request::sign(object, context.requester.as_ref());
    }
}

fn is_signing_request(definition: &Definition) -> bool {
    definition.resource.group == "certificates.k8s.io"
        && definition.resource.kind == "CertificateSigningRequest"
}

/// The fields of a new object in which its writer manages nothing: the status, if it will not be kept. Nobody manages
/// what never changes, the spec of a signing request, either.
pub(crate) fn unmanaged_fields(definition: &Definition) -> &'static [&'static str] {
    if is_signing_request(definition) {
        return &["spec", "status"];
    }
    match definition.has_status() && keeps_no_status(definition) {
        true => &["status"],
        false => &[],
    }
}

/// What a writer of one part of an object does not say there: the rest of it is as it was, whatever an apply claims.
pub(crate) fn reset_fields(definition: &Definition, part: Part) -> FieldSet {
    let paths: &[&[&str]] = match part {
        Part::Object if is_signing_request(definition) => &[&["spec"], &["status"]],
        Part::Object | Part::Finalize if definition.has_status() => &[&["status"]],
        Part::Status if definition.is_built_in("deployments") => &[&["spec"], &["metadata", "labels"]],
        Part::Status => &[&["spec"]],
        _ => &[],
    };
    let mut fields = FieldSet::new();
    if part == Part::Status && definition.is_custom() {
        let all = definition.schema.fields(definition.type_id).into_iter();
        let others = all.filter(|field| !matches!(&*field.name, "status" | "apiVersion" | "kind"));
        others.for_each(|field| fields.insert(&[PathElement::field(&field.name)]));
    }
    for path in paths {
        let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
        fields.insert(&path);
    }
    fields
}

/// Nodes report themselves, status and all, with their first write.
fn keeps_no_status(definition: &Definition) -> bool {
    !definition.is_built_in("nodes")
}

/// Resets what the client may not change.
pub(crate) fn prepare_for_update(
    definition: &Definition,
    part: Part,
    object: &mut Value,
    live: &Value,
    now: &str,
) {
    (hooks(definition).prepare_for_update)(part, object, live, now);
}

/// What is wrong with a new object beyond its metadata.
pub(crate) fn faults(definition: &Definition, object: &Value) -> FieldErrors {
    let mut faults = FieldErrors::new();
    check(definition, object, None, &Warnings::default(), &mut faults);
    (hooks(definition).check_new)(&Place::object(object), &mut faults);
    faults
}

/// Checks an object's own fields: its kind knows, or else its schema.
fn check(
    definition: &Definition,
    object: &Value,
    live: Option<&Value>,
    warnings: &Warnings,
    faults: &mut Faults,
) {
    if let Some(custom) = &definition.custom {
        faults.append(custom.rules.faults(object, live));
        return check_expressions(custom, object, live, warnings, faults);
    }
    match own_hooks(definition) {
        Some(hooks) => (hooks.check)(&Place::object(object), faults),
        None => faults.append(schema_rules::faults(definition, object)),
    }
}

/// Holds an object to the expressions of its kind, unless it is not even what they speak of.
fn check_expressions(
    custom: &CustomVersion,
    object: &Value,
    live: Option<&Value>,
    warnings: &Warnings,
    faults: &mut Faults,
) {
    let Some(rules) = &custom.expressions else { return };
    match expressions::unchecked(faults) {
        Some(unchecked) => faults.push(unchecked),
        None => faults.append(rules.faults(object, live, warnings)),
    }
}

/// Containers that may do everything, where none may.
pub(crate) fn privileged_faults(definition: &Definition, object: &Value) -> FieldErrors {
    let spec = FieldPath::new("spec");
    let template = |path: FieldPath| path.child("template").child("spec");
    let (path, spec) = match (&*definition.resource.group, &*definition.resource.kind) {
        ("", "Pod") => (spec, &object["spec"]),
        ("", "PodTemplate") => (
            FieldPath::new("template").child("spec"),
            &object["template"]["spec"],
        ),
        ("batch", "CronJob") => (
            template(spec.child("jobTemplate").child("spec")),
            &object["spec"]["jobTemplate"]["spec"]["template"]["spec"],
        ),
        _ => match pod_template(definition, object) {
            Some(found) => (template(spec), &found["spec"]),
            None => return FieldErrors::new(),
        },
    };
    pod::privileged_faults(&path, spec)
}

/// What is wrong with a changed object beyond its metadata. Of an object whose status is written, the rest is as it
/// was, and was checked then.
pub(crate) fn update_faults(
    definition: &Definition,
    part: Part,
    object: &Value,
    live: &Value,
    warnings: &Warnings,
) -> FieldErrors {
    let mut faults = FieldErrors::new();
    let hooks = hooks(definition);
    let change = Change {
        part,
        new: Place::object(object),
        live: Place::object(live),
    };
    let (is_first, is_whole) = (hooks.change_first, part != Part::Status);
    if is_first {
        (hooks.check_change)(&change, &mut faults);
    }
    match &definition.custom {
        Some(custom) if !is_whole => {
            faults.append(custom.rules.faults_of_part("status", object, Some(live)));
            // These speak of the whole object, and of how its parts fit together.
            check_expressions(custom, object, Some(live), warnings, &mut faults);
        }
        _ if is_whole => check(definition, object, Some(live), warnings, &mut faults),
        _ => {}
    }
    if !is_first {
        (hooks.check_change)(&change, &mut faults);
    }
    faults
}

/// Whether a label or an annotation with this key means anything to the rules of the kind. `None` if the rest of the
/// object does as well.
pub(crate) fn heeds(definition: &Definition) -> Option<fn(&str) -> bool> {
    hooks(definition).heeds
}

/// What the writer should hear.
pub(crate) fn warn(definition: &Definition, object: &Value, live: Option<&Value>, warnings: &Warnings) {
    if definition.is_custom() {
        warn_of_finalizers(object, live, warnings);
    }
    (hooks(definition).warn)(object, live, warnings);
}

/// A custom object may have finalizers of any name, but should not.
fn warn_of_finalizers(object: &Value, live: Option<&Value>, warnings: &Warnings) {
    let list = |object: &Value| -> Vec<String> {
        let list = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let known = live.map(list).unwrap_or_default();
    for name in list(object) {
        let is_qualified = name.contains('/') || matches!(&*name, "orphan" | "foregroundDeletion");
        if !is_qualified && !known.contains(&name) {
            warnings.add(format!(
                "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts \
                 with other finalizer writers"
            ));
        }
    }
}

/// The template for pods in an object, of kinds that have one.
pub(crate) fn pod_template<'v>(definition: &Definition, object: &'v Value) -> Option<&'v Value> {
    match (&*definition.resource.group, &*definition.resource.kind) {
        ("", "PodTemplate") => Some(&object["template"]),
        ("batch", "CronJob") => Some(&object["spec"]["jobTemplate"]["spec"]["template"]),
        ("", "ReplicationController")
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("batch", "Job") => Some(&object["spec"]["template"]),
        _ => None,
    }
}

/// Whether a deleted object has nothing left that keeps it.
pub(crate) fn is_ready_to_go(definition: &Definition, object: &Value) -> bool {
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let metadata = &object["metadata"];
    let kept_by_spec = is_namespace(definition) && !is_empty(&object["spec"]["finalizers"]);
    !metadata["deletionTimestamp"].is_null()
        && is_empty(&metadata["finalizers"])
        && metadata["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or_default()
            == 0
        && !kept_by_spec
}

/// Whether objects of the kind end gracefully: there is something running that must stop first.
pub(crate) fn is_graceful(definition: &Definition) -> bool {
    definition.resource.kind == "Pod" && definition.resource.group.is_empty()
}

/// Whether the resource is that of namespaces.
pub(crate) fn is_namespace(definition: &Definition) -> bool {
    definition.resource.kind == "Namespace" && definition.resource.group.is_empty()
}
