//! The parameter objects of a policy binding.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_meta::{LabelSelector, Status};

use super::policy::Policy;
use crate::Registry;
use crate::definition::Definition;

/// Parameter objects, `None` for a policy that takes none. The error is left to the failure policy.
type Parameters = Result<Option<Vec<Value>>, String>;

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
            if reference.is_null() {
                return Ok(Ok(None));
            }
            let Some(definition) = self.catalog().of_kind(api_version, kind) else {
                let why =
                    format!("failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'");
                return Ok(Err(why));
            };
            let stated = reference["namespace"].as_str().unwrap_or_default();
            let namespace = match (definition.is_namespaced(), stated) {
                (false, _) => "",
                (true, "") if namespace.is_empty() => {
                    return Ok(Err(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                        .to_owned(),
                ));
                }
                (true, "") => namespace,
                (true, stated) => stated,
            };
            let found = self.referenced(&definition, namespace, reference).await?;
            Ok(match (found.is_empty(), reference["parameterNotFoundAction"].as_str()) {
            (true, Some("Allow")) => Ok(Some(Vec::new())),
            (true, _) => Err(
                "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
                    .to_owned(),
            ),
            (false, _) => Ok(Some(found)),
        })
        })
    }

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
