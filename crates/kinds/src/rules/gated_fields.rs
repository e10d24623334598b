//! Fields of features that are off by default in Kubernetes 1.37: what a client sends for them is dropped, without an
//! error, as kube-apiserver drops them. Those of resource slices are not here: they are validated and kept.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::Value;
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::{Schema, Shape, TypeId};

use crate::rules::schema_plan::inner_type;

/// The fields by type, each under the gate that turns it on.
const OFF: &[(&str, &[&str])] = &[
    // AtomicWriteVolumeUserFields
    ("core/v1.ConfigMapVolumeSource", &["defaultUser"]),
    ("core/v1.DownwardAPIVolumeSource", &["defaultUser"]),
    ("core/v1.ProjectedVolumeSource", &["defaultUser"]),
    ("core/v1.SecretVolumeSource", &["defaultUser"]),
    ("core/v1.KeyToPath", &["user"]),
    ("core/v1.DownwardAPIVolumeFile", &["user"]),
    ("core/v1.ServiceAccountTokenProjection", &["user"]),
    ("core/v1.ClusterTrustBundleProjection", &["user"]),
    ("core/v1.PodCertificateProjection", &["user"]),
    // ContainerStopSignals
    ("core/v1.Lifecycle", &["stopSignal"]),
    // CoordinatedLeaderElection
    ("coordination/v1.LeaseSpec", &["preferredHolder", "strategy"]),
    // DRADerivedAttributes
    ("resource/v1.DeviceSubRequest", &["derivedAttributes"]),
    ("resource/v1.ExactDeviceRequest", &["derivedAttributes"]),
    // DRADeviceCompatibilityGroups
    ("resource/v1.DeviceCounterConsumption", &["compatibilityGroups"]),
    // EmptyDirVolumeMode
    ("core/v1.EmptyDirVolumeSource", &["mode"]),
    // EvictionRequestAPI, GenericWorkload
    ("core/v1.PodSpec", &["evictionResponders", "schedulingGroup"]),
    // GRPCContainerProbeTLS
    ("core/v1.GRPCAction", &["mode"]),
    // H2CContainerProbe
    ("core/v1.HTTPGetAction", &["protocol"]),
    // VolumeBindMountOptions
    ("core/v1.VolumeMount", &["bindMountOptions"]),
    // WorkloadWithJob
    ("batch/v1.JobSpec", &["scheduling"]),
];

/// A type with such fields, or one that leads to them.
#[derive(Default)]
struct Plan {
    dropped: Vec<&'static str>,
    leading: Vec<(&'static str, &'static Shape)>,
}

static PLANS: LazyLock<HashMap<TypeId, Plan>> = LazyLock::new(|| {
    let schema = Schema::builtin();
    let mut plans: HashMap<TypeId, Plan> = HashMap::new();
    for (name, fields) in OFF {
        if let Some(id) = schema.type_named(name) {
            plans.entry(id).or_default().dropped.extend(*fields);
        }
    }
    let leads = leading_types(schema, plans.keys().copied().collect());
    for id in &leads {
        let fields = schema.fields(*id).into_iter();
        let leading =
            fields.filter(|field| inner_type(&field.shape).is_some_and(|inner| leads.contains(&inner)));
        let leading = leading.map(|field| (&*field.name, &field.shape));
        plans.entry(*id).or_default().leading.extend(leading);
    }
    plans
});

/// These types, and all from which one gets to them.
fn leading_types(schema: &'static Schema, targets: HashSet<TypeId>) -> HashSet<TypeId> {
    let mut leading = targets;
    loop {
        let leads = |id: &TypeId| {
            let fields = schema.fields(*id).into_iter();
            let mut inner = fields.filter_map(|field| inner_type(&field.shape));
            !leading.contains(id) && inner.any(|inner| leading.contains(&inner))
        };
        let more: Vec<TypeId> = schema.types().map(|(id, _)| id).filter(leads).collect();
        if more.is_empty() {
            return leading;
        }
        leading.extend(more);
    }
}

/// Drops these fields where an object differs from one that has none. Other schemas than the built-in one have none.
pub(crate) fn drop_from(schema: &Schema, id: TypeId, object: &mut Value, difference: &Difference) {
    let Some(plan) = PLANS.get(&id).filter(|_| std::ptr::eq(schema, Schema::builtin())) else {
        return;
    };
    let Some(fields) = object.as_object_mut().filter(|_| !difference.is_nowhere()) else {
        return;
    };
    for name in &plan.dropped {
        fields.remove(*name);
    }
    for (name, shape) in &plan.leading {
        let below = difference.member(name);
        if !below.is_nowhere()
            && let Some(value) = fields.get_mut(*name)
        {
            enter(schema, shape, value, below);
        }
    }
}

fn enter(schema: &Schema, shape: &Shape, value: &mut Value, difference: &Difference) {
    match (shape, value) {
        (Shape::Struct(id), value) => drop_from(schema, *id, value, difference),
        (Shape::List(item) | Shape::ListMessage(item), Value::Array(items)) => {
            for (index, value) in items.iter_mut().enumerate() {
                enter(schema, item, value, difference.item(index));
            }
        }
        (Shape::Map(item), Value::Object(entries)) => {
            for (key, value) in entries {
                enter(schema, item, value, difference.member(key));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_gated_field_is_in_the_schema() {
        let schema = Schema::builtin();
        for (name, fields) in OFF {
            let id = schema.type_named(name).unwrap_or_else(|| panic!("{name}"));
            for field in *fields {
                assert!(schema.field(id, field).is_some(), "{name}.{field}");
            }
        }
    }

    #[test]
    fn fields_of_features_that_are_off_are_dropped() {
        let schema = Schema::builtin();
        let drop = |name: &str, mut object: Value| {
            let id = schema.type_named(name).unwrap();
            drop_from(schema, id, &mut object, &Difference::Everywhere);
            object
        };
        let device = json!({"deviceClassName": "c"});
        let mut derived = device.clone();
        derived["derivedAttributes"] = json!([{"name": "a.b/c", "expression": "1"}]);
        let claim = |device: &Value| json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": device, "firstAvailable": [device]}]}}});
        assert_eq!(drop("resource/v1.ResourceClaim", claim(&derived)), claim(&device));
        let template = drop(
            "apps/v1.Deployment",
            json!({"spec": {"template": {"spec": {"volumes": [{"emptyDir": {"mode": 511}, "mode": 1}]}}}}),
        );
        assert_eq!(
            template["spec"]["template"]["spec"]["volumes"][0],
            json!({"emptyDir": {}, "mode": 1})
        );
    }
}
