//! Replica sets: so many pods of one template.

use super::super::defaulting::{fill, object_mut};
use super::super::{Hooks, PLAIN};
use super::default_template;

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |set| {
        if let Some(spec) = object_mut(set, "spec") {
            fill(spec, "replicas", 1);
            default_template(spec);
        }
    },
    ..PLAIN
};
