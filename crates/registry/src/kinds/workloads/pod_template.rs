//! Pod templates that stand alone.

use super::super::place::Place;
use super::super::{Hooks, PLAIN};
use super::default_template;
use super::template_rules::check_template;

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: default_template,
    faults: |template| {
        let mut faults = Vec::new();
        check_template(&Place::object(template).field("template"), &mut faults);
        faults
    },
    ..PLAIN
};
