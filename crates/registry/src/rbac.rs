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
use watchkeeper_kinds::builtin;
use watchkeeper_meta::Status;
use watchkeeper_storage::Feed;

use crate::context::WriteContext;
use crate::definition::Definition;
use crate::followed::Followed;
use crate::reader::Reader;
use crate::user::MASTERS;
use crate::{User, metadata};

pub(crate) use defaults::{default_objects, delegation_objects};
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

/// The rules that hold.
#[derive(Debug, Default)]
pub(crate) struct PolicyCache(Followed<Policy>);

/// The rules that held when they were asked for: answers do not wait.
#[derive(Clone, Debug)]
pub(crate) struct Grants(Arc<Policy>);

impl Grants {
    /// Whether a user may do something.
    pub(crate) fn decide(&self, user: &User, action: Action<'_>) -> Decision {
        match user.is_in(MASTERS) {
            true => Decision::Allowed(String::new()),
            false => self.0.decide(user, action),
        }
    }
}

/// Decides what users may do, from what is stored.
#[derive(Clone, Copy)]
pub(crate) struct Authorizer<'r> {
    reader: &'r Reader,
    cache: &'r PolicyCache,
}

impl<'r> Authorizer<'r> {
    pub(crate) fn new(reader: &'r Reader, cache: &'r PolicyCache) -> Self {
        Self { reader, cache }
    }

    /// Whether a user may do something.
    pub(crate) async fn may(&self, user: &User, action: Action<'_>) -> Result<Decision, Status> {
        if user.is_in(MASTERS) {
            return Ok(Decision::Allowed(String::new()));
        }
        Ok(self.policy().await?.decide(user, action))
    }

    /// The rules that hold now, for several questions.
    pub(crate) async fn grants(&self) -> Result<Grants, Status> {
        self.policy().await.map(Grants)
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
    pub(crate) async fn rules_of(&self, user: &User, namespace: &str) -> Result<Rules, Status> {
        Ok(self.policy().await?.rules_of(user, namespace))
    }

    /// The rules that hold now.
    async fn policy(&self) -> Result<Arc<Policy>, Status> {
        self.cache.0.get(|| self.read_policy()).await
    }

    async fn read_policy(&self) -> Result<(Policy, Vec<Feed>), Status> {
        let (roles, a) = self.reader.followed_values(&builtin::ROLE).await?;
        let (cluster_roles, b) = self.reader.followed_values(&builtin::CLUSTER_ROLE).await?;
        let (role_bindings, c) = self.reader.followed_values(&builtin::ROLE_BINDING).await?;
        let (cluster_role_bindings, d) = self
            .reader
            .followed_values(&builtin::CLUSTER_ROLE_BINDING)
            .await?;
        let policy = Policy::read(&Stored {
            roles: &roles,
            cluster_roles: &cluster_roles,
            role_bindings: &role_bindings,
            cluster_role_bindings: &cluster_role_bindings,
        });
        Ok((policy, vec![a, b, c, d]))
    }
}
