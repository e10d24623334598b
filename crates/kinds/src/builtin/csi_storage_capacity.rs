//! CSIStorageCapacity: the storage available for a class in one topology segment.

use watchkeeper_meta::validation::dns1123_subdomain;

use crate::builtin::pod::{deprecated_label, warn_of_old_keys};
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::place::{Errors, Place};
use crate::table::Column;

/// The kind served as `csistoragecapacities`.
pub static KIND: Kind = Kind {
    group: "storage.k8s.io",
    name: "CSIStorageCapacity",
    plural: "csistoragecapacities",
    updates_unconditionally: false,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[Column::NAME, Column::CREATED_AT];

const HOOKS: Hooks = Hooks {
    check,
    check_change,
    warn: |capacity, _, warnings| {
        let capacity = Place::object(capacity);
        let nodes = capacity.field("nodeTopology");
        warn_of_old_keys(&nodes, warnings);
        let labels = nodes.field("matchLabels");
        for (label, _) in labels.entries() {
            if let Some(why) = deprecated_label(label) {
                // This path names the label as a field, not as a key.
                warnings.add(format!("{}: {why}", labels.field(label).path()));
            }
        }
    },
    ..PLAIN
};

fn check(capacity: &Place<'_, '_>, errors: &mut Errors) {
    capacity.field("nodeTopology").must_select(errors);
    let class = capacity.field("storageClassName");
    let reasons = dns1123_subdomain(class.text()).into_iter();
    errors.extend(reasons.map(|why| class.invalid_for(class.text(), why)));
    capacity.field("capacity").must_not_be_negative_quantity(errors);
    capacity
        .field("maximumVolumeSize")
        .must_not_be_negative_quantity(errors);
}

/// Checks an update: the storage class and the topology are immutable.
fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (topology, live) = (
        change.new.field("nodeTopology"),
        change.live.field("nodeTopology"),
    );
    topology.must_stay(&live, errors);
    let (class, live) = (
        change.new.field("storageClassName"),
        change.live.field("storageClassName"),
    );
    if class.text() != live.text() {
        errors.push(class.invalid_for(class.text(), "field is immutable"));
    }
}
