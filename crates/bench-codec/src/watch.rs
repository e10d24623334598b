//! A watch stream beside what kube does: a line, then serde_json into a typed event.

use std::hint::black_box;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::WatchEvent;
use watchkeeper_bench_codec::pods::Bodies;
use watchkeeper_bench_codec::work::{CHUNK, pod_kind, split};
use watchkeeper_wire::protobuf::Envelope;
use watchkeeper_wire::protobuf::frame::{self, WatchFrame};
use watchkeeper_wire::{Encoding, Object, ObjectOptions, WatchSplitter};

use crate::measure::{Case, Turns, compare};

/// Every pod changes once.
pub(crate) fn time(bodies: &Bodies, turns: &Turns<'_>) -> Result<()> {
    let (json, protobuf) = (&json_stream(bodies)?[..], &protobuf_stream(bodies)?[..]);
    compare(
        "Watch stream",
        bodies.pods,
        turns,
        vec![
            Case::new("events into objects, protobuf", protobuf.len(), || {
                events(Encoding::Protobuf, protobuf)
            }),
            Case::new("events into objects, JSON", json.len(), || {
                events(Encoding::Json, json)
            }),
            Case::new("peer: serde_json into WatchEvent<Pod>", json.len(), || {
                typed_events(json)
            }),
        ],
    )
}

fn json_stream(bodies: &Bodies) -> Result<Vec<u8>> {
    let mut stream = Vec::new();
    split(Encoding::Json, &bodies.json, |item| {
        let members = item.strip_prefix(b"{").context("an item is an object")?;
        stream.extend_from_slice(br#"{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","#);
        stream.extend_from_slice(members);
        stream.extend_from_slice(b"}\n");
        Ok(())
    })?;
    Ok(stream)
}

fn protobuf_stream(bodies: &Bodies) -> Result<Vec<u8>> {
    let mut stream = Vec::new();
    split(Encoding::Protobuf, &bodies.protobuf, |raw| {
        let (api_version, kind) = ("v1", "Pod");
        let object = Envelope {
            api_version,
            kind,
            raw,
        };
        frame::write(
            &WatchFrame {
                word: "MODIFIED",
                object,
            },
            &mut stream,
        );
        Ok(())
    })?;
    Ok(stream)
}

/// Each object is kept until the next one comes, as a store replaces it.
fn events(encoding: Encoding, stream: &[u8]) -> Result<usize> {
    let (kind, options) = (pod_kind(), ObjectOptions::default());
    let mut splitter = WatchSplitter::new(encoding);
    let mut events = 0;
    for mut chunk in stream.chunks(CHUNK) {
        while let Some(event) = splitter.next(&mut chunk)? {
            black_box(Object::from_raw(event.object, &kind, &options)?);
            events += 1;
        }
    }
    splitter.finish()?;
    Ok(events)
}

fn typed_events(stream: &[u8]) -> Result<usize> {
    let mut events = 0;
    for line in stream
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        black_box(serde_json::from_slice::<WatchEvent<Pod>>(line)?);
        events += 1;
    }
    Ok(events)
}
