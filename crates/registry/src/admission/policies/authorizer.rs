//! The CEL `authorizer` of admission policies.

use std::rc::Rc;
use std::sync::Arc;

use watchkeeper_cel::Value as Evaluated;
use watchkeeper_cel::authorizer::{Authorizer, Decision, Question, ResourceTarget, Target};
use watchkeeper_kinds::user::User;
use watchkeeper_meta::Status;

use crate::admission::request::AdmissionRequest;
use crate::rbac::{self, Grants};
use crate::{Registry, metadata};

/// The user, the request and the RBAC rules, read before evaluation because expressions cannot await.
#[derive(Debug)]
pub(in crate::admission) struct CelAuthorizer(Arc<AuthorizerState>);

#[derive(Debug)]
struct AuthorizerState {
    /// `None` for the server itself, which may do everything.
    requester: Option<User>,
    grants: Grants,
    target: ResourceTarget,
}

impl Registry {
    /// The `authorizer` for the expressions about a write.
    pub(in crate::admission) async fn authorizer_for(
        &self,
        write: &AdmissionRequest<'_>,
    ) -> Result<CelAuthorizer, Status> {
        let resource = &write.action.definition.resource;
        Ok(CelAuthorizer(Arc::new(AuthorizerState {
            requester: write.context.requester.clone(),
            grants: self.authorizer().grants().await?,
            target: ResourceTarget {
                group: resource.group.to_string(),
                resource: resource.plural.to_string(),
                subresource: write.action.subresource.to_owned(),
                namespace: write.namespace().to_owned(),
                name: metadata::text(write.shown(), "name").to_owned(),
            },
        })))
    }
}

impl CelAuthorizer {
    /// `authorizer` and `authorizer.requestResource`.
    pub(super) fn values<'a>(&self) -> (Evaluated<'a>, Evaluated<'a>) {
        let asker: Rc<dyn Authorizer> = Rc::new(Shared(self.0.clone()));
        let of_request = Evaluated::request_resource(asker.clone(), self.0.target.clone());
        (Evaluated::authorizer(asker), of_request)
    }
}

#[derive(Debug)]
struct Shared(Arc<AuthorizerState>);

impl Authorizer for Shared {
    fn decide(&self, question: &Question) -> Decision {
        let account = question.service_account.as_ref();
        let account = account.map(|(namespace, name)| User::of_service_account(namespace, name));
        let Some(user) = account.as_ref().or(self.0.requester.as_ref()) else {
            return Decision {
                is_allowed: true,
                ..Decision::default()
            };
        };
        let (is_allowed, reason) = match self.0.grants.decide(user, attributes(question)) {
            rbac::Decision::Allowed(why) => (true, why),
            rbac::Decision::Refused(why) => (false, why),
        };
        Decision {
            is_allowed,
            reason,
            error: None,
        }
    }
}

fn attributes(question: &Question) -> rbac::Attributes<'_> {
    let verb = &question.verb;
    match &question.target {
        Target::Path(path) => rbac::Attributes::Path { verb, path },
        Target::Resource(target) => rbac::Attributes::Resource {
            verb,
            group: &target.group,
            resource: &target.resource,
            subresource: &target.subresource,
            namespace: &target.namespace,
            name: &target.name,
        },
    }
}
