//! Runtime classes: what runs a pod's containers.

use watchkeeper_meta::validation::dns1123_label;

use super::{Hooks, PLAIN};

pub(super) const HOOKS: Hooks = Hooks {
    check: |class, faults| class.field("handler").must_keep(dns1123_label, faults),
    check_change: |change, faults| {
        let (new, live) = (change.new.field("handler"), change.live.field("handler"));
        new.must_stay(&live, faults);
    },
    ..PLAIN
};
