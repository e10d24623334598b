//! Service accounts.

use super::{Hooks, PLAIN};

const MOUNTABLE_ONLY: &str = "kubernetes.io/enforce-mountable-secrets";

pub(super) const HOOKS: Hooks = Hooks {
    warn: |account, live, warnings| {
        let stated =
            |object: &serde_json::Value| object["metadata"]["annotations"].get(MOUNTABLE_ONLY).cloned();
        if stated(account).is_some() && live.and_then(stated) != stated(account) {
            warnings.add(format!(
                "metadata.annotations[{MOUNTABLE_ONLY}]: deprecated in v1.32+; prefer separate namespaces to \
                 isolate access to mounted secrets"
            ));
        }
    },
    ..PLAIN
};
