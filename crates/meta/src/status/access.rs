//! The 403 of an authorizer.

use super::Status;
use crate::GroupResource;
use crate::quote::quote;

/// A request the authorizer denied. Empty text means none: no subresource, no namespace, no name.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccessDenied<'a> {
    /// The user.
    pub user: &'a str,
    /// The verb: `get`, `list`, `deletecollection` …
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The plural resource name.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// The namespace; if empty, the message speaks of the cluster scope.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The authorizer's explanation, if any.
    pub why: &'a str,
}

impl Status {
    /// The user may not do this to the resource (403).
    pub fn access_denied(denied: &AccessDenied<'_>) -> Self {
        let resource = GroupResource::new(denied.group.to_owned(), denied.resource.to_owned());
        let place = match denied.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quoted(namespace)),
        };
        let whole = match denied.subresource {
            "" => denied.resource.to_owned(),
            subresource => format!("{}/{subresource}", denied.resource),
        };
        let text = format!(
            "User {} cannot {} resource {} in API group {} {place}",
            quoted(denied.user),
            escape_html(denied.verb),
            quoted(&whole),
            quoted(denied.group),
        );
        Self::forbidden(&resource, denied.name, with_reason(text, denied.why))
    }

    /// The user may not call this non-resource path (403).
    pub fn path_denied(user: &str, verb: &str, path: &str, why: &str) -> Self {
        let text = format!(
            "User {} cannot {} path {}",
            quoted(user),
            escape_html(verb),
            quoted(path)
        );
        Self::forbidden(&GroupResource::default(), "", with_reason(text, why))
    }
}

fn with_reason(text: String, why: &str) -> String {
    match why {
        "" => text,
        why => format!("{text}: {why}"),
    }
}

fn quoted(text: &str) -> String {
    escape_html(&quote(text))
}

/// The names come from the request, and the message may end up in a browser.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_name_user_verb_resource_and_place() {
        let get = AccessDenied {
            user: "alice",
            verb: "get",
            group: "apps",
            resource: "deployments",
            subresource: "scale",
            namespace: "default",
            name: "d",
            why: "",
        };
        assert_eq!(
            Status::access_denied(&get).message,
            r#"deployments.apps "d" is forbidden: User "alice" cannot get resource "deployments/scale" in API group "apps" in the namespace "default""#
        );
        let list = AccessDenied {
            user: "<b>",
            verb: "list",
            resource: "nodes",
            why: "RBAC: role gone",
            ..Default::default()
        };
        assert_eq!(
            Status::access_denied(&list).message,
            r#"nodes is forbidden: User "&lt;b&gt;" cannot list resource "nodes" in API group "" at the cluster scope: RBAC: role gone"#
        );
        let path = Status::path_denied("alice", "get", "/metrics", "");
        assert_eq!(
            path.message,
            r#"forbidden: User "alice" cannot get path "/metrics""#
        );
        assert_eq!(path.details, Some(Box::default()));
    }
}
