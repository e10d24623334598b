//! Leases: who leads, and for how long.

use watchkeeper_meta::{FieldError, FieldPath};

use super::check::text;
use super::formats::not_negative;
use super::{Hooks, PLAIN};

pub(super) const HOOKS: Hooks = Hooks {
    faults: |lease| {
        let spec = FieldPath::new("spec");
        let mut faults = Vec::new();
        let field = |name: &str| &lease["spec"][name];
        if let Some(seconds) = field("leaseDurationSeconds").as_i64()
            && seconds <= 0
        {
            let path = spec.child("leaseDurationSeconds");
            faults.push(FieldError::invalid(&path, seconds, "must be greater than 0"));
        }
        let name = "leaseTransitions";
        not_negative(&mut faults, &spec.child(name), field(name));
        let is_preferred = !text(lease, "/spec/preferredHolder").is_empty();
        if is_preferred && text(lease, "/spec/strategy").is_empty() {
            let why = "may only be specified when strategy is defined";
            faults.push(FieldError::forbidden(&spec.child("preferredHolder"), why));
        }
        faults
    },
    ..PLAIN
};
