//! The wire crate, compared with what kube does (serde_json into `k8s-openapi`) and with prost (into `k8s-pb`).

use std::hint::black_box;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use watchkeeper_bench_codec::pods::Bodies;
use watchkeeper_bench_codec::work::{
    clones, cut, decode, each, headers, objects, prost_decode, prost_list, serde_decode, serde_list, split,
    to_json, to_protobuf, typed,
};
use watchkeeper_wire::{Encoding, Object};

use crate::measure::{Case, Turns, compare};

/// The number of decoded pods that are cloned in turn: all of them would need a gigabyte.
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
        .map(decode::<Pod>)
        .collect::<Result<Vec<_>>>()?;
    let size = |objects: &[Object]| objects.iter().map(|object| object.bytes().len()).sum();
    let (json_size, protobuf_size) = (size(&json_objects), size(&protobuf_objects));
    table(
        "Typed decode of kept objects, one by one",
        vec![
            Case::new("JSON", json_size, || each(&json_objects, decode::<Pod>)),
            Case::new("peer: serde_json into Pod", json_size, || {
                each(&json_objects, serde_decode::<Pod>)
            }),
            Case::new("protobuf", protobuf_size, || {
                each(&protobuf_objects, decode::<Pod>)
            }),
            Case::new("floor: a clone of the Pod", protobuf_size, || {
                clones(&pods, bodies.pods)
            }),
            Case::new("peer: prost into its Pod", protobuf_size, || {
                each(&protobuf_objects, prost_decode)
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
