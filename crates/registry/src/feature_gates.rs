//! Feature gates: features of Kubernetes that can be turned on or off, under kube-apiserver's names.

use std::str::FromStr;

use thiserror::Error;

const SHARDED_LIST_AND_WATCH: &str = "ShardedListAndWatch";
const WATCH_LIST_COMPRESSION: &str = "WatchListCompression";

/// The features that are on; the defaults are those of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// Sharded lists and watches: `shardSelector`. While it is off, the parameter is ignored and responses have no
    /// shard information. Off by default.
    pub sharded_list_and_watch: bool,
    /// Watches that begin with the existing objects are compressed for clients that accept gzip. On by default.
    pub watch_list_compression: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            sharded_list_and_watch: false,
            watch_list_compression: true,
        }
    }
}

/// The reason feature gates are rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FeatureGateError {
    /// The gate is unknown.
    #[error("unrecognized feature gate: {0} (there are {SHARDED_LIST_AND_WATCH}, {WATCH_LIST_COMPRESSION})")]
    Unknown(String),
    /// The value is neither true nor false.
    #[error("invalid value of feature gate {0}: it must be {0}=true or {0}=false")]
    Value(String),
}

impl FeatureGates {
    /// Applies one setting: `Name=true`.
    pub fn set(&mut self, setting: &str) -> Result<(), FeatureGateError> {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let gate = match name.trim() {
            SHARDED_LIST_AND_WATCH => &mut self.sharded_list_and_watch,
            WATCH_LIST_COMPRESSION => &mut self.watch_list_compression,
            name => return Err(FeatureGateError::Unknown(name.to_owned())),
        };
        let invalid = |_| FeatureGateError::Value(name.trim().to_owned());
        *gate = value.trim().parse().map_err(invalid)?;
        Ok(())
    }
}

/// Parses comma-separated settings.
impl FromStr for FeatureGates {
    type Err = FeatureGateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut gates = Self::default();
        for setting in text.split(',').filter(|setting| !setting.trim().is_empty()) {
            gates.set(setting)?;
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_set_as_kube_apiserver_sets_them() {
        let on = FeatureGates {
            sharded_list_and_watch: true,
            watch_list_compression: false,
        };
        assert_eq!(
            "ShardedListAndWatch=true,WatchListCompression=false".parse(),
            Ok(on)
        );
        assert_eq!(
            "ShardedListAndWatch=true,ShardedListAndWatch=false".parse(),
            Ok(FeatureGates::default())
        );
        assert_eq!("".parse(), Ok(FeatureGates::default()));
    }

    #[test]
    fn unknown_gates_and_values_are_rejected() {
        let refused = |text: &str| text.parse::<FeatureGates>().unwrap_err().to_string();
        assert!(refused("Nonsense=true").starts_with("unrecognized feature gate: Nonsense"));
        assert!(refused("ShardedListAndWatch").contains("must be ShardedListAndWatch=true"));
        assert!(refused("ShardedListAndWatch=perhaps").contains("invalid value"));
    }
}
