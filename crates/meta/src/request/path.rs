//! Paths, `/api/v1/namespaces/{namespace}/{plural}/{name}/{subresource}`, and the checks of their segments.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::quote::quote;
use crate::{Resource, Scope, validation};

/// The characters Go escapes in a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// An invalid request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The name is empty.
    #[error("resource name may not be empty")]
    EmptyName,
    /// A namespaced object is addressed without a namespace.
    #[error("an empty namespace may not be set when a resource name is provided")]
    ObjectWithoutNamespace,
    /// A namespaced object is created without a namespace.
    #[error("an empty namespace may not be set during creation")]
    CreateWithoutNamespace,
    /// A namespace was given for a cluster-scoped resource.
    #[error("{plural} are not namespaced, but namespace {namespace:?} was given")]
    NotNamespaced {
        /// The resource.
        plural: String,
        /// The namespace.
        namespace: String,
    },
    /// A segment would change the structure of the path.
    #[error("invalid {part} {}: [{}]", quote(.value), .reasons.join(" "))]
    Segment {
        /// The part of the path.
        part: &'static str,
        /// The text given.
        value: String,
        /// The reasons it is invalid.
        reasons: Vec<String>,
    },
    /// The parts do not form an HTTP request: the URI is too long, or a header has control characters.
    #[error("building the request")]
    Build(#[source] http::Error),
}

/// A path under construction; each part is checked and escaped as it is added.
pub(super) struct Path(String);

/// True if the resource is namespaced and no namespace is given.
pub(super) fn needs_namespace(resource: &Resource, namespace: &str) -> bool {
    resource.scope == Scope::Namespaced && namespace.is_empty()
}

impl Path {
    pub(super) fn collection(resource: &Resource, namespace: &str) -> Result<Self, RequestError> {
        if resource.scope == Scope::Cluster && !namespace.is_empty() {
            return Err(RequestError::NotNamespaced {
                plural: resource.plural.to_string(),
                namespace: namespace.to_owned(),
            });
        }
        let mut path = match resource.group.as_ref() {
            "" => Self("/api".to_owned()),
            group => Self("/apis".to_owned()).with_segment("group", group)?,
        };
        path = path.with_segment("version", &resource.version)?;
        if !namespace.is_empty() {
            path.0.push_str("/namespaces");
            path = path.with_segment("namespace", namespace)?;
        }
        path.with_segment("resource", &resource.plural)
    }

    pub(super) fn object(
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
    ) -> Result<Self, RequestError> {
        if name.is_empty() {
            return Err(RequestError::EmptyName);
        }
        if needs_namespace(resource, namespace) {
            return Err(RequestError::ObjectWithoutNamespace);
        }
        let path = Self::collection(resource, namespace)?.with_segment("resource name", name)?;
        match subresource {
            None => Ok(path),
            Some(subresource) => path.with_segment("subresource", subresource),
        }
    }

    /// Appends a path, with an optional query, for another server. Segments that climb up are refused.
    pub(super) fn with_proxied(mut self, target: &str) -> Result<Self, RequestError> {
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let climbs = |segment: &str| {
            let plain = segment.replace("%2e", ".").replace("%2E", ".");
            plain == ".." || plain == "."
        };
        if let Some(segment) = path.split('/').find(|segment| climbs(segment)) {
            return Err(RequestError::Segment {
                part: "proxy path",
                value: target.to_owned(),
                reasons: vec![format!("may not contain '{segment}'")],
            });
        }
        self.0.push('/');
        self.0.push_str(target.strip_prefix('/').unwrap_or(target));
        Ok(self)
    }

    pub(super) fn with_query(mut self, query: &str) -> Self {
        if !query.is_empty() {
            self.0.push('?');
            self.0.push_str(query);
        }
        self
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }

    fn with_segment(mut self, part: &'static str, value: &str) -> Result<Self, RequestError> {
        let mut reasons = validation::path_segment_name(value);
        if value.is_empty() {
            reasons.push("may not be empty".to_owned());
        }
        if !reasons.is_empty() {
            let value = value.to_owned();
            return Err(RequestError::Segment { part, value, reasons });
        }
        self.0.push('/');
        self.0.extend(utf8_percent_encode(value, ESCAPED));
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Resource {
        Resource::namespaced("", "v1", "Pod", "pods")
    }

    fn check(path: Result<Path, RequestError>, message: &str) {
        assert_eq!(path.err().unwrap().to_string(), message);
    }

    #[test]
    fn names_stay_in_their_place() {
        for (name, message) in [
            ("", "resource name may not be empty"),
            ("..", r#"invalid resource name "..": [may not be '..']"#),
            (
                "a/b%",
                r#"invalid resource name "a/b%": [may not contain '/' may not contain '%']"#,
            ),
        ] {
            check(Path::object(&pods(), "ns", name, None), message);
        }
        check(
            Path::object(&pods(), "../x", "a", None),
            r#"invalid namespace "../x": [may not contain '/']"#,
        );
        check(
            Path::object(&pods(), "ns", "a", Some("../../secrets")),
            r#"invalid subresource "../../secrets": [may not contain '/']"#,
        );
        check(
            Path::object(&pods(), "", "a", None),
            "an empty namespace may not be set when a resource name is provided",
        );
    }

    #[test]
    fn cluster_scoped_resources_have_no_namespace() {
        let nodes = Resource {
            plural: "nodes".into(),
            scope: Scope::Cluster,
            ..pods()
        };
        check(
            Path::collection(&nodes, "ns"),
            r#"nodes are not namespaced, but namespace "ns" was given"#,
        );
    }

    #[test]
    fn proxied_paths_do_not_climb() {
        let proxy = || Path::object(&pods(), "ns", "a", Some("proxy")).unwrap();
        for target in ["../b", "x/%2e%2E/y", "./?a=b"] {
            assert!(proxy().with_proxied(target).is_err(), "{target}");
        }
        let path = proxy().with_proxied("/x..y/z?a=../b").unwrap();
        assert_eq!(
            path.into_string(),
            "/api/v1/namespaces/ns/pods/a/proxy/x..y/z?a=../b"
        );
    }
}
