//! The parameter objects of a policy binding.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_meta::{GroupVersionKind, LabelSelector, Status};

use super::policy::Policy;
use crate::Registry;
use crate::definition::Definition;

/// Parameter objects, `None` for a policy that takes none. The error is left to the failure policy.
type Parameters = Result<Option<Vec<Value>>, Misconfigured>;

/// The reason for which there are no parameters, by what would have to be changed.
#[derive(Debug)]
pub(super) enum Misconfigured {
    Policy(String),
    Binding(&'static str),
}

impl Misconfigured {
    /// True if errors name the binding beside the policy.
    pub(super) fn names_binding(&self) -> bool {
        matches!(self, Self::Binding(_))
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::Policy(why) => format!("failed to configure policy: {why}"),
            Self::Binding(why) => format!("failed to configure binding: {why}"),
        }
    }
}

impl Registry {
    /// The parameters of a policy for a write in a namespace.
    pub(super) fn parameters<'a>(
        &'a self,
        policy: &'a Policy,
        reference: &'a Value,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Parameters, Status>> {
        Box::pin(async move {
            let Some((api_version, kind)) = policy.parameter_kind.as_ref() else {
                return Ok(Ok(None));
            };
            let Some(definition) = self.catalog().of_kind(api_version, kind) else {
                let wanted = GroupVersionKind::from_api_version(api_version, kind);
                let wanted = wanted.map_or_else(|error| error.to_string(), |wanted| wanted.to_string());
                let why = format!("failed to find resource referenced by paramKind: '{wanted}'");
                return Ok(Err(Misconfigured::Policy(why)));
            };
            if reference.is_null() {
                return Ok(Ok(None));
            }
            let namespace = match namespace_of(&definition, reference, namespace) {
                Ok(namespace) => namespace,
                Err(why) => return Ok(Err(Misconfigured::Binding(why))),
            };
            let found = self.referenced(&definition, namespace, reference).await?;
            let denies = reference["parameterNotFoundAction"] == "Deny";
            let missing = "no params found for policy binding with `Deny` parameterNotFoundAction";
            Ok(match found.is_empty() && denies {
                true => Err(Misconfigured::Binding(missing)),
                false => Ok(Some(found)),
            })
        })
    }

    /// The objects that a reference names or selects.
    async fn referenced(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        reference: &Value,
    ) -> Result<Vec<Value>, Status> {
        if let Some(name) = reference["name"].as_str().filter(|name| !name.is_empty()) {
            let found = self.find(definition, namespace, name).await?;
            let found = found.map(|found| found.to_value(definition)).transpose()?;
            return Ok(found.into_iter().collect());
        }
        let selector = LabelSelector::from_json(&reference["selector"]).unwrap_or_default();
        let mut all = self.all_values(definition).await?;
        all.retain(|object| {
            let metadata = &object["metadata"];
            let is_there = namespace.is_empty() || metadata["namespace"] == namespace;
            is_there && selector.matches(&metadata["labels"])
        });
        Ok(all)
    }
}

/// The namespace of the parameters; empty for cluster-scoped ones.
fn namespace_of<'a>(
    definition: &Definition,
    reference: &'a Value,
    written: &'a str,
) -> Result<&'a str, &'static str> {
    let stated = reference["namespace"].as_str().unwrap_or_default();
    match (definition.is_namespaced(), stated) {
        (false, "") => Ok(""),
        (false, _) => Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`"),
        (true, "") if written.is_empty() => {
            Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
        }
        (true, "") => Ok(written),
        (true, stated) => Ok(stated),
    }
}
