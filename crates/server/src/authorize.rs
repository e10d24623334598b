//! What a caller may do.
//!
//! Members of `system:masters` may do everything. Everyone who proved who they are may read discovery and ask
//! about themselves; everyone at all may ask whether the server is well and which version it is.

use watchkeeper_meta::{AccessDenied, Status};

use crate::identity::{AUTHENTICATED, MASTERS, User};
use crate::request_info::{RequestInfo, ResourceInfo};

/// Lets a request pass or says why not.
pub(crate) fn authorize(user: &User, request: &RequestInfo) -> Result<(), Status> {
    let allowed = match &request.resource {
        _ if user.is_in(MASTERS) => true,
        Some(resource) => user.is_in(AUTHENTICATED) && request.verb == "create" && is_self_review(resource),
        None if request.verb != "get" => false,
        None => is_public(&request.path) || user.is_in(AUTHENTICATED) && is_discovery(&request.path),
    };
    if allowed {
        Ok(())
    } else {
        Err(denied(user, request))
    }
}

/// Whether the server is well and which version it is.
fn is_public(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version" | "/version/")
}

/// What is served, in every form.
fn is_discovery(path: &str) -> bool {
    ["/api", "/apis", "/openapi"].iter().any(|root| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Questions about oneself.
fn is_self_review(resource: &ResourceInfo) -> bool {
    matches!(
        (resource.group.as_str(), resource.resource.as_str()),
        (
            "authorization.k8s.io",
            "selfsubjectaccessreviews" | "selfsubjectrulesreviews"
        ) | ("authentication.k8s.io", "selfsubjectreviews")
    )
}

fn denied(user: &User, request: &RequestInfo) -> Status {
    match &request.resource {
        Some(resource) => Status::access_denied(&AccessDenied {
            user: &user.name,
            verb: &request.verb,
            group: &resource.group,
            resource: &resource.resource,
            subresource: &resource.subresource,
            namespace: &resource.namespace,
            name: &resource.name,
            why: "",
        }),
        None => Status::path_denied(&user.name, &request.verb, &request.path, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    fn check(user: &User, method: Method, path: &str, expected: &str) {
        let printed = match authorize(user, &RequestInfo::read(&method, path, "")) {
            Ok(()) => "allowed".to_owned(),
            Err(status) => status.message,
        };
        assert_eq!(printed, expected, "{path}");
    }

    #[test]
    fn rights_grow_with_what_is_known_of_the_caller() {
        let anonymous = User::anonymous();
        let alice = User::authenticated("alice", "", vec!["dev".to_owned()]);
        let admin = User::authenticated("admin", "", vec![MASTERS.to_owned()]);
        let get = Method::GET;
        check(&anonymous, get.clone(), "/livez", "allowed");
        check(
            &anonymous,
            get.clone(),
            "/api",
            r#"forbidden: User "system:anonymous" cannot get path "/api""#,
        );
        check(&alice, get.clone(), "/apis/apps", "allowed");
        check(
            &alice,
            get.clone(),
            "/metrics",
            r#"forbidden: User "alice" cannot get path "/metrics""#,
        );
        check(
            &alice,
            get.clone(),
            "/api/v1/namespaces/default",
            r#"namespaces "default" is forbidden: User "alice" cannot get resource "namespaces" in API group "" in the namespace "default""#,
        );
        check(
            &alice,
            Method::POST,
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            "allowed",
        );
        check(&admin, get, "/metrics", "allowed");
    }
}
