//! What simulated pods use of a node's CPU and memory. Annotations say so; without them, each container uses half of
//! what it requests, or a little.

use serde_json::Value;
use watchkeeper_wire::values::Quantity;

use crate::item::Item;

/// How much CPU each container of a pod uses.
const CPU: &str = "simulator.watchkeeper/cpu-usage";
/// How much memory each container of a pod uses.
const MEMORY: &str = "simulator.watchkeeper/memory-usage";

/// A little CPU, in thousandths.
const LITTLE_CPU: i64 = 1;
/// A little memory, in thousandths of bytes.
const LITTLE_MEMORY: i64 = (16 << 20) * 1000;

/// How much of a resource a container uses, in thousandths; nothing is known of other resources.
pub(crate) fn of_container(pod: &Item, container: &Value, resource: &str) -> Option<i64> {
    let (annotation, little) = match resource {
        "cpu" => (CPU, LITTLE_CPU),
        "memory" => (MEMORY, LITTLE_MEMORY),
        _ => return None,
    };
    let stated = pod.annotation(annotation).and_then(|text| milli(&text));
    let requested = request(container, resource).map(|amount| amount / 2);
    stated.or(requested).or(Some(little))
}

/// How much of a resource a container requests, in thousandths.
pub(crate) fn request(container: &Value, resource: &str) -> Option<i64> {
    milli(container["resources"]["requests"][resource].as_str()?)
}

/// An amount in thousandths.
pub(crate) fn milli(text: &str) -> Option<i64> {
    text.parse::<Quantity>().ok()?.to_milli()
}
