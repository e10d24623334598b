//! Sets the condition `Dangling` of flow schemas, as the API Priority and Fairness controller does.

use serde_json::{Value, json};
use watchkeeper_kinds::{Part, builtin};
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
    pub(crate) async fn settle_flow_schemas(&self) -> Result<(), Status> {
        let schemas = self.builtin(&builtin::FLOW_SCHEMA)?;
        let levels = self.builtin(&builtin::PRIORITY_LEVEL_CONFIGURATION)?;
        let levels = self.all_values(&levels).await?;
        let context = WriteContext::by_server(MANAGER);
        for schema in self.all_values(&schemas).await? {
            let wanted = schema["spec"]["priorityLevelConfiguration"]["name"].as_str();
            let wanted = wanted.unwrap_or_default();
            let is_there = levels.iter().any(|level| metadata::text(level, "name") == wanted);
            let condition = condition(wanted, is_there);
            let Some(condition) = changed(&schema, condition, &timestamp(self.clock().now())) else {
                continue;
            };
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
    }
}

fn condition(level: &str, is_there: bool) -> Value {
    let named = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    match is_there {
        true => json!({
            "type": "Dangling", "status": "False", "reason": "Found", "message": format!("{named} and it exists"),
        }),
        false => json!({
            "type": "Dangling", "status": "True", "reason": "NotFound",
            "message": format!("{named} but there is no such object"),
        }),
    }
}

/// The condition with its transition time; `None` if the schema has it already.
fn changed(schema: &Value, mut condition: Value, now: &str) -> Option<Value> {
    let conditions = schema["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions
        .into_iter()
        .find(|found| found["type"] == condition["type"]);
    let is_same = |found: &Value| {
        let fields = ["status", "reason", "message"];
        fields.iter().all(|field| found[*field] == condition[*field])
    };
    if found.is_some_and(is_same) {
        return None;
    }
    let since = found.filter(|found| found["status"] == condition["status"]);
    let since = since.map(|found| found["lastTransitionTime"].clone());
    condition["lastTransitionTime"] = since.unwrap_or_else(|| json!(now));
    Some(condition)
}
