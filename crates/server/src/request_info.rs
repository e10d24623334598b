//! The request info, as in kube-apiserver: verb and resource from method, path and query, for authorization, limits,
//! faults and metrics.
//!
//! Nothing is looked up: `/api/v1/nope` is a request for the resource `nope`, and a user without permission gets 403,
//! not 404. The handler is selected in [`crate::route`].

use http::Method;
use percent_encoding::percent_decode_str;
use watchkeeper_kinds::builtin;
use watchkeeper_meta::{FieldSelector, QueryParams};

use crate::Verb;

/// The path segment before the name of a namespace.
pub(crate) const NAMESPACES: &str = builtin::NAMESPACE.plural;

/// The query for a read of any version.
const ANY_VERSION: &str = "resourceVersion=0";

/// A request as authorization rules describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// A [`Verb`] for resources, the method in lower case for other paths. Empty if the method has no meaning for
    /// resources.
    pub verb: String,
    /// The path, percent-decoded.
    pub path: String,
    /// The resource; `None` for paths outside the resource API.
    pub resource: Option<ResourceInfo>,
    /// True for reads of any version (`resourceVersion=0`).
    pub any_version: bool,
}

/// The resource part of a [`RequestInfo`]; unused fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceInfo {
    /// The group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name.
    pub resource: String,
    /// The subresource: `status`, `scale`, `log`…
    pub subresource: String,
    /// The namespace; for Namespaces their own name.
    pub namespace: String,
    /// The object's name; for lists and watches the name in a `metadata.name` field selector.
    pub name: String,
}

impl RequestInfo {
    /// Parses a request.
    pub fn read(method: &Method, path: &str, query: &str) -> Self {
        let path = match path.contains('%') {
            true => percent_decode_str(path).decode_utf8_lossy().into_owned(),
            false => path.to_owned(),
        };
        match resource_of(method, &path, query) {
            Some((verb, resource)) => Self {
                verb: verb.map(Verb::as_str).unwrap_or_default().to_owned(),
                path,
                resource: Some(resource),
                any_version: query.split('&').any(|pair| pair == ANY_VERSION),
            },
            None => Self {
                verb: method.as_str().to_ascii_lowercase(),
                path,
                resource: None,
                any_version: false,
            },
        }
    }

    /// True if the response is an endless stream, exempt from deadlines and the in-flight limit.
    pub fn is_long_running(&self) -> bool {
        const STREAMING: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];
        self.verb == "watch"
            || self.is_about_testing()
            || self.is_about_maintenance()
            || self
                .resource
                .as_ref()
                .is_some_and(|resource| STREAMING.contains(&resource.subresource.as_str()))
    }

    /// True for the testing API. Its requests may take any time, and do not count as activity of the server.
    pub(crate) fn is_about_testing(&self) -> bool {
        self.resource.is_none() && self.path.starts_with("/testing/")
    }

    /// True for maintenance of the store, whose duration depends on its size.
    fn is_about_maintenance(&self) -> bool {
        self.resource.is_none() && self.path.starts_with("/maintenance/")
    }

    /// True if the request may change stored objects.
    pub fn is_mutating(&self) -> bool {
        match &self.resource {
            Some(_) => Verb::parse(&self.verb).is_some_and(Verb::is_mutating),
            None => !matches!(self.verb.as_str(), "get" | "head" | "options"),
        }
    }
}

/// Enough segments for nearly every path: `apis/group/version/namespaces/namespace/plural/name/subresource`.
const USUAL_PARTS: usize = 8;

/// The segments of a path; empty ones inside the path are kept, so that `a//b` is not `a/b`.
pub(crate) fn path_parts(path: &str) -> Vec<&str> {
    match path.trim_matches('/') {
        "" => Vec::new(),
        path => {
            let mut parts = Vec::with_capacity(USUAL_PARTS);
            parts.extend(path.split('/'));
            parts
        }
    }
}

/// Splits `/api/v1/…` and `/apis/group/version/…`; `None` if there is no resource.
fn resource_of(method: &Method, path: &str, query: &str) -> Option<(Option<Verb>, ResourceInfo)> {
    let parts = path_parts(path);
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return None,
    };
    let (watch_path, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        [NAMESPACES, namespace] => (*namespace, rest),
        [NAMESPACES, namespace, "status" | "finalize", ..] => (*namespace, rest),
        [NAMESPACES, namespace, inner @ ..] if !inner.is_empty() => (*namespace, inner),
        rest => ("", rest),
    };
    let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
    let mut info = ResourceInfo {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: part(0),
        subresource: part(2),
        namespace: namespace.to_owned(),
        name: part(1),
    };
    let verb = verb_of(method, watch_path, query, &mut info);
    Some((verb, info))
}

/// The verb of a method. The name of a list or watch comes from its field selector.
fn verb_of(method: &Method, watch_path: bool, query: &str, info: &mut ResourceInfo) -> Option<Verb> {
    let collection = info.name.is_empty();
    let verb = match *method {
        _ if watch_path => Verb::Watch,
        Method::GET | Method::HEAD if collection && asks_to_watch(query) => Verb::Watch,
        Method::GET | Method::HEAD if collection => Verb::List,
        Method::GET | Method::HEAD => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if collection => Verb::DeleteCollection,
        Method::DELETE => Verb::Delete,
        _ => return None,
    };
    if collection && matches!(verb, Verb::List | Verb::Watch) {
        info.name = selected_name(query).unwrap_or_default();
    }
    Some(verb)
}

/// True if `watch` is set to anything but `false` and `0`.
pub(crate) fn asks_to_watch(query: &str) -> bool {
    query_value(query, "watch").is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
}

/// The object that a field selector names with `metadata.name=x`: exactly the handler's selection, because permission
/// for one object depends on it.
fn selected_name(query: &str) -> Option<String> {
    let selector: FieldSelector = query_value(query, "fieldSelector")?.parse().ok()?;
    let name = selector.exact_value("metadata.name")?;
    (!name.is_empty() && !name.contains(['/', '%'])).then(|| name.to_owned())
}

/// The first value of a query parameter, decoded like the options of every verb.
pub(crate) fn query_value(query: &str, key: &str) -> Option<String> {
    QueryParams::parse(query).first(key).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `verb group/version resource/subresource namespace name`, or `verb path` outside the resource API.
    fn check(method: Method, uri: &str, expected: &str) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let info = RequestInfo::read(&method, path, query);
        let printed = match &info.resource {
            Some(it) => format!(
                "{} {}/{} {}/{} ns={} name={}",
                info.verb, it.group, it.version, it.resource, it.subresource, it.namespace, it.name
            ),
            None => format!("{} {}", info.verb, info.path),
        };
        assert_eq!(printed, expected, "{method} {uri}");
    }

    #[test]
    fn resources_are_read_from_the_path() {
        let get = Method::GET;
        check(get.clone(), "/api/v1/nodes", "list /v1 nodes/ ns= name=");
        check(get.clone(), "/api/v1/nodes/", "list /v1 nodes/ ns= name=");
        check(get.clone(), "/api/v1/nodes/n1", "get /v1 nodes/ ns= name=n1");
        check(
            get.clone(),
            "/api/v1/namespaces",
            "list /v1 namespaces/ ns= name=",
        );
        check(
            get.clone(),
            "/api/v1/namespaces/d",
            "get /v1 namespaces/ ns=d name=d",
        );
        check(
            get.clone(),
            "/api/v1/namespaces/d/status",
            "get /v1 namespaces/status ns=d name=d",
        );
        check(
            get.clone(),
            "/api/v1/namespaces/d/pods",
            "list /v1 pods/ ns=d name=",
        );
        check(
            get.clone(),
            "/api/v1/namespaces/d/pods/p/log",
            "get /v1 pods/log ns=d name=p",
        );
        check(
            get,
            "/apis/apps/v1/namespaces/d/deployments/x",
            "get apps/v1 deployments/ ns=d name=x",
        );
    }

    #[test]
    fn methods_become_verbs() {
        let one = "/api/v1/namespaces/d/pods/p";
        let all = "/api/v1/namespaces/d/pods";
        check(Method::POST, all, "create /v1 pods/ ns=d name=");
        check(Method::PUT, one, "update /v1 pods/ ns=d name=p");
        check(Method::PATCH, one, "patch /v1 pods/ ns=d name=p");
        check(Method::DELETE, one, "delete /v1 pods/ ns=d name=p");
        check(Method::DELETE, all, "deletecollection /v1 pods/ ns=d name=");
        check(Method::OPTIONS, all, " /v1 pods/ ns=d name=");
    }

    #[test]
    fn watches_are_recognised() {
        let get = Method::GET;
        for yes in ["watch", "watch=", "watch=1", "watch=true", "watch=maybe"] {
            check(
                get.clone(),
                &format!("/api/v1/pods?{yes}"),
                "watch /v1 pods/ ns= name=",
            );
        }
        for no in ["watch=0", "watch=false", "watch=False", ""] {
            check(
                get.clone(),
                &format!("/api/v1/pods?{no}"),
                "list /v1 pods/ ns= name=",
            );
        }
        check(get.clone(), "/api/v1/pods/p?watch=1", "get /v1 pods/ ns= name=p");
        check(
            get.clone(),
            "/api/v1/watch/namespaces/d/pods/p",
            "watch /v1 pods/ ns=d name=p",
        );
        let one = "/api/v1/namespaces/d/pods?watch=1&fieldSelector=metadata.name%3Dp";
        check(get, one, "watch /v1 pods/ ns=d name=p");
    }

    #[test]
    fn an_invalid_selector_names_no_object() {
        for ignored in [
            "metadata.name=a,x=%zz",
            "metadata.name=a,x=;",
            "metadata.name=a,x",
        ] {
            let uri = format!("/api/v1/secrets?fieldSelector={ignored}");
            check(Method::GET, &uri, "list /v1 secrets/ ns= name=");
        }
    }

    #[test]
    fn other_paths_keep_their_method() {
        for path in [
            "/",
            "/version",
            "/api",
            "/api/v1",
            "/apis/apps",
            "/apis/apps/v1",
            "/healthz/ping",
        ] {
            check(Method::GET, path, &format!("get {path}"));
        }
        check(Method::POST, "/version", "post /version");
    }

    #[test]
    fn empty_path_segments_are_preserved() {
        check(
            Method::GET,
            "/api/v1//namespaces/default",
            "get /v1 /default ns= name=namespaces",
        );
        check(Method::GET, "/api/v1/namespaces/a%2Fb", "list /v1 b/ ns=a name=");
    }
}
