//! RuntimeClass: selects the container runtime of a pod.

use serde_json::json;
use watchkeeper_meta::validation::{FinalizerRule, dns1123_label, labels, short_name};

use crate::builtin::pod::{check_limits, check_tolerations, deprecated_label};
use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::place::Place;
use crate::table::Column;

/// The kind served as `runtimeclasses`.
pub static KIND: Kind = Kind {
    group: "node.k8s.io",
    name: "RuntimeClass",
    plural: "runtimeclasses",
    finalizers: FinalizerRule::AnyQualifiedName,
    creates_on_update: true,
    updates_unconditionally: false,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Handler", |row| json!(row.text("/handler"))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    check: |class, errors| {
        // Kubernetes validates the overhead as container limits, and errors use that path.
        let overhead = class.field("overhead");
        check_limits(&overhead.field("podFixed").known_as("limits"), errors);
        let scheduling = class.field("scheduling");
        let nodes = scheduling.field("nodeSelector");
        errors.append(labels(nodes.value(), &nodes.path()));
        check_tolerations(&scheduling.field("tolerations"), errors);
    },
    check_new: |class, errors| class.field("handler").must_be_set_and_keep(short_name, errors),
    check_change: |change, errors| {
        let (new, live) = (change.new.field("handler"), change.live.field("handler"));
        new.may_keep(dns1123_label, errors);
        new.must_stay_unshown(&live, errors);
        new.must_be_set(errors);
    },
    warn: |class, _, warnings| {
        let class = Place::object(class);
        let scheduling = class.field("scheduling");
        let nodes = scheduling.field("nodeSelector");
        for why in nodes.entries().filter_map(|(label, _)| deprecated_label(label)) {
            warnings.add(format!("{}: {why}", nodes.path()));
        }
    },
    ..PLAIN
};
