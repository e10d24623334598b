//! A watch stream, compared with what kube does: a line, then serde_json into a typed event.

use std::hint::black_box;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::WatchEvent;
use watchkeeper_bench_codec::events::{events, json_stream, protobuf_stream};
use watchkeeper_bench_codec::pods::Bodies;
use watchkeeper_wire::Encoding;

use crate::measure::{Case, Turns, compare};

/// Measures a stream in which every pod changes once.
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
