//! Sets the condition `Dangling` of flow schemas, as the API Priority and Fairness controller does.

use futures_util::future::BoxFuture;
use serde_json::json;
use watchkeeper_kinds::{Condition, Part, builtin};
use watchkeeper_meta::Status;

use super::{Configuration, Target, Write};
use crate::context::{WriteContext, timestamp};
use crate::definition::Definition;
use crate::{Registry, metadata};

/// The field manager of the conditions.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// True if a write of this resource can change the conditions.
pub(super) fn are_affected_by(definition: &Definition) -> bool {
    definition.is(&builtin::FLOW_SCHEMA) || definition.is(&builtin::PRIORITY_LEVEL_CONFIGURATION)
}

impl Registry {
    /// Updates the condition of every flow schema.
    pub(crate) fn settle_flow_schemas<'a>(&'a self) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let schemas = self.builtin(&builtin::FLOW_SCHEMA)?;
            let levels = self.builtin(&builtin::PRIORITY_LEVEL_CONFIGURATION)?;
            let levels = self.all_values(&levels).await?;
            let context = WriteContext::by_server(MANAGER);
            for schema in self.all_values(&schemas).await? {
                let wanted = schema["spec"]["priorityLevelConfiguration"]["name"].as_str();
                let wanted = wanted.unwrap_or_default();
                let is_there = levels.iter().any(|level| metadata::text(level, "name") == wanted);
                let named = format!(
                    "This FlowSchema references the PriorityLevelConfiguration object named {wanted:?}"
                );
                let (status, reason, end) = match is_there {
                    true => ("False", "Found", "and it exists"),
                    false => ("True", "NotFound", "but there is no such object"),
                };
                let condition = Condition {
                    kind: "Dangling",
                    status,
                    reason,
                    message: &format!("{named} {end}"),
                };
                let mut known = schema["status"]["conditions"].as_array().into_iter().flatten();
                let known = known.find(|known| known["type"] == condition.kind);
                if known.is_some_and(|known| condition.equals(known)) {
                    continue;
                }
                let condition = condition.following(known, &timestamp(self.clock().now()));
                let name = metadata::text(&schema, "name");
                let target = Target::new(&schemas, "", name, Part::Status);
                let config = Configuration {
                    value: json!({
                        "apiVersion": schemas.api_version,
                        "kind": schemas.resource.kind,
                        "metadata": {"name": name},
                        "status": {"conditions": [condition]},
                    }),
                    untidy: None,
                };
                match Write::unguarded(self, target, &context).apply(config, true).await {
                    Err(status) if !status.is_not_found() => return Err(status),
                    _ => {}
                }
            }
            Ok(())
        })
    }
}
