//! The RBAC authorizer: decides from the stored roles and bindings.
//!
//! Members of `system:masters` may do everything. For other users the rules of all bindings that name them are tried,
//! cluster bindings first. Rules are compiled when they are first needed, and again when a role or binding has
//! changed, so a grant applies to the next request. Writers of roles and bindings cannot grant more than they have
//! ([`grant`]).

mod bindings;
mod defaults;
mod grant;
mod rule;

use std::sync::Arc;

use futures_util::future::BoxFuture;
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

pub use bindings::Rules;
use bindings::{Bindings, Stored};
pub(crate) use defaults::{component_objects, default_objects};
pub(crate) use grant::is_grant;
pub use rule::Rule;

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// An action of a user.
#[derive(Clone, Copy, Debug)]
pub enum Attributes<'a> {
    /// An action on a resource; unused fields are empty.
    Resource {
        /// `get`, `list`, `impersonate`…
        verb: &'a str,
        /// The group; empty for core.
        group: &'a str,
        /// The plural name.
        resource: &'a str,
        /// The subresource.
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

/// The decision about an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Allowed, with the reason; empty for members of `system:masters`.
    Allowed(String),
    /// Denied, with a reason if a binding refers to a missing role.
    Refused(String),
}

impl Decision {
    /// True if the action is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// The compiled rules.
#[derive(Debug, Default)]
pub(crate) struct RbacCache(Followed<Bindings>);

/// The rules at one moment, for decisions without awaiting.
#[derive(Clone, Debug)]
pub(crate) struct Grants(Arc<Bindings>);

impl Grants {
    /// Decides whether a user may perform an action.
    pub(crate) fn decide(&self, user: &User, action: Attributes<'_>) -> Decision {
        match user.is_in(MASTERS) {
            true => Decision::Allowed(String::new()),
            false => self.0.decide(user, action),
        }
    }
}

/// Decides from the stored roles and bindings.
#[derive(Clone, Copy)]
pub(crate) struct Authorizer<'r> {
    reader: &'r Reader,
    cache: &'r RbacCache,
}

impl<'r> Authorizer<'r> {
    pub(crate) fn new(reader: &'r Reader, cache: &'r RbacCache) -> Self {
        Self { reader, cache }
    }

    /// Decides whether a user may perform an action.
    pub(crate) async fn may(&self, user: &User, action: Attributes<'_>) -> Result<Decision, Status> {
        if user.is_in(MASTERS) {
            return Ok(Decision::Allowed(String::new()));
        }
        Ok(self.bindings().await?.decide(user, action))
    }

    /// The current rules, for several decisions.
    pub(crate) async fn grants(&self) -> Result<Grants, Status> {
        self.bindings().await.map(Grants)
    }

    /// Rejects a PUT or apply that would create an object, if the user has no permission to create.
    pub(crate) async fn check_create_permission(
        &self,
        definition: &Definition,
        object: &Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
        let Some(user) = context.requester.as_ref().filter(|_| context.authorize_create) else {
            return Ok(());
        };
        let name = metadata::text(object, "name");
        let create = Attributes::Resource {
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

    /// All rules of a user in a namespace.
    pub(crate) async fn rules_of(&self, user: &User, namespace: &str) -> Result<Rules, Status> {
        Ok(self.bindings().await?.rules_of(user, namespace))
    }

    /// The current rules.
    async fn bindings(&self) -> Result<Arc<Bindings>, Status> {
        self.cache.0.get(|| self.read_bindings()).await
    }

    fn read_bindings<'a>(&'a self) -> BoxFuture<'a, Result<(Bindings, Vec<Feed>), Status>> {
        Box::pin(async move {
            let (roles, a) = self.reader.followed_values(&builtin::ROLE).await?;
            let (cluster_roles, b) = self.reader.followed_values(&builtin::CLUSTER_ROLE).await?;
            let (role_bindings, c) = self.reader.followed_values(&builtin::ROLE_BINDING).await?;
            let (cluster_role_bindings, d) = self
                .reader
                .followed_values(&builtin::CLUSTER_ROLE_BINDING)
                .await?;
            let bindings = Bindings::read(&Stored {
                roles: &roles,
                cluster_roles: &cluster_roles,
                role_bindings: &role_bindings,
                cluster_role_bindings: &cluster_role_bindings,
            });
            Ok((bindings, vec![a, b, c, d]))
        })
    }
}
