//! Feature gates: alpha features of Kubernetes, under kube-apiserver's names.

use std::str::FromStr;

use thiserror::Error;

const SHARDED_LIST_AND_WATCH: &str = "ShardedListAndWatch";

/// The features that are on. All are off by default, as in kube-apiserver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// Sharded lists and watches: `shardSelector`. While it is off, the parameter is ignored and responses have no
    /// shard information.
    pub sharded_list_and_watch: bool,
}

/// The reason feature gates are rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FeatureGateError {
    /// The gate is unknown.
    #[error("unrecognized feature gate: {0} (there is {SHARDED_LIST_AND_WATCH})")]
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
        };
        assert_eq!("ShardedListAndWatch=true".parse(), Ok(on));
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
