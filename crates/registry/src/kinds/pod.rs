//! Pods.

use serde_json::json;

use super::{Hooks, PLAIN};

pub(super) const HOOKS: Hooks = Hooks {
    prepare_for_create: |pod| pod["status"] = json!({"phase": "Pending"}),
    ..PLAIN
};
