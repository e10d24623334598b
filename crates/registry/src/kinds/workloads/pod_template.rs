//! Pod templates that stand alone.

use super::super::{Hooks, PLAIN};
use super::default_template;
use super::template_rules::check_template;

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: default_template,
    check: |template, faults| check_template(&template.field("template"), Vec::new(), faults),
    ..PLAIN
};
