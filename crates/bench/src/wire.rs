//! The wire beside what kube does (serde_json into `k8s-openapi`) and beside prost (into `k8s-pb`).

use std::hint::black_box;
use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use k8s_pb::api::core::v1::PodList;
use prost::Message as _;
use watchkeeper_meta::GroupVersionKind;
use watchkeeper_wire::protobuf::{Envelope, encode_message};
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::{Encoding, ListSplitter, Object, ObjectOptions, RawObject, json, protobuf};

use crate::measure::{Case, Turns, compare};
use crate::pods::Bodies;

/// What a body arrives in: a large HTTP/2 frame.
const CHUNK: usize = 16 << 10;

/// Decoded pods to be cloned in turn: all of them would take a gigabyte.
const CLONED: usize = 1000;

/// Times all cases and prints the medians.
pub(crate) fn time(bodies: &Bodies, turns: &Turns<'_>) -> Result<()> {
    let (json, protobuf) = (&bodies.json[..], &bodies.protobuf[..]);
    let table = |title, cases| compare(title, bodies.pods, turns, cases);
    table(
        "JSON list",
        vec![
            Case::new("split", json.len(), || split(Encoding::Json, json, |_| Ok(()))),
            Case::new("split + headers", json.len(), || headers(Encoding::Json, json)),
            Case::new("split + objects without managedFields", json.len(), || {
                Ok(objects(Encoding::Json, json)?.len())
            }),
            Case::new("split + typed decode of each", json.len(), || {
                typed(Encoding::Json, json)
            }),
            Case::new("peer: serde_json into List<Pod>", json.len(), || {
                Ok(serde_list(json)?.items.len())
            }),
        ],
    )?;
    table(
        "Protobuf list",
        vec![
            Case::new("split", protobuf.len(), || {
                split(Encoding::Protobuf, protobuf, |_| Ok(()))
            }),
            Case::new("split + headers", protobuf.len(), || {
                headers(Encoding::Protobuf, protobuf)
            }),
            Case::new("split + objects without managedFields", protobuf.len(), || {
                Ok(objects(Encoding::Protobuf, protobuf)?.len())
            }),
            Case::new("split + typed decode of each", protobuf.len(), || {
                typed(Encoding::Protobuf, protobuf)
            }),
            Case::new("peer: serde_json into List<Pod>, from JSON", json.len(), || {
                Ok(serde_list(json)?.items.len())
            }),
            Case::new("peer: prost into PodList", protobuf.len(), || {
                Ok(prost_list(protobuf)?.items.len())
            }),
        ],
    )?;
    let (json_objects, protobuf_objects) = (
        objects(Encoding::Json, json)?,
        objects(Encoding::Protobuf, protobuf)?,
    );
    let pods = json_objects
        .iter()
        .take(CLONED)
        .map(Object::decode::<Pod>)
        .collect::<Result<Vec<_>, _>>()?;
    let size = |objects: &[Object]| objects.iter().map(|object| object.bytes().len()).sum();
    let (json_size, protobuf_size) = (size(&json_objects), size(&protobuf_objects));
    table(
        "Typed decode of kept objects, one by one",
        vec![
            Case::new("JSON", json_size, || {
                each(&json_objects, |object| Ok(object.decode::<Pod>()?))
            }),
            Case::new("peer: serde_json into Pod", json_size, || {
                each(&json_objects, |object| {
                    Ok(serde_json::from_slice::<Pod>(object.bytes())?)
                })
            }),
            Case::new("protobuf", protobuf_size, || {
                each(&protobuf_objects, |object| Ok(object.decode::<Pod>()?))
            }),
            // The same structs, texts and lists, and nothing to read: what no decoder can do without.
            Case::new("floor: a clone of the Pod", protobuf_size, || {
                let all = pods.iter().cycle().take(bodies.pods);
                Ok(all.map(|pod| black_box(pod.clone())).count())
            }),
            Case::new("peer: prost into its Pod", protobuf_size, || {
                each(&protobuf_objects, |object| {
                    Ok(k8s_pb::api::core::v1::Pod::decode(object.bytes())?)
                })
            }),
        ],
    )?;
    table(
        "Copy without managedFields",
        vec![
            Case::new("protobuf", protobuf.len(), || cut(Encoding::Protobuf, protobuf)),
            Case::new("JSON", json.len(), || cut(Encoding::Json, json)),
        ],
    )?;
    table(
        "Transcode",
        vec![
            Case::new("protobuf to JSON", protobuf.len(), || to_json(protobuf)),
            Case::new("JSON to protobuf", json.len(), || to_protobuf(json)),
            Case::new("peer: List<Pod> from and to JSON", json.len(), || {
                let list = serde_list(json)?;
                black_box(serde_json::to_vec(&list)?);
                Ok(list.items.len())
            }),
        ],
    )
}

/// Calls `each` with every item; the body comes in chunks, as from a socket.
pub(crate) fn split(
    encoding: Encoding,
    body: &[u8],
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<usize> {
    let mut splitter = ListSplitter::new(encoding);
    let mut items = 0;
    for mut chunk in body.chunks(CHUNK) {
        while let Some(item) = splitter.next(&mut chunk)? {
            each(item)?;
            items += 1;
        }
    }
    splitter.finish()?;
    Ok(items)
}

fn headers(encoding: Encoding, body: &[u8]) -> Result<usize> {
    split(encoding, body, |item| {
        match encoding {
            Encoding::Json => drop(black_box(json::item_header(item)?)),
            Encoding::Protobuf => drop(black_box(protobuf::header::header(item)?)),
        }
        Ok(())
    })
}

/// What a cache keeps.
fn objects(encoding: Encoding, body: &[u8]) -> Result<Vec<Object>> {
    let (kind, mut objects) = (pod_kind(), Vec::new());
    split(encoding, body, |item| {
        objects.push(Object::from_item(
            encoding,
            item,
            &kind,
            &ObjectOptions::default(),
        )?);
        Ok(())
    })?;
    Ok(objects)
}

fn each<T>(objects: &[Object], decode: impl Fn(&Object) -> Result<T>) -> Result<usize> {
    for object in objects {
        black_box(decode(object)?);
    }
    Ok(objects.len())
}

/// What a typed list does.
fn typed(encoding: Encoding, body: &[u8]) -> Result<usize> {
    let (kind, mut pods) = (pod_kind(), Vec::new());
    split(encoding, body, |item| {
        pods.push(RawObject::item(encoding, item).decode::<Pod>(&kind)?);
        Ok(())
    })?;
    Ok(black_box(pods).len())
}

fn cut(encoding: Encoding, body: &[u8]) -> Result<usize> {
    let mut out = Vec::new();
    split(encoding, body, |item| {
        out.clear();
        match encoding {
            Encoding::Json => json::managed_fields::copy_without(item, &mut out)?,
            Encoding::Protobuf => protobuf::managed_fields::copy_without(item, &mut out)?,
        }
        black_box(&out);
        Ok(())
    })
}

fn to_json(body: &[u8]) -> Result<usize> {
    let options = ObjectOptions {
        keep_managed_fields: true,
    };
    let kind = pod_kind();
    split(Encoding::Protobuf, body, |item| {
        let object = Object::from_item(Encoding::Protobuf, item, &kind, &options)?;
        black_box(object.to_json()?);
        Ok(())
    })
}

fn to_protobuf(body: &[u8]) -> Result<usize> {
    let schema = Schema::builtin();
    let pod = schema.kind("v1", "Pod").expect("pods are built in");
    split(Encoding::Json, body, |item| {
        black_box(encode_message(schema, pod, &serde_json::from_slice(item)?)?);
        Ok(())
    })
}

/// What kube does with the body of a list.
pub(crate) fn serde_list(body: &[u8]) -> Result<List<Pod>> {
    Ok(serde_json::from_slice(body)?)
}

pub(crate) fn prost_list(body: &[u8]) -> Result<PodList> {
    Ok(PodList::decode(Envelope::read(body)?.raw)?)
}

pub(crate) fn pod_kind() -> Arc<GroupVersionKind> {
    Arc::new(GroupVersionKind::new("", "v1", "Pod"))
}
