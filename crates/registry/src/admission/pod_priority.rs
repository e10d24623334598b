//! The Priority plugin: sets a pod's priority from its class.

use serde_json::{Value, json};
use watchkeeper_kinds::builtin;
use watchkeeper_meta::{ListOptions, Status};

use crate::definition::Definition;
use crate::{Registry, metadata};

impl Registry {
    /// Sets the priority of a new pod: that of its class, of the default class, or none.
    pub(super) async fn prioritize(&self, definition: &Definition, pod: &mut Value) -> Result<(), Status> {
        let refuse = |pod: &Value, why: String| {
            let name = metadata::text(pod, "name");
            Status::forbidden(&definition.group_resource(), name, why)
        };
        let class = match pod["spec"]["priorityClassName"]
            .as_str()
            .filter(|name| !name.is_empty())
        {
            Some(name) => match self.priority_class(name).await? {
                Some(class) => class,
                None => {
                    let why = format!("no PriorityClass with name {name} was found");
                    return Err(refuse(pod, why));
                }
            },
            None => self.default_priority_class().await?.unwrap_or_default(),
        };
        let value = class["value"].as_i64().unwrap_or_default();
        if pod["spec"]["priority"]
            .as_i64()
            .is_some_and(|stated| stated != value)
        {
            let stated = &pod["spec"]["priority"];
            let why = format!(
                "the integer value of priority ({stated}) must not be provided in pod spec; priority admission \
                 controller computed {value} from the given PriorityClass name"
            );
            return Err(refuse(pod, why));
        }
        if let Some(name) = class["metadata"]["name"].as_str() {
            pod["spec"]["priorityClassName"] = json!(name);
        }
        pod["spec"]["priority"] = json!(value);
        let policy = class["preemptionPolicy"]
            .as_str()
            .unwrap_or("PreemptLowerPriority");
        if let Some(stated) = pod["spec"]["preemptionPolicy"]
            .as_str()
            .filter(|stated| *stated != policy)
        {
            let why = format!(
                "the string value of PreemptionPolicy ({stated}) must not be provided in pod spec; priority \
                 admission controller computed {policy} from the given PriorityClass name"
            );
            return Err(refuse(pod, why));
        }
        pod["spec"]["preemptionPolicy"] = json!(policy);
        Ok(())
    }

    /// Refuses a second class that is the default.
    pub(super) async fn check_default_class(
        &self,
        definition: &Definition,
        class: &Value,
        is_new: bool,
    ) -> Result<(), Status> {
        if !definition.is(&builtin::PRIORITY_CLASS) || class["globalDefault"] != true {
            return Ok(());
        }
        let name = metadata::text(class, "name");
        match self.default_priority_class().await? {
            Some(default) if is_new || metadata::text(&default, "name") != name => {
                let default = metadata::text(&default, "name");
                let why = format!(
                    "PriorityClass {default} is already marked as default. Only one default can exist"
                );
                Err(Status::forbidden(&definition.group_resource(), name, why))
            }
            _ => Ok(()),
        }
    }

    async fn priority_class(&self, name: &str) -> Result<Option<Value>, Status> {
        let definition = self.builtin(&builtin::PRIORITY_CLASS)?;
        let found = self.find(&definition, "", name).await?;
        found.map(|found| found.to_value(&definition)).transpose()
    }

    /// The default class; of several, the one with the lowest value.
    async fn default_priority_class(&self) -> Result<Option<Value>, Status> {
        let definition = self.builtin(&builtin::PRIORITY_CLASS)?;
        let mut lowest: Option<Value> = None;
        for class in self
            .list(&definition, "", &ListOptions::default())
            .await?
            .objects()
        {
            let class = class.to_value(&definition)?;
            let is_lower = lowest
                .as_ref()
                .is_none_or(|lowest| class["value"].as_i64() < lowest["value"].as_i64());
            if class["globalDefault"] == true && is_lower {
                lowest = Some(class);
            }
        }
        Ok(lowest)
    }
}
