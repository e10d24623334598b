//! Runtime classes: what runs a pod's containers.

use watchkeeper_meta::FieldPath;
use watchkeeper_meta::validation::dns1123_label;

use super::check::{immutable, text};
use super::formats::each;
use super::{Hooks, PLAIN};

pub(super) const HOOKS: Hooks = Hooks {
    faults: |class| {
        let mut faults = Vec::new();
        let handler = text(class, "/handler");
        each(
            &mut faults,
            &FieldPath::new("handler"),
            handler,
            dns1123_label(handler),
        );
        faults
    },
    update_faults: |_, class, live| {
        let mut faults = Vec::new();
        immutable(
            &mut faults,
            &FieldPath::new("handler"),
            &class["handler"],
            &live["handler"],
        );
        faults
    },
    ..PLAIN
};
