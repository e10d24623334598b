//! Who may do what, from the roles and bindings that are stored.
//!
//! Members of `system:masters` may do everything. For everyone else the rules of each binding that names them are
//! tried, the cluster's first. Rules are read when they are first needed, and again when a role or a binding has
//! changed since: a grant holds with the very next request. Whoever writes roles and bindings can give away only
//! what they have ([`grant`]).

mod defaults;
mod grant;
mod policy;
mod rule;

use std::sync::Arc;

use serde_json::Value;
use watchkeeper_meta::{GroupVersionResource, ListOptions, Status};
use watchkeeper_storage::Feed;

use crate::user::MASTERS;
use crate::{Definition, Registry, User, WriteContext, metadata};

pub(crate) use defaults::default_objects;
pub use policy::Rules;
use policy::{Policy, Stored};
pub use rule::Rule;

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// Something a user wants to do.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// Something to do with a resource; what is not named is empty.
    Resource {
        /// `get`, `list`, `impersonate`…
        verb: &'a str,
        /// The group; empty for core.
        group: &'a str,
        /// The plural name.
        resource: &'a str,
        /// The part of the object.
        subresource: &'a str,
        /// The namespace; empty for the whole cluster.
        namespace: &'a str,
        /// The object; empty for all.
        name: &'a str,
    },
    /// A request for a path outside the resource API.
    Path {
        /// The method in lower case.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

/// Whether a user may, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// They may. Members of `system:masters` need no reason.
    Allowed(String),
    /// They may not; there is a reason if a binding names a role that is not there.
    Refused(String),
}

impl Decision {
    /// Whether the user may.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// The rules as last read, and what tells whether they still hold.
#[derive(Debug, Default)]
pub(crate) struct PolicyCache(tokio::sync::Mutex<Option<Followed>>);

#[derive(Debug)]
struct Followed {
    policy: Arc<Policy>,
    feeds: Vec<Feed>,
}

impl Registry {
    /// Whether a user may do something.
    pub async fn may(&self, user: &User, action: Action<'_>) -> Result<Decision, Status> {
        if user.is_in(MASTERS) {
            return Ok(Decision::Allowed(String::new()));
        }
        Ok(self.policy().await?.decide(user, action))
    }

    /// Refuses a PUT or an apply that would create an object, if its writer may only change what is there.
    pub(crate) async fn check_right_to_create(
        &self,
        definition: &Definition,
        object: &Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
        let Some(user) = context.requester.as_ref().filter(|_| context.asks_to_create) else {
            return Ok(());
        };
        let name = metadata::text(object, "name");
        let create = Action::Resource {
            verb: "create",
            group: &definition.resource.group,
            resource: &definition.resource.plural,
            subresource: "",
            namespace: metadata::text(object, "namespace"),
            name,
        };
        match self.may(user, create).await? {
            Decision::Allowed(_) => Ok(()),
            Decision::Refused(why) => Err(Status::forbidden(&definition.group_resource(), name, why)),
        }
    }

    /// Everything a user may do in a namespace.
    pub async fn rules_of(&self, user: &User, namespace: &str) -> Result<Rules, Status> {
        Ok(self.policy().await?.rules_of(user, namespace))
    }

    /// The rules that hold now.
    async fn policy(&self) -> Result<Arc<Policy>, Status> {
        let mut cached = self.policy_cache().0.lock().await;
        if let Some(followed) = cached.as_mut()
            && followed.feeds.iter_mut().all(is_unchanged)
        {
            return Ok(followed.policy.clone());
        }
        // In a box: it is seldom done, and every request that may have to would keep room for it.
        let followed = Box::pin(self.read_policy()).await?;
        let policy = followed.policy.clone();
        *cached = Some(followed);
        Ok(policy)
    }

    async fn read_policy(&self) -> Result<Followed, Status> {
        // The feeds begin before the reads: what changes in between is read twice rather than missed.
        let after = self.store().current_revision();
        let mut feeds = Vec::new();
        let mut read = Vec::new();
        for plural in ["roles", "clusterroles", "rolebindings", "clusterrolebindings"] {
            let resource = GroupVersionResource::new(GROUP, "v1", plural);
            let definition = self.definition(&resource).ok_or_else(Status::path_not_found)?;
            let feed = self.store().watch(&definition.prefix(""), after);
            feeds.push(feed.map_err(Status::internal_error)?);
            read.push(self.all_values(&definition).await?);
        }
        let [roles, cluster_roles, role_bindings, cluster_role_bindings] = &read[..] else {
            unreachable!("four resources were read");
        };
        let policy = Policy::read(&Stored {
            roles,
            cluster_roles,
            role_bindings,
            cluster_role_bindings,
        });
        Ok(Followed {
            policy: Arc::new(policy),
            feeds,
        })
    }

    pub(crate) async fn all_values(&self, definition: &Definition) -> Result<Vec<Value>, Status> {
        let list = self.list(definition, "", &ListOptions::default()).await?;
        list.items.iter().map(|item| item.to_value(definition)).collect()
    }
}

/// Whether nothing has come since the last look.
pub(crate) fn is_unchanged(feed: &mut Feed) -> bool {
    loop {
        let before = feed.position();
        match feed.read() {
            Ok(batch) if !batch.changes.is_empty() => return false,
            Ok(batch) if batch.revision == before => return true,
            // Others' changes were passed over; there may be more of them.
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}
