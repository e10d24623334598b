//! Controller revisions: old states of stateful and daemon sets, which never change.

use super::super::place::Place;
use super::super::{Hooks, PLAIN};
use super::immutable;

pub(in super::super) const HOOKS: Hooks = Hooks {
    faults: |revision| {
        let mut faults = Vec::new();
        let revision = Place::object(revision);
        if !revision.field("data").is_set() {
            faults.push(revision.field("data").required("data is mandatory"));
        }
        revision.field("revision").must_not_be_negative(&mut faults);
        faults
    },
    update_faults: |_, revision, live| immutable(revision, live, &["data"]),
    ..PLAIN
};
