//! ServiceAccount: an identity for pods.

use crate::kind::{Hooks, Kind, PLAIN};
use crate::table::Column;

const MOUNTABLE_ONLY: &str = "kubernetes.io/enforce-mountable-secrets";

/// The kind served as `serviceaccounts`.
pub static KIND: Kind = Kind {
    group: "",
    name: "ServiceAccount",
    plural: "serviceaccounts",
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[Column::NAME, Column::AGE];

const HOOKS: Hooks = Hooks {
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
