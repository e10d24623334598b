//! What controllers tell people.

use serde_json::Value;
use watchkeeper_meta::Resource;

use crate::simulator::support::{Cluster, resource};

pub(crate) fn events() -> Resource {
    resource("", "events")
}

/// Waits for an Event: who tells, about what, why, and the beginning of its words.
pub(crate) async fn until_told(cluster: &Cluster, who: &str, about: &str, reason: &str, words: &str) {
    let (kind, name) = about.split_once('/').unwrap();
    let is_it = |event: &Value| {
        let object = &event["involvedObject"];
        event["source"]["component"] == who
            && event["reportingComponent"] == who
            && object["kind"] == kind
            && object["name"].as_str().unwrap().starts_with(name)
            && event["reason"] == reason
            && event["message"].as_str().unwrap().starts_with(words)
    };
    let what = format!("{who} tells of {about}: {reason} {words}");
    cluster
        .until(&events(), &what, |events| events.iter().any(is_it))
        .await;
}
