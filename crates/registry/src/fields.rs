//! Which fields a field selector may name, per resource, and how they are read.

use serde_json::Value;
use watchkeeper_meta::{FieldSelector, SelectorError, Status};

use crate::definition::Definition;

/// What a selectable field is called and where it stands.
struct Selectable {
    /// The name in a selector.
    name: &'static str,
    /// Where its value stands; the first that is there counts.
    pointers: &'static [&'static str],
}

const fn at(name: &'static str, pointers: &'static [&'static str]) -> Selectable {
    Selectable { name, pointers }
}

const POD: &[Selectable] = &[
    at("spec.nodeName", &["/spec/nodeName"]),
    at("spec.restartPolicy", &["/spec/restartPolicy"]),
    at("spec.schedulerName", &["/spec/schedulerName"]),
    at("spec.serviceAccountName", &["/spec/serviceAccountName"]),
    at("spec.hostNetwork", &["/spec/hostNetwork"]),
    at("status.phase", &["/status/phase"]),
    at("status.podIP", &["/status/podIP"]),
    at("status.podIPs", &["/status/podIP"]),
    at("status.nominatedNodeName", &["/status/nominatedNodeName"]),
];
const CORE_EVENT: &[Selectable] = &[
    at("involvedObject.kind", &["/involvedObject/kind"]),
    at("involvedObject.namespace", &["/involvedObject/namespace"]),
    at("involvedObject.name", &["/involvedObject/name"]),
    at("involvedObject.uid", &["/involvedObject/uid"]),
    at("involvedObject.apiVersion", &["/involvedObject/apiVersion"]),
    at(
        "involvedObject.resourceVersion",
        &["/involvedObject/resourceVersion"],
    ),
    at("involvedObject.fieldPath", &["/involvedObject/fieldPath"]),
    at("reason", &["/reason"]),
    at("reportingComponent", &["/reportingComponent"]),
    at("source", &["/source/component", "/reportingComponent"]),
    at("type", &["/type"]),
];
const EVENT: &[Selectable] = &[
    at("regarding.kind", &["/regarding/kind"]),
    at("regarding.namespace", &["/regarding/namespace"]),
    at("regarding.name", &["/regarding/name"]),
    at("regarding.uid", &["/regarding/uid"]),
    at("regarding.apiVersion", &["/regarding/apiVersion"]),
    at("regarding.resourceVersion", &["/regarding/resourceVersion"]),
    at("regarding.fieldPath", &["/regarding/fieldPath"]),
    at("reason", &["/reason"]),
    at("reportingController", &["/reportingController"]),
    at("type", &["/type"]),
];
const NODE: &[Selectable] = &[at("spec.unschedulable", &["/spec/unschedulable"])];
const NAMESPACE: &[Selectable] = &[at("status.phase", &["/status/phase"])];
const SECRET: &[Selectable] = &[at("type", &["/type"])];
const SERVICE: &[Selectable] = &[
    at("spec.clusterIP", &["/spec/clusterIP"]),
    at("spec.type", &["/spec/type"]),
];
const REPLICATION_CONTROLLER: &[Selectable] = &[at("status.replicas", &["/status/replicas"])];
const JOB: &[Selectable] = &[at("status.successful", &["/status/succeeded"])];
const SIGNER: &[Selectable] = &[at("spec.signerName", &["/spec/signerName"])];
const POD_CERTIFICATE: &[Selectable] = &[
    at("spec.signerName", &["/spec/signerName"]),
    at("spec.podName", &["/spec/podName"]),
    at("spec.nodeName", &["/spec/nodeName"]),
];
const RESOURCE_SLICE: &[Selectable] = &[
    at("spec.nodeName", &["/spec/nodeName"]),
    at("spec.driver", &["/spec/driver"]),
    at("spec.pool.name", &["/spec/pool/name"]),
];

/// The selectable fields beyond `metadata.name` and `metadata.namespace`, and whether the resource has its own
/// list of them; one that has not is asked about unknown fields in other words.
fn selectable(definition: &Definition) -> Option<&'static [Selectable]> {
    Some(
        match (&*definition.resource.group, &*definition.resource.plural) {
            ("", "pods") => POD,
            ("", "events") => CORE_EVENT,
            ("events.k8s.io", "events") => EVENT,
            ("", "nodes") => NODE,
            ("", "namespaces") => NAMESPACE,
            ("", "secrets") => SECRET,
            ("", "services") => SERVICE,
            ("", "replicationcontrollers") => REPLICATION_CONTROLLER,
            ("batch", "jobs") => JOB,
            ("certificates.k8s.io", "podcertificaterequests") => POD_CERTIFICATE,
            ("certificates.k8s.io", "certificatesigningrequests" | "clustertrustbundles") => SIGNER,
            ("resource.k8s.io", "resourceslices") => RESOURCE_SLICE,
            _ => return None,
        },
    )
}

/// Checks that a selector names only selectable fields, and gives old names their new form.
pub(crate) fn check(definition: &Definition, selector: FieldSelector) -> Result<FieldSelector, Status> {
    let known = selectable(definition);
    let custom = definition.custom.as_ref();
    let is_custom =
        |field: &str| custom.is_some_and(|custom| custom.selectable.iter().any(|(known, _)| known == field));
    let rename = |field: &str| match (field, known) {
        ("metadata.name" | "metadata.namespace", _) => Ok(field.to_owned()),
        _ if is_custom(field) => Ok(field.to_owned()),
        _ if custom.is_some() => Err(SelectorError::unsupported_field(field)),
        ("spec.host", Some(fields)) if std::ptr::eq(fields, POD) => Ok("spec.nodeName".to_owned()),
        (_, Some(fields)) if fields.iter().any(|known| known.name == field) => Ok(field.to_owned()),
        (_, Some(_)) => Err(SelectorError::unsupported_field(field)),
        (_, None) => Err(SelectorError::unknown_field(field)),
    };
    selector
        .try_rename(rename)
        .map_err(|error| Status::bad_request(error.to_string()))
}

/// A selectable field's value, as text; empty when it is not set.
pub(crate) fn value(definition: &Definition, object: &Value, field: &str) -> String {
    let custom = definition.custom.as_ref();
    let custom = custom.and_then(|custom| custom.selectable.iter().find(|(known, _)| known == field));
    if let Some((_, path)) = custom {
        return match path.first(object) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
    }
    let pointers = match field {
        "metadata.name" => &["/metadata/name"],
        "metadata.namespace" => &["/metadata/namespace"],
        field => {
            let known = selectable(definition)
                .into_iter()
                .flatten()
                .find(|known| known.name == field);
            known.map_or(&[][..], |known| known.pointers)
        }
    };
    let found = pointers.iter().filter_map(|pointer| object.pointer(pointer));
    match found.into_iter().find(|value| value.as_str() != Some("")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => zero(field).to_owned(),
        Some(other) => other.to_string(),
    }
}

/// What an unset field reads as: booleans and numbers have a value of their own.
fn zero(field: &str) -> &'static str {
    match field {
        "spec.hostNetwork" | "spec.unschedulable" => "false",
        "status.replicas" | "status.successful" => "0",
        _ => "",
    }
}
