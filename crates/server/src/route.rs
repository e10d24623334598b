//! Routing: finds the [`Route`] of a method and path, or the error.
//!
//! Routing follows the recorded server, whose resource paths are templates: an unknown path inside a known group is a
//! `Status`, a path outside every group is a line of text, a known path with an unsupported method is "method not
//! allowed". One trailing slash is ignored, doubled slashes are not.

use std::sync::Arc;

use http::Method;
use percent_encoding::percent_decode_str;
use watchkeeper_meta::{ApiSubresource, Scope};

use crate::catalog::{ApiGroup, ApiVersion, Catalog, ServedResource};
use crate::request_info::{NAMESPACES, asks_to_watch, path_parts};
use crate::{HealthProbe, Verb};

/// The route of a request.
#[derive(Clone, Debug)]
pub enum Route {
    /// `/`: the list of paths.
    Root,
    /// `/version`.
    Version,
    /// `/metrics`.
    Metrics,
    /// `/metrics/slis`: the health checks as metrics.
    HealthMetrics,
    /// `/statusz`: the uptime.
    Statusz,
    /// `/flagz`: the start options.
    Flagz,
    /// `/.well-known/openid-configuration`: discovery of the token issuer.
    OpenIdConfiguration,
    /// `/openid/v1/jwks`: the keys that verify service account tokens.
    JsonWebKeys,
    /// `/healthz`, `/livez`, `/readyz`, or one check below them.
    Health(HealthProbe, Option<String>),
    /// `/debug/{what}`: fault injection, if enabled.
    Debug(String),
    /// `/maintenance/v1/{what}`: backups, compaction and the size of the store.
    Maintenance(String),
    /// The testing API, below `/testing/v1/`.
    Testing(String),
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`: the index.
    OpenApiV3Index,
    /// `/openapi/v3/{path}`: one document.
    OpenApiV3(String),
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: the other groups.
    Groups,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/{version}`, `/apis/{group}/{version}`: the resources of one version.
    Resources(String, String),
    /// Anything below `/apis/{group}/{version}` of a group version that another server serves.
    Aggregated(String, String),
    /// Objects.
    Resource(ResourceRoute),
}

/// A request for objects.
#[derive(Clone, Debug)]
pub struct ResourceRoute {
    /// The verb.
    pub verb: Verb,
    /// The resource.
    pub resource: Arc<ServedResource>,
    /// The namespace; `None` for cluster scope and for all namespaces.
    pub namespace: Option<String>,
    /// The object; `None` for collections.
    pub name: Option<String>,
    /// The subresource.
    pub subresource: Option<ApiSubresource>,
    /// The path after the subresource: only `proxy` has one.
    pub tail: String,
}

/// The reason a request has no route.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// Nothing is served at or near this path: a line of text, not a `Status`.
    NoSuchPage,
    /// The group exists, the path does not.
    NoSuchResource,
    /// The path exists, the method is not supported.
    MethodNotAllowed,
    /// A custom object without that subresource.
    NoSuchPart(Arc<ServedResource>, String),
}

impl Route {
    /// The kind of the requested objects; empty outside the resource API.
    pub(crate) fn kind(&self) -> &str {
        match self {
            Self::Resource(route) => &route.resource.resource.kind,
            _ => "",
        }
    }

    /// Finds the route.
    pub fn find(catalog: &Catalog, method: &Method, path: &str, query: &str) -> Result<Self, Refusal> {
        let path = percent_decode_str(path).decode_utf8_lossy();
        Self::of_decoded(catalog, method, &path, query)
    }

    /// Like [`find`](Self::find), for a percent-decoded path.
    pub(crate) fn of_decoded(
        catalog: &Catalog,
        method: &Method,
        path: &str,
        query: &str,
    ) -> Result<Self, Refusal> {
        let parts = path_parts(path);
        match parts.as_slice() {
            [] => Ok(Self::Root),
            ["version"] => only_get(method, Self::Version),
            ["metrics"] => Ok(Self::Metrics),
            ["metrics", "slis"] => Ok(Self::HealthMetrics),
            ["statusz"] => Ok(Self::Statusz),
            ["flagz"] => Ok(Self::Flagz),
            [".well-known", "openid-configuration"] => only_get(method, Self::OpenIdConfiguration),
            ["openid", "v1", "jwks"] => only_get(method, Self::JsonWebKeys),
            ["testing", "v1", rest @ ..] => Ok(Self::Testing(rest.join("/"))),
            ["maintenance", "v1", what] => Ok(Self::Maintenance((*what).to_owned())),
            ["debug", what] => Ok(Self::Debug((*what).to_owned())),
            ["openapi", "v2"] => Ok(Self::OpenApiV2),
            ["openapi", "v3"] => Ok(Self::OpenApiV3Index),
            ["openapi", "v3", rest @ ..] => Ok(Self::OpenApiV3(rest.join("/"))),
            ["api"] => only_get(method, Self::CoreVersions),
            ["apis"] => Ok(Self::Groups),
            // The recorded server answers these two for every method.
            ["apis", group] if catalog.group(group).is_some() => Ok(Self::Group((*group).to_owned())),
            ["api", version, rest @ ..] => in_version(catalog, method, ("", version), rest, query),
            ["apis", group, version, ..] if catalog.is_remote(group, version) => {
                Ok(Self::Aggregated((*group).to_owned(), (*version).to_owned()))
            }
            ["apis", group, version, rest @ ..] if catalog.group(group).is_some() => {
                in_version(catalog, method, (group, version), rest, query)
            }
            [probe, check @ ..] => health(probe, check, path),
        }
    }
}

fn only_get(method: &Method, route: Route) -> Result<Route, Refusal> {
    match *method {
        Method::GET => Ok(route),
        _ => Err(Refusal::MethodNotAllowed),
    }
}

fn health(probe: &str, check: &[&str], path: &str) -> Result<Route, Refusal> {
    let probe = HealthProbe::parse(probe).ok_or(Refusal::NoSuchPage)?;
    match check {
        [] if path.ends_with('/') => Err(Refusal::NoSuchPage),
        [] => Ok(Route::Health(probe, None)),
        check => Ok(Route::Health(probe, Some(check.join("/")))),
    }
}

fn in_version(
    catalog: &Catalog,
    method: &Method,
    (group, version): (&str, &str),
    rest: &[&str],
    query: &str,
) -> Result<Route, Refusal> {
    let unknown = || match catalog.group(group).is_some_and(ApiGroup::is_custom) {
        true => Refusal::NoSuchPage,
        false => Refusal::NoSuchResource,
    };
    let resources = catalog.version(group, version).ok_or_else(unknown)?;
    if rest.is_empty() {
        return only_get(method, Route::Resources(group.to_owned(), version.to_owned()));
    }
    let place = Place::find(resources, rest);
    let place = place.ok_or_else(|| missing_part(resources, rest).unwrap_or_else(unknown))?;
    place.answer(method, query).map(Route::Resource)
}

/// The error for a `status` or `scale` that a custom kind does not have: the object is not found.
fn missing_part(version: &ApiVersion, rest: &[&str]) -> Option<Refusal> {
    let (whole, part) = rest.split_at_checked(rest.len().checked_sub(1)?)?;
    let place = Place::find(version, whole)?;
    let is_part = matches!(part, ["status" | "scale"]) && place.resource.is_custom();
    let name = place.name.filter(|_| is_part)?;
    Some(Refusal::NoSuchPart(place.resource.clone(), name.to_owned()))
}

/// A path of the resource API, matched against the existing resources.
struct Place<'a> {
    resource: &'a Arc<ServedResource>,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    subresource: Option<&'a ApiSubresource>,
    tail: String,
    /// Below `/watch/`, the deprecated form of `?watch=1`.
    watch: bool,
}

impl<'a> Place<'a> {
    fn find(version: &'a ApiVersion, rest: &[&'a str]) -> Option<Self> {
        if rest.iter().any(|part| part.is_empty()) && !is_proxy_tail(rest) {
            return None;
        }
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let mut place = Self::in_namespace(version, rest).or_else(|| Self::in_cluster(version, rest))?;
        place.watch = watch;
        let fits = !watch || place.resource.allows(Verb::Watch) && place.subresource.is_none();
        (fits && place.exists()).then_some(place)
    }

    /// `namespaces/{namespace}/{resource}…`, for namespaced resources.
    fn in_namespace(version: &'a ApiVersion, rest: &[&'a str]) -> Option<Self> {
        let [NAMESPACES, namespace, plural, rest @ ..] = rest else {
            return None;
        };
        let resource = version.resource(plural)?;
        let namespaced = resource.resource.scope == Scope::Namespaced;
        namespaced
            .then(|| Self::of(resource, Some(namespace), rest))
            .flatten()
    }

    /// `{resource}…`: cluster-scoped objects, or a collection over all namespaces.
    fn in_cluster(version: &'a ApiVersion, rest: &[&'a str]) -> Option<Self> {
        let [plural, rest @ ..] = rest else {
            return None;
        };
        let resource = version.resource(plural)?;
        let fits = resource.resource.scope == Scope::Cluster || rest.is_empty();
        fits.then(|| Self::of(resource, None, rest)).flatten()
    }

    /// `[{name}[/{subresource}[/{tail}]]]`.
    fn of(resource: &'a Arc<ServedResource>, namespace: Option<&'a str>, rest: &[&'a str]) -> Option<Self> {
        let subresource = match rest.get(1) {
            Some(name) => Some(resource.subresource(name)?),
            None => None,
        };
        let tail = rest.get(2..).unwrap_or_default();
        if !tail.is_empty() && subresource.is_some_and(|it| it.name != "proxy") {
            return None;
        }
        Some(Self {
            resource,
            namespace,
            name: rest.first().copied(),
            subresource,
            tail: tail.join("/"),
            watch: false,
        })
    }

    /// A path exists if it supports at least one verb.
    fn exists(&self) -> bool {
        METHODS.iter().any(|method| self.verb(method, "").is_some())
    }

    fn answer(&self, method: &Method, query: &str) -> Result<ResourceRoute, Refusal> {
        let verb = self.verb(method, query).ok_or(Refusal::MethodNotAllowed)?;
        Ok(ResourceRoute {
            verb,
            resource: self.resource.clone(),
            namespace: self.namespace.map(str::to_owned),
            name: self.name.map(str::to_owned),
            subresource: self.subresource.cloned(),
            tail: self.tail.clone(),
        })
    }

    /// The verb of a method on this path, if the resource supports it.
    fn verb(&self, method: &Method, query: &str) -> Option<Verb> {
        let verb = match *method {
            Method::GET if self.watch => Verb::Watch,
            _ if self.watch => return None,
            Method::GET if self.name.is_some() => Verb::Get,
            Method::GET if asks_to_watch(query) => Verb::Watch,
            Method::GET => Verb::List,
            _ if self.spans_namespaces() => return None,
            Method::DELETE if self.name.is_none() => Verb::DeleteCollection,
            Method::POST if self.name.is_none() || self.subresource.is_some() => Verb::Create,
            Method::PUT if self.name.is_some() => Verb::Update,
            Method::PATCH if self.name.is_some() => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ => return None,
        };
        let allowed = match self.subresource {
            Some(subresource) => subresource.has_verb(verb.as_str()),
            // A resource that can be listed but not watched rejects `?watch=1` like a list.
            None => self.resource.allows(verb) || verb == Verb::Watch && self.resource.allows(Verb::List),
        };
        allowed.then_some(verb)
    }

    /// True for a collection of namespaced objects without a namespace: it is read-only.
    fn spans_namespaces(&self) -> bool {
        self.namespace.is_none() && self.resource.resource.scope == Scope::Namespaced
    }
}

/// The methods of resource paths.
const METHODS: [Method; 5] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];

/// The path after `…/proxy/` belongs to the proxied server, empty segments included.
fn is_proxy_tail(rest: &[&str]) -> bool {
    let proxy = rest.iter().position(|part| *part == "proxy");
    let empty = rest.iter().position(|part| part.is_empty());
    matches!((proxy, empty), (Some(proxy), Some(empty)) if proxy < empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, uri: &str, expected: &str) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let method: Method = method.parse().unwrap();
        let printed = match Route::find(&Catalog::new(ServedResource::built_in()), &method, path, query) {
            Ok(Route::Resource(it)) => format!(
                "{} {} ns={} name={} sub={} tail={}",
                it.verb,
                it.resource.resource.plural,
                it.namespace.unwrap_or_default(),
                it.name.unwrap_or_default(),
                it.subresource.map(|it| it.name).unwrap_or_default(),
                it.tail
            ),
            Ok(route) => format!("{route:?}"),
            Err(refusal) => format!("{refusal:?}"),
        };
        assert_eq!(printed, expected, "{method} {uri}");
    }

    #[test]
    fn resource_paths_find_their_verb() {
        check("GET", "/api/v1/pods", "list pods ns= name= sub= tail=");
        check(
            "GET",
            "/api/v1/namespaces/d/pods?watch=1",
            "watch pods ns=d name= sub= tail=",
        );
        check(
            "GET",
            "/api/v1/watch/namespaces/d/pods/p",
            "watch pods ns=d name=p sub= tail=",
        );
        check(
            "GET",
            "/api/v1/namespaces/",
            "list namespaces ns= name= sub= tail=",
        );
        check(
            "GET",
            "/api/v1/namespaces/default/",
            "get namespaces ns= name=default sub= tail=",
        );
        check(
            "GET",
            "/api/v1/namespaces/%64efault",
            "get namespaces ns= name=default sub= tail=",
        );
        check(
            "PUT",
            "/api/v1/namespaces/d/finalize",
            "update namespaces ns= name=d sub=finalize tail=",
        );
        check(
            "POST",
            "/api/v1/namespaces/d/pods/p/eviction",
            "create pods ns=d name=p sub=eviction tail=",
        );
        check(
            "GET",
            "/api/v1/namespaces/d/pods/p/proxy/a//b",
            "get pods ns=d name=p sub=proxy tail=a//b",
        );
    }

    #[test]
    fn known_paths_refuse_other_methods() {
        check("POST", "/api/v1/pods", "MethodNotAllowed");
        check("PUT", "/api/v1/namespaces/d/pods", "MethodNotAllowed");
        check("HEAD", "/api/v1/namespaces/d/pods/p", "MethodNotAllowed");
        check("GET", "/api/v1/namespaces/d/bindings", "MethodNotAllowed");
        check("DELETE", "/api/v1/namespaces", "MethodNotAllowed");
        check("POST", "/version", "MethodNotAllowed");
    }

    #[test]
    fn unknown_paths_have_different_errors() {
        check("GET", "/nope", "NoSuchPage");
        check("GET", "/apis/nope.example.com", "NoSuchPage");
        check("GET", "/apis/nope.example.com/v1/things", "NoSuchPage");
        check("GET", "/apis/apps/v9", "NoSuchResource");
        check("GET", "/api/v2/pods", "NoSuchResource");
        check("GET", "/api/v1/nope", "NoSuchResource");
        check("GET", "/api/v1/watch/nope", "NoSuchResource");
        check("GET", "/api/v1//namespaces/default", "NoSuchResource");
        check(
            "GET",
            "/api/v1/namespaces/../namespaces/default",
            "NoSuchResource",
        );
        check("GET", "/api/v1/namespaces/a%2Fb", "NoSuchResource");
        check("GET", "/api/v1/namespaces/d/nodes", "NoSuchResource");
        check("GET", "/api/v1/namespaces/d/pods/p/nope", "NoSuchResource");
    }

    #[test]
    fn other_paths_are_routed() {
        check("GET", "/", "Root");
        check("GET", "/version/", "Version");
        check("GET", "/livez", "Health(Livez, None)");
        check("GET", "/livez/etcd", "Health(Livez, Some(\"etcd\"))");
        check("GET", "/api/", "CoreVersions");
        check("DELETE", "/apis/apps", "Group(\"apps\")");
        check("GET", "/api/v1", "Resources(\"\", \"v1\")");
        check("GET", "/openapi/v3/apis/apps/v1", "OpenApiV3(\"apis/apps/v1\")");
    }
}
