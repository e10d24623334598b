//! Resources that are served in two versions and stored in one.
//!
//! Events are stored as core events, autoscalers as `autoscaling/v2`. The other version is worked out on the way in
//! and out, on values; the stored version pays nothing.

mod autoscaler;

use serde_json::{Value, json};
use watchkeeper_meta::GroupVersion;
use watchkeeper_patch::endpoint::Versions;
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::update::Part;

pub(crate) use autoscaler::METRICS_ANNOTATION;

/// How a served version relates to the stored one.
#[derive(Debug)]
pub(crate) struct Conversion {
    kind: &'static str,
    /// The stored version.
    pub(crate) stored_api_version: &'static str,
    served_api_version: &'static str,
    to_stored: fn(Value) -> Value,
    to_served: fn(Value) -> Value,
    /// Annotations of the served version that hold a part of the stored spec, and of the stored status.
    spec_annotations: &'static [&'static str],
    status_annotations: &'static [&'static str],
}

/// The conversion of a resource whose served version is not the stored one.
pub(crate) fn conversion(group: &str, version: &str, plural: &str) -> Option<&'static Conversion> {
    let served = GroupVersion::new(group.to_owned(), version.to_owned()).to_string();
    family(group, plural).filter(|conversion| conversion.served_api_version == served)
}

/// What leads between the versions of a resource, if there are two.
pub(crate) fn family(group: &str, plural: &str) -> Option<&'static Conversion> {
    match (group, plural) {
        ("" | "events.k8s.io", "events") => Some(&EVENTS),
        ("autoscaling", "horizontalpodautoscalers") => Some(&autoscaler::CONVERSION),
        _ => None,
    }
}

impl Conversion {
    /// The object as it is stored.
    pub(crate) fn to_stored(&self, object: Value) -> Value {
        let mut stored = (self.to_stored)(object);
        stored["apiVersion"] = json!(self.stored_api_version);
        stored
    }

    /// The object as it is served.
    pub(crate) fn to_served(&self, object: Value) -> Value {
        let mut served = (self.to_served)(object);
        served["apiVersion"] = json!(self.served_api_version);
        served
    }

    /// Leaves what annotations say of the part of an object that is not written as it is.
    pub(crate) fn keep(&self, part: Part, new: &mut Value, live: &Value) {
        let kept = match part {
            Part::Status => self.spec_annotations,
            _ => self.status_annotations,
        };
        for name in kept {
            let metadata = crate::metadata::of(new);
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

/// The names that differ between `events.k8s.io` and core events.
const EVENT_NAMES: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

static EVENTS: Conversion = Conversion {
    kind: "Event",
    served_api_version: "events.k8s.io/v1",
    stored_api_version: "v1",
    to_stored: |event| {
        renamed(event, |name| {
            EVENT_NAMES.iter().find(|pair| pair.0 == name).map(|pair| pair.1)
        })
    },
    to_served: |event| {
        renamed(event, |name| {
            EVENT_NAMES.iter().find(|pair| pair.1 == name).map(|pair| pair.0)
        })
    },
    spec_annotations: &[],
    status_annotations: &[],
};

fn renamed(object: Value, new_name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = object else {
        return object;
    };
    let fields = fields
        .into_iter()
        .map(|(name, value)| (new_name(&name).map_or(name, str::to_owned), value));
    Value::Object(fields.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_the_same_after_the_way_to_the_store_and_back() {
        let served = json!({"regarding": {"name": "p"}, "note": "hello", "type": "Normal"});
        let stored = (EVENTS.to_stored)(served.clone());
        assert_eq!(stored["message"], "hello");
        assert_eq!((EVENTS.to_served)(stored), served);
    }
}
