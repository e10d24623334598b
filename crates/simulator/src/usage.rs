//! The simulated CPU and memory usage of pods. Annotations define it; without them, each container uses half of its
//! request, or a minimum.

use serde_json::Value;
use watchkeeper_wire::values::Quantity;

use crate::item::Item;

/// The CPU usage of each container of a pod.
const CPU: &str = "simulator.watchkeeper/cpu-usage";
/// The memory usage of each container of a pod.
const MEMORY: &str = "simulator.watchkeeper/memory-usage";

/// The minimum CPU usage, in thousandths.
const LITTLE_CPU: i64 = 1;
/// The minimum memory usage, in thousandths of bytes.
const LITTLE_MEMORY: i64 = (16 << 20) * 1000;

/// The usage of a container, in thousandths; `None` for other resources.
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

/// The request of a container, in thousandths.
pub(crate) fn request(container: &Value, resource: &str) -> Option<i64> {
    milli(container["resources"]["requests"][resource].as_str()?)
}

/// A quantity in thousandths.
pub(crate) fn milli(text: &str) -> Option<i64> {
    text.parse::<Quantity>().ok()?.to_milli()
}
