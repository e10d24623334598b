//! Pod templates that stand alone.

use super::super::{Hooks, PLAIN};
use super::default_template;

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: default_template,
    ..PLAIN
};
