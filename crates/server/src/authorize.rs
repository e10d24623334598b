//! Authorizes a request by the RBAC rules of the registry.

use watchkeeper_meta::{AccessDenied, Status};
use watchkeeper_registry::{Attributes, Decision, Registry, User};

use crate::request_info::RequestInfo;

/// Authorizes a request, or returns the error.
pub(crate) async fn authorize(registry: &Registry, user: &User, request: &RequestInfo) -> Result<(), Status> {
    let decision = registry.may(user, attributes(request)).await?;
    permit(user, request, &decision)
}

/// Applies a decision: allows the request, or returns the error.
pub(crate) fn permit(user: &User, request: &RequestInfo, decision: &Decision) -> Result<(), Status> {
    match decision {
        Decision::Allowed(_) => Ok(()),
        Decision::Refused(why) => Err(denied(user, request, why)),
    }
}

/// The action of a request, for RBAC rules.
pub(crate) fn attributes(request: &RequestInfo) -> Attributes<'_> {
    match &request.resource {
        Some(resource) => Attributes::Resource {
            verb: &request.verb,
            group: &resource.group,
            resource: &resource.resource,
            subresource: &resource.subresource,
            namespace: &resource.namespace,
            name: &resource.name,
        },
        None => Attributes::Path {
            verb: &request.verb,
            path: &request.path,
        },
    }
}

/// The error for a denied request, with RBAC's text.
pub(crate) fn denied(user: &User, request: &RequestInfo, why: &str) -> Status {
    match &request.resource {
        Some(resource) => Status::access_denied(&AccessDenied {
            user: &user.name,
            verb: &request.verb,
            group: &resource.group,
            resource: &resource.resource,
            subresource: &resource.subresource,
            namespace: &resource.namespace,
            name: &resource.name,
            why,
        }),
        None => Status::path_denied(&user.name, &request.verb, &request.path, why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use serde_json::{Value, json};
    use watchkeeper_meta::GroupVersionResource;
    use watchkeeper_registry::user::MASTERS;
    use watchkeeper_registry::{Body, Format, WriteContext};
    use watchkeeper_storage::{Store, StoreOptions};

    async fn registry() -> Registry {
        Registry::open(Store::memory(StoreOptions::default()))
            .await
            .unwrap()
    }

    fn alice() -> User {
        User::authenticated("alice", "", vec!["dev".to_owned()])
    }

    async fn check(registry: &Registry, user: &User, method: Method, path: &str, expected: &str) {
        let request = RequestInfo::read(&method, path, "");
        let printed = match authorize(registry, user, &request).await {
            Ok(()) => "allowed".to_owned(),
            Err(status) => status.message,
        };
        assert_eq!(printed, expected, "{path}");
    }

    async fn create(
        registry: &Registry,
        user: &User,
        plural: &'static str,
        namespace: &str,
        object: Value,
    ) -> String {
        let resource = GroupVersionResource::new("rbac.authorization.k8s.io", "v1", plural);
        let definition = registry.definition(&resource).unwrap();
        let bytes = object.to_string();
        let body = Body {
            format: Format::Json,
            bytes: bytes.as_bytes(),
        };
        let context = WriteContext {
            requester: Some(user.clone()),
            ..WriteContext::default()
        };
        match registry.create(&definition, namespace, body, &context).await {
            Ok(_) => "created".to_owned(),
            Err(status) => status.message,
        }
    }

    fn role(name: &str, resources: &[&str], verbs: &[&str]) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}],
        })
    }

    fn binding(name: &str, role: &str, subject: Value) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [subject],
        })
    }

    #[tokio::test]
    async fn anonymous_authenticated_and_admin_users_have_increasing_permissions() {
        let registry = registry().await;
        let anonymous = User::anonymous();
        let admin = User::authenticated("admin", "", vec![MASTERS.to_owned()]);
        let get = Method::GET;
        check(&registry, &anonymous, get.clone(), "/livez", "allowed").await;
        let refused = r#"forbidden: User "system:anonymous" cannot get path "/api""#;
        check(&registry, &anonymous, get.clone(), "/api", refused).await;
        check(&registry, &alice(), get.clone(), "/apis/apps", "allowed").await;
        let refused = r#"forbidden: User "alice" cannot get path "/metrics""#;
        check(&registry, &alice(), get.clone(), "/metrics", refused).await;
        let refused = r#"namespaces "default" is forbidden: User "alice" cannot get resource "namespaces" in API group "" in the namespace "default""#;
        check(
            &registry,
            &alice(),
            get.clone(),
            "/api/v1/namespaces/default",
            refused,
        )
        .await;
        let about_me = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        check(&registry, &alice(), Method::POST, about_me, "allowed").await;
        check(&registry, &admin, get, "/metrics", "allowed").await;
    }

    #[tokio::test]
    async fn a_grant_applies_to_the_next_request_and_a_missing_role_is_named() {
        let registry = registry().await;
        let admin = User::authenticated("admin", "", vec![MASTERS.to_owned()]);
        let robot = User::authenticated("system:serviceaccount:default:robot", "", Vec::new());
        let pods = "/api/v1/namespaces/default/pods";
        let refused = r#"pods is forbidden: User "system:serviceaccount:default:robot" cannot list resource "pods" in API group "" in the namespace "default""#;
        check(&registry, &robot, Method::GET, pods, refused).await;

        let subject = json!({"kind": "ServiceAccount", "name": "robot"});
        let bound = create(
            &registry,
            &admin,
            "rolebindings",
            "default",
            binding("b", "reader", subject),
        )
        .await;
        assert_eq!(bound, "created");
        let missing = format!(r#"{refused}: RBAC: role.rbac.authorization.k8s.io "reader" not found"#);
        check(&registry, &robot, Method::GET, pods, &missing).await;

        let made = create(
            &registry,
            &admin,
            "roles",
            "default",
            role("reader", &["pods"], &["list"]),
        )
        .await;
        assert_eq!(made, "created");
        check(&registry, &robot, Method::GET, pods, "allowed").await;
    }

    #[tokio::test]
    async fn nobody_can_grant_more_than_they_have() {
        let registry = registry().await;
        let admin = User::authenticated("admin", "", vec![MASTERS.to_owned()]);
        let subject = json!({"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"});
        for (plural, object) in [
            ("roles", role("reader", &["pods"], &["get", "list"])),
            ("rolebindings", binding("alice-reads", "reader", subject.clone())),
            ("roles", role("keeper", &["secrets"], &["get"])),
        ] {
            assert_eq!(
                create(&registry, &admin, plural, "default", object).await,
                "created"
            );
        }
        let same = create(
            &registry,
            &alice(),
            "roles",
            "default",
            role("same", &["pods"], &["get"]),
        )
        .await;
        assert_eq!(same, "created");
        let more = create(
            &registry,
            &alice(),
            "roles",
            "default",
            role("more", &["pods", "secrets"], &["get", "watch"]),
        )
        .await;
        assert_eq!(
            more,
            "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"alice\" (groups=[\"dev\" \
             \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"watch\"]}\n\
             {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"watch\"]}"
        );
        let bound = create(
            &registry,
            &alice(),
            "rolebindings",
            "default",
            binding("b", "keeper", subject),
        )
        .await;
        assert!(bound.contains("not currently held"), "{bound}");
    }
}
