//! APIServices for the aggregation layer of a server: reads, follows and registers them, and sets their condition.
//!
//! | label `automanaged` | meaning |
//! |---|---|
//! | `onstart` | a built-in group version; created and corrected when a server starts |
//! | `true` | a group version of custom kinds; created and corrected always, deleted with its last kind |
//! | none | a user's own; never touched |
//!
//! The rules are those of kube-aggregator's autoregister controller.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{select_all, try_join_all};
use serde_json::{Value, json};
use watchkeeper_kinds::{Condition, Kind, Part, builtin};
use watchkeeper_meta::{DeleteOptions, Status};
use watchkeeper_storage::{Feed, ReadError};

use crate::context::{WriteContext, timestamp};
use crate::object::Live;
use crate::reader::Reader;
use crate::write::{DeleteAdmission, Managed, Proposal, Target, Write};
use crate::{Registry, metadata};

/// The label that names the maintainer of an APIService.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
const ON_START: &str = "onstart";
const ALWAYS: &str = "true";

/// The manager in managed fields.
const MANAGER: &str = "kube-apiserver";

/// A group version that the server serves itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The priority of the group among groups, highest first.
    pub group_priority: i32,
    /// The priority of the version within its group, highest first.
    pub version_priority: i32,
    /// True if it consists of custom resources.
    pub is_custom: bool,
}

impl Registration {
    fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    fn label(&self) -> &'static str {
        match self.is_custom {
            true => ALWAYS,
            false => ON_START,
        }
    }

    fn spec(&self) -> Value {
        let mut spec = json!({
            "version": self.version,
            "groupPriorityMinimum": self.group_priority,
            "versionPriority": self.version_priority,
        });
        if !self.group.is_empty() {
            spec["group"] = json!(self.group);
        }
        spec
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": builtin::API_SERVICE.name,
            "metadata": {"name": self.name(), "labels": {AUTOMANAGED: self.label()}},
            "spec": self.spec(),
        })
    }
}

/// Reports changes to objects of some kinds.
pub struct Changes(Vec<Feed>);

impl Changes {
    /// Waits for the next change. Cancel safe. `None` if the store is closed.
    pub async fn next(&mut self) -> Option<()> {
        let waiting = self.0.iter_mut().map(|feed| {
            Box::pin(async move {
                match feed.next().await {
                    Ok(_) => Some(()),
                    Err(ReadError::Compacted { .. }) => {
                        feed.skip_dropped();
                        Some(())
                    }
                    Err(_) => None,
                }
            })
        });
        pin!(select_all(waiting)).await.0
    }
}

impl Reader {
    /// Follows the objects of some kinds from now on.
    fn changes(&self, kinds: &[&'static Kind]) -> Result<Changes, Status> {
        let after = self.store().current_revision();
        let feeds = kinds.iter().map(|kind| {
            let feed = self.store().watch(&self.builtin(kind)?.prefix(""), after);
            feed.map_err(Status::internal_error)
        });
        Ok(Changes(feeds.collect::<Result<_, _>>()?))
    }

    /// Follows APIServices.
    pub fn api_service_changes(&self) -> Result<Changes, Status> {
        self.changes(&[&builtin::API_SERVICE])
    }

    /// Follows Services and their endpoints, which determine the addresses of services.
    pub fn service_changes(&self) -> Result<Changes, Status> {
        self.changes(&[&builtin::SERVICE, &builtin::ENDPOINT_SLICE])
    }

    /// All APIServices. Those that did not change since the last call are not parsed again: every new custom kind asks.
    pub async fn api_services(&self) -> Result<Vec<Arc<Value>>, Status> {
        let definition = self.builtin(&builtin::API_SERVICE)?;
        let mut known = self.known_api_services().lock().await;
        known.refresh(self, &definition).await?;
        Ok(known.iter().cloned().collect())
    }
}

impl Registry {
    /// Creates, corrects and deletes the APIServices of the group versions that the server serves. `at_start` is true
    /// once per server; then those of built-in groups are included.
    pub async fn register_api_services(&self, wanted: &[Registration], at_start: bool) -> Result<(), Status> {
        let found = self.api_services().await?;
        let by_name: HashMap<&str, &Value> = found
            .iter()
            .map(|it| (metadata::text(it, "name"), &**it))
            .collect();
        let wanted_now = wanted.iter().filter(|it| it.is_custom || at_start);
        let made = wanted_now.map(|registration| async {
            match by_name.get(&*registration.name()) {
                None => self.create_api_service(registration).await,
                Some(found) if automanaged(found).is_some() => {
                    self.correct_api_service(registration, found).await
                }
                Some(_) => Ok(()),
            }
        });
        try_join_all(made).await?;
        let names: HashSet<String> = wanted.iter().map(Registration::name).collect();
        let surplus = found.iter().filter(|it| match automanaged(it) {
            Some(ALWAYS) => !names.contains(metadata::text(it, "name")),
            Some(ON_START) => at_start && !names.contains(metadata::text(it, "name")),
            _ => false,
        });
        try_join_all(surplus.map(|it| self.delete_api_service(it))).await?;
        Ok(())
    }

    async fn create_api_service(&self, registration: &Registration) -> Result<(), Status> {
        let (definition, context) = (
            self.builtin(&builtin::API_SERVICE)?,
            WriteContext::by_server(MANAGER),
        );
        let name = registration.name();
        let target = Target::new(&definition, "", &name, Part::Object);
        match Write::unguarded(self, target, &context)
            .create(registration.object())
            .await
        {
            // Another server that shares the store may have created it first.
            Err(status) if !status.is_already_exists() => Err(status),
            _ => Ok(()),
        }
    }

    async fn correct_api_service(&self, registration: &Registration, found: &Value) -> Result<(), Status> {
        let (spec, label) = (registration.spec(), registration.label());
        if found["spec"] == spec && automanaged(found) == Some(label) {
            return Ok(());
        }
        let propose = |live: &Live| {
            let mut object = live.value.clone();
            object["spec"] = spec.clone();
            object["metadata"]["labels"][AUTOMANAGED] = json!(label);
            Ok(object)
        };
        self.change_api_service(&registration.name(), Part::Object, propose)
            .await
    }

    async fn delete_api_service(&self, found: &Value) -> Result<(), Status> {
        let (definition, context) = (
            self.builtin(&builtin::API_SERVICE)?,
            WriteContext::by_server(MANAGER),
        );
        let target = Target::new(&definition, "", metadata::text(found, "name"), Part::Object);
        let mut write = Write::unguarded(self, target, &context);
        let deleted = write
            .delete(&DeleteOptions::default(), DeleteAdmission::Skip)
            .await;
        ignore_gone(deleted.map(drop))
    }

    /// Sets the condition `Available` of an APIService, unless it has that state already or the object was replaced.
    /// `lastTransitionTime` changes only with the status.
    pub async fn set_api_service_availability(
        &self,
        found: &Value,
        is_available: bool,
        reason: &str,
        message: &str,
    ) -> Result<(), Status> {
        let condition = Condition {
            kind: "Available",
            status: if is_available { "True" } else { "False" },
            reason,
            message,
        };
        if available_condition(found).is_some_and(|known| condition.equals(known)) {
            return Ok(());
        }
        let now = timestamp(self.clock().now());
        let propose = |live: &Live| {
            let mut object = live.value.clone();
            if object["metadata"]["uid"] == found["metadata"]["uid"] && object["spec"] == found["spec"] {
                object["status"] = condition.added_to(&object["status"], &now);
            }
            Ok(object)
        };
        self.change_api_service(metadata::text(found, "name"), Part::Status, propose)
            .await
    }

    async fn change_api_service(
        &self,
        name: &str,
        part: Part,
        propose: impl Fn(&Live) -> Result<Value, Status>,
    ) -> Result<(), Status> {
        let (definition, context) = (
            self.builtin(&builtin::API_SERVICE)?,
            WriteContext::by_server(MANAGER),
        );
        let target = Target::new(&definition, "", name, part);
        let propose = |live: &Live| {
            let (object, managed) = (propose(live)?, Managed::ByChange);
            Ok(Proposal { object, managed })
        };
        let changed = Write::unguarded(self, target, &context).change(propose).await;
        ignore_gone(changed.map(drop))
    }
}

fn automanaged(service: &Value) -> Option<&str> {
    service["metadata"]["labels"][AUTOMANAGED].as_str()
}

/// The condition `Available` of an APIService.
fn available_condition(service: &Value) -> Option<&Value> {
    let mut conditions = service["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == "Available")
}

fn ignore_gone(result: Result<(), Status>) -> Result<(), Status> {
    match result {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(()),
    }
}
