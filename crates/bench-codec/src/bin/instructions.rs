//! Counts instructions per object in the hot loops. The figures do not depend on the load of the machine.
//!
//! ```text
//! cargo run --release -p watchkeeper-bench-codec --bin instructions
//! cargo run --release -p watchkeeper-bench-codec --bin instructions -- typed # cases about typed decode
//! ```
//!
//! Requires Valgrind. `runtime_instructions` counts the runtime's work per object.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use watchkeeper_bench_codec::callgrind;
use watchkeeper_bench_codec::events::{events, json_stream, protobuf_stream};
use watchkeeper_bench_codec::pods::Bodies;
use watchkeeper_bench_codec::work::{self, each, objects};
use watchkeeper_wire::Encoding::{Json, Protobuf};

/// Large enough to hide the cost per list.
const PODS: usize = 500;

const CASES: [&str; 21] = [
    "JSON: split + headers",
    "JSON: split + objects",
    "JSON: watch events into objects",
    "JSON: copy without managedFields",
    "JSON: typed decode of one pod",
    "peer: serde_json, typed decode of one pod",
    "JSON to protobuf",
    "protobuf: split + headers",
    "protobuf: split + objects",
    "protobuf: watch events into objects",
    "protobuf: copy without managedFields",
    "protobuf: typed decode of one pod",
    "a clone of the decoded pod, typed",
    "peer: prost, typed decode of one pod",
    "protobuf to JSON",
    "JSON: split + objects, namespaces",
    "JSON: typed decode of one namespace",
    "peer: serde_json, typed decode of one namespace",
    "protobuf: split + objects, namespaces",
    "protobuf: typed decode of one namespace",
    "a clone of the decoded namespace, typed",
];

fn main() -> Result<()> {
    callgrind::print("each", &CASES, PODS, run)
}

/// Runs one case: the setup, then the loop.
fn run(case: &str) -> Result<()> {
    let bodies = Bodies::generate(PODS)?;
    let (json, protobuf) = (&bodies.json[..], &bodies.protobuf[..]);
    let (json_pods, protobuf_pods) = (objects(Json, json)?, objects(Protobuf, protobuf)?);
    let decoded = json_pods
        .iter()
        .map(work::decode::<Pod>)
        .collect::<Result<Vec<_>>>()?;
    let (json_stream, protobuf_stream) = (json_stream(&bodies)?, protobuf_stream(&bodies)?);
    let namespaces = Bodies::namespaces(PODS)?;
    let kind = work::namespace_kind();
    let objects = |encoding, body: &[u8]| work::objects_of(&kind, encoding, body);
    let json_namespaces = objects(Json, &namespaces.json)?;
    let protobuf_namespaces = objects(Protobuf, &namespaces.protobuf)?;
    let decoded_namespaces = json_namespaces
        .iter()
        .map(work::decode::<Namespace>)
        .collect::<Result<Vec<_>>>()?;
    let mut work: Box<dyn FnMut() -> Result<usize>> = match case {
        "JSON: split + headers" => Box::new(|| work::headers(Json, json)),
        "JSON: split + objects" => Box::new(|| Ok(work::objects(Json, json)?.len())),
        "JSON: watch events into objects" => Box::new(|| events(Json, &json_stream)),
        "JSON: copy without managedFields" => Box::new(|| work::cut(Json, json)),
        "JSON: typed decode of one pod" => Box::new(|| each(&json_pods, work::decode::<Pod>)),
        "peer: serde_json, typed decode of one pod" => {
            Box::new(|| each(&json_pods, work::serde_decode::<Pod>))
        }
        "JSON to protobuf" => Box::new(|| work::to_protobuf(json)),
        "protobuf: split + headers" => Box::new(|| work::headers(Protobuf, protobuf)),
        "protobuf: split + objects" => Box::new(|| Ok(work::objects(Protobuf, protobuf)?.len())),
        "protobuf: watch events into objects" => Box::new(|| events(Protobuf, &protobuf_stream)),
        "protobuf: copy without managedFields" => Box::new(|| work::cut(Protobuf, protobuf)),
        "protobuf: typed decode of one pod" => Box::new(|| each(&protobuf_pods, work::decode::<Pod>)),
        "a clone of the decoded pod, typed" => Box::new(|| work::clones(&decoded, PODS)),
        "peer: prost, typed decode of one pod" => Box::new(|| each(&protobuf_pods, work::prost_decode)),
        "protobuf to JSON" => Box::new(|| work::to_json(protobuf)),
        "JSON: split + objects, namespaces" => Box::new(|| Ok(objects(Json, &namespaces.json)?.len())),
        "JSON: typed decode of one namespace" => {
            Box::new(|| each(&json_namespaces, work::decode::<Namespace>))
        }
        "peer: serde_json, typed decode of one namespace" => {
            Box::new(|| each(&json_namespaces, work::serde_decode::<Namespace>))
        }
        "protobuf: split + objects, namespaces" => {
            Box::new(|| Ok(objects(Protobuf, &namespaces.protobuf)?.len()))
        }
        "protobuf: typed decode of one namespace" => {
            Box::new(|| each(&protobuf_namespaces, work::decode::<Namespace>))
        }
        "a clone of the decoded namespace, typed" => Box::new(|| work::clones(&decoded_namespaces, PODS)),
        _ => anyhow::bail!("no such case"),
    };
    callgrind::play(&mut *work, PODS)
}
