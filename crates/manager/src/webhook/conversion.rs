//! Conversion of objects between the versions of a custom kind.
//!
//! Each step is a function from one struct to another; an object takes the shortest path, for example over a hub
//! version. A converted object keeps its metadata, whatever the function returns; only labels and annotations may
//! change, as API servers require.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_client::ResourceType;

use super::Route;

type Step = Arc<dyn Fn(Value) -> Result<Value, String> + Send + Sync>;

/// The steps between the versions of a kind.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use watchkeeper_client::ResourceType;
/// # use watchkeeper_meta::{ObjectMeta, Resource};
/// use watchkeeper_manager::webhook::Conversions;
///
/// # #[derive(Serialize, Deserialize)] struct Old { metadata: ObjectMeta, size: String }
/// # #[derive(Serialize, Deserialize)] struct New { metadata: ObjectMeta, size: u32 }
/// # impl ResourceType for Old { fn resource() -> Resource { Resource::namespaced("example.com", "v1", "Site", "sites") } }
/// # impl ResourceType for New { fn resource() -> Resource { Resource::namespaced("example.com", "v2", "Site", "sites") } }
/// let conversions = Conversions::new()
///     .step(|old: Old| {
///         let size = old.size.parse().map_err(|_| format!("size: {:?} is no number", old.size))?;
///         Ok::<_, String>(New { metadata: old.metadata, size })
///     })
///     .step(|new: New| Ok::<_, String>(Old { metadata: new.metadata, size: new.size.to_string() }));
/// ```
#[derive(Clone, Default)]
pub struct Conversions {
    /// By the API version they lead from, then to.
    steps: BTreeMap<String, BTreeMap<String, Step>>,
}

impl Conversions {
    /// Without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step from one version to another; the way back is a step of its own.
    pub fn step<A, B, E>(mut self, convert: impl Fn(A) -> Result<B, E> + Send + Sync + 'static) -> Self
    where
        A: ResourceType,
        B: ResourceType,
        E: fmt::Display,
    {
        let step = move |object: Value| {
            let from: A = serde_path_to_error::deserialize(object)
                .map_err(|error| format!("{}: {}", error.path(), error.inner()))?;
            let to = convert(from).map_err(|error| error.to_string())?;
            serde_json::to_value(to).map_err(|error| error.to_string())
        };
        let (from, to) = (api_version::<A>(), api_version::<B>());
        self.steps.entry(from).or_default().insert(to, Arc::new(step));
        self
    }

    /// Converts one object.
    fn convert(&self, object: Value, desired: &str) -> Result<Value, String> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
        let way = self
            .way(&api_version, desired)
            .ok_or_else(|| format!("there is no conversion from {api_version} to {desired}"))?;
        let (metadata, kind) = (object["metadata"].clone(), object["kind"].clone());
        let mut converted = object;
        for (to, step) in way {
            converted = step(converted)?;
            converted["apiVersion"] = json!(to);
            converted["kind"] = kind.clone();
        }
        converted["metadata"] = kept_metadata(metadata, &converted["metadata"]);
        Ok(converted)
    }

    /// The shortest path between two versions; empty between a version and itself.
    fn way(&self, from: &str, to: &str) -> Option<Vec<(String, Step)>> {
        let mut ways = BTreeMap::from([(from.to_owned(), Vec::new())]);
        let mut waiting = VecDeque::from([from.to_owned()]);
        while let Some(version) = waiting.pop_front() {
            let way = ways.get(&version)?.clone();
            if version == to {
                return Some(way);
            }
            for (next, step) in self.steps.get(&version).into_iter().flatten() {
                if !ways.contains_key(next) {
                    let mut further = way.clone();
                    further.push((next.clone(), step.clone()));
                    ways.insert(next.clone(), further);
                    waiting.push_back(next.clone());
                }
            }
        }
        None
    }
}

impl fmt::Debug for Conversions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps.iter();
        let steps = steps.flat_map(|(from, to)| to.keys().map(move |to| (from, to)));
        f.debug_list().entries(steps).finish()
    }
}

/// The original metadata, with the labels and annotations of the conversion.
fn kept_metadata(mut metadata: Value, converted: &Value) -> Value {
    for member in ["labels", "annotations"] {
        if let Some(set) = converted.get(member).filter(|set| !set.is_null()) {
            metadata[member] = set.clone();
        }
    }
    metadata
}

fn api_version<K: ResourceType>() -> String {
    K::resource().group_version_kind().api_version()
}

/// A conversion review.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: Value,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    objects: Vec<Value>,
}

pub(super) fn converting(conversions: Conversions) -> Route {
    Arc::new(move |review| {
        let answer = answer(&conversions, review);
        async move { answer }.boxed()
    })
}

fn answer(conversions: &Conversions, review: Value) -> Result<Value, String> {
    let review: Review =
        serde_json::from_value(review).map_err(|error| format!("this is no review: {error}"))?;
    if review.kind != "ConversionReview" {
        return Err(format!("this is no ConversionReview but {:?}", review.kind));
    }
    let desired = &review.request.desired_api_version;
    let objects = review.request.objects.into_iter();
    let converted: Result<Vec<Value>, String> = objects
        .map(|object| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            conversions
                .convert(object, desired)
                .map_err(|why| format!("{name}: {why}"))
        })
        .collect();
    // As in Kubernetes: all of them, or none.
    let (objects, result) = match converted {
        Ok(objects) => (objects, json!({"status": "Success"})),
        Err(why) => (Vec::new(), json!({"status": "Failure", "message": why})),
    };
    Ok(json!({
        "apiVersion": review.api_version,
        "kind": review.kind,
        "response": {"uid": review.request.uid, "convertedObjects": objects, "result": result},
    }))
}
