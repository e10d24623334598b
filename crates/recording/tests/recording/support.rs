//! Objects, streams, and a short form of entries.

use std::path::Path;
use std::sync::Arc;

use watchkeeper_meta::{Resource, Time};
use watchkeeper_recording::{ClusterIdentity, Entry, Recording, Rotation, Stream, What, Writer};
use watchkeeper_wire::{Object, ObjectOptions};

pub(crate) fn resource(plural: &'static str, kind: &'static str) -> Resource {
    Resource::namespaced("", "v1", kind, plural)
}

pub(crate) fn config_maps() -> Arc<Stream> {
    Arc::new(Stream::new(resource("configmaps", "ConfigMap"), "", "", ""))
}

pub(crate) fn config_map(name: &str, version: u64, data: &str) -> Object {
    let json = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","uid":"u-{name}","resourceVersion":"{version}"}},"data":{{"text":"{data}"}}}}"#
    );
    Object::from_json(json.as_bytes(), &ObjectOptions::default()).unwrap()
}

pub(crate) fn cluster() -> ClusterIdentity {
    ClusterIdentity {
        id: Some("one".to_owned()),
        server_version: "v1.37.0".to_owned(),
    }
}

pub(crate) fn at(second: i64) -> Time {
    Time::from_seconds(1_800_000_000 + second)
}

pub(crate) fn writer(path: &Path, rotation: Rotation) -> Writer {
    Writer::open(path, &cluster(), &[], rotation, at(0)).unwrap()
}

/// `+default/a@3 x`: the type of entry, the object, its version and its data.
pub(crate) fn show(what: &What) -> String {
    let shown = |object: &Object| {
        let data = object.to_value().unwrap()["data"]["text"].clone();
        let data = data.as_str().unwrap_or_default().to_owned();
        format!("{}@{} {data}", object.key(), object.resource_version())
    };
    match what {
        What::Began => "began".to_owned(),
        What::Listed(object) => format!("={}", shown(object)),
        What::Added(object) => format!("+{}", shown(object)),
        What::Modified { object, previous } => {
            format!("~{} (was @{})", shown(object), previous.resource_version())
        }
        What::Deleted { last, inferred } => {
            format!("-{}{}", shown(last), if *inferred { "?" } else { "" })
        }
        What::Synced(version) => format!("synced {version}"),
        What::Progress(version) => format!("at {version}"),
        What::Gap(gap) => format!("gap {:?}→{:?}: {}", gap.from, gap.to, gap.reason),
        What::Failed(reason) => format!("failed: {reason}"),
        What::Ended(reason) => format!("ended: {reason}"),
    }
}

pub(crate) fn entries(path: &Path) -> Vec<Entry> {
    let recording = Recording::open(path).unwrap();
    recording.entries().map(|entry| entry.unwrap()).collect()
}

pub(crate) fn shown(path: &Path) -> Vec<String> {
    entries(path).iter().map(|entry| show(&entry.what)).collect()
}
