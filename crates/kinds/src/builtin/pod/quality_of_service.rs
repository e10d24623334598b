//! The QoS class of a pod, derived from the requests and limits of its containers.

use serde_json::Value;
use watchkeeper_wire::values::Quantity;

/// The resources that decide the class.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// `BestEffort`, `Burstable` or `Guaranteed`, as a pod's status names it.
pub(crate) fn of(spec: &Value) -> &'static str {
    let pod_level = &spec["resources"];
    let resources: Vec<&Value> = if asks_for_anything(pod_level) {
        vec![pod_level]
    } else {
        let containers = ["containers", "initContainers"].map(|list| spec[list].as_array());
        let containers = containers.into_iter().flatten().flatten();
        containers.map(|container| &container["resources"]).collect()
    };
    if !resources.iter().any(|resources| asks_for_anything(resources)) {
        "BestEffort"
    } else if resources
        .iter()
        .all(|resources| takes_what_it_asks_for(resources))
    {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn asks_for_anything(resources: &Value) -> bool {
    let lists = ["requests", "limits"];
    lists.iter().any(|list| {
        COUNTED
            .iter()
            .any(|name| amount(&resources[list][name]).is_some())
    })
}

fn takes_what_it_asks_for(resources: &Value) -> bool {
    COUNTED.iter().all(|name| {
        let limit = amount(&resources["limits"][name]);
        limit.is_some() && limit == amount(&resources["requests"][name])
    })
}

/// An amount greater than zero.
fn amount(value: &Value) -> Option<Quantity> {
    let quantity: Quantity = value.as_str()?.parse().ok()?;
    (!quantity.is_zero() && !quantity.is_negative()).then_some(quantity)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn quality_follows_from_requests_and_limits() {
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}});
        let some = json!({"requests": {"cpu": "1"}});
        for (containers, quality) in [
            (json!([{}]), "BestEffort"),
            (json!([{"resources": {"requests": {"cpu": "0"}}}]), "BestEffort"),
            (
                json!([{"resources": {"limits": {"example.com/gpu": "1"}}}]),
                "BestEffort",
            ),
            (json!([{"resources": some}]), "Burstable"),
            (json!([{"resources": full}, {}]), "Burstable"),
            (json!([{"resources": full}, {"resources": full}]), "Guaranteed"),
        ] {
            assert_eq!(
                super::of(&json!({"containers": containers})),
                quality,
                "{containers}"
            );
        }
        let pod_level = json!({"resources": full, "containers": [{}]});
        assert_eq!(super::of(&pod_level), "Guaranteed");
    }
}
