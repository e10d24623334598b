//! ResourceSlice: the devices of a node or pool. [`device`] validates a device, [`capacity`] how its capacity is
//! shared.

mod capacity;
mod device;
mod slice;

use serde_json::json;

use crate::fields::Selectable;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::items_mut;
use crate::rules::devices::{date_taint, warn_of_capitals};
use crate::rules::place::Place;
use crate::table::Column;

/// The kind served as `resourceslices`.
pub static KIND: Kind = Kind {
    group: "resource.k8s.io",
    name: "ResourceSlice",
    plural: "resourceslices",
    generation: Generation::Spec,
    delete_returns_object: true,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    unselectable: Some(|field| {
        format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}")
    }),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Node", |row| json!(row.text("/spec/nodeName"))),
    Column::text("Driver", |row| json!(row.text("/spec/driver"))),
    Column::text("Pool", |row| json!(row.text("/spec/pool/name"))),
    Column::AGE,
];

const SELECTABLE: &[Selectable] = &[
    Selectable::at("spec.nodeName", &["/spec/nodeName"]),
    Selectable::at("spec.driver", &["/spec/driver"]),
    Selectable::at("spec.pool.name", &["/spec/pool/name"]),
];

const HOOKS: Hooks = Hooks {
    date: |slice, now| {
        for device in items_mut(&mut slice["spec"], "devices") {
            items_mut(device, "taints").for_each(|taint| date_taint(Some(taint), now));
        }
    },
    check_new: |slice, errors| slice::check(&slice.field("spec"), None, errors),
    check_change: |change, errors| {
        slice::check(
            &change.new.field("spec"),
            Some(&change.live.field("spec")),
            errors,
        );
    },
    warn: |slice, _, warnings| {
        let slice = Place::object(slice);
        warn_of_capitals(&slice.field("spec").field("driver"), warnings);
    },
    ..PLAIN
};
