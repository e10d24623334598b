//! Built-in resources that are served in two versions and stored in one.
//!
//! Events are stored as core events, autoscalers as `autoscaling/v2`. The other version is converted on reads and
//! writes; the stored version costs nothing extra.

use serde_json::{Value, json};
use watchkeeper_patch::endpoint::Versions;
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::{Part, metadata};

/// The relation of a served version to the stored one.
#[derive(Debug)]
pub struct Conversion {
    pub(crate) kind: &'static str,
    /// The stored version.
    pub stored_api_version: &'static str,
    pub(crate) served_api_version: &'static str,
    pub(crate) to_stored: fn(Value) -> Value,
    pub(crate) to_served: fn(Value) -> Value,
    /// Annotations of the served version that hold a part of the stored spec, and of the stored status.
    pub(crate) spec_annotations: &'static [&'static str],
    pub(crate) status_annotations: &'static [&'static str],
}

impl Conversion {
    /// The object as it is stored.
    pub fn to_stored(&self, object: Value) -> Value {
        let mut stored = (self.to_stored)(object);
        stored["apiVersion"] = json!(self.stored_api_version);
        stored
    }

    /// The object as it is served.
    pub fn to_served(&self, object: Value) -> Value {
        let mut served = (self.to_served)(object);
        served["apiVersion"] = json!(self.served_api_version);
        served
    }

    /// Keeps the live annotations of the part of an object that is not written.
    pub fn keep(&self, part: Part, new: &mut Value, live: &Value) {
        let kept = match part {
            Part::Status => self.spec_annotations,
            _ => self.status_annotations,
        };
        for name in kept {
            let metadata = metadata::of(new);
            match live["metadata"]["annotations"].get(name) {
                Some(value) => {
                    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
                    annotations[name] = value.clone();
                }
                None => {
                    let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
                    annotations.and_then(|annotations| annotations.remove(*name));
                }
            }
        }
    }
}

impl Versions for Conversion {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(TypeId, Value)> {
        let schema = Schema::builtin();
        let root = schema.kind(api_version, self.kind)?;
        let is_stored = object["apiVersion"] == self.stored_api_version;
        let converted = match (is_stored, api_version == self.stored_api_version) {
            (false, true) => self.to_stored(object.clone()),
            (true, false) if api_version == self.served_api_version => self.to_served(object.clone()),
            _ if object["apiVersion"] == api_version => object.clone(),
            _ => return None,
        };
        Some((root, converted))
    }
}
