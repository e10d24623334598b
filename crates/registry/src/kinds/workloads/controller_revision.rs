//! Controller revisions: old states of stateful and daemon sets, which never change.

use super::super::{Hooks, PLAIN};

pub(in super::super) const HOOKS: Hooks = Hooks {
    check: |revision, faults| {
        let data = revision.field("data");
        if !data.is_set() {
            faults.push(data.required("data is mandatory"));
        }
        revision.field("revision").must_not_be_negative(faults);
    },
    check_change: |change, faults| {
        let (new, live) = (change.new.field("data"), change.live.field("data"));
        new.must_stay(&live, faults);
    },
    ..PLAIN
};
