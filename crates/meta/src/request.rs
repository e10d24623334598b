//! Builds requests: a resource, a verb and options in; an `http::Request` out.
//!
//! Nothing is sent here. The URI has only path and query; the sender adds the host. [`CollectionRequests`] addresses
//! many objects or a new one, [`ObjectRequests`] one object or one of its subresources. Names that would change the
//! structure of the path are refused.

pub mod accept;
mod path;
mod payload;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};

pub use path::RequestError;
pub use payload::{PatchKind, Payload};

use crate::{
    ApplyOptions, AttachOptions, CreateOptions, DeleteOptions, ExecOptions, GetOptions, ListOptions,
    LogOptions, PatchOptions, PortForwardOptions, Resource, UpdateOptions, WatchOptions,
};
use path::Path;
use payload::APPLY;

/// Requests for the objects of a resource, in one namespace or in all.
///
/// ```
/// use watchkeeper_meta::{CollectionRequests, ListOptions, Resource, Scope};
/// let pods = Resource::namespaced("", "v1", "Pod", "pods");
/// let options = ListOptions { limit: Some(500), ..Default::default() };
/// let request = CollectionRequests::in_namespace(&pods, "default").list(&options)?;
/// assert_eq!(request.uri(), "/api/v1/namespaces/default/pods?limit=500");
/// # Ok::<(), watchkeeper_meta::RequestError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CollectionRequests<'a> {
    resource: &'a Resource,
    namespace: &'a str,
    accept: &'a str,
}

/// Requests for one object, or one of its subresources.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRequests<'a> {
    collection: CollectionRequests<'a>,
    name: &'a str,
    subresource: Option<&'a str>,
}

impl<'a> CollectionRequests<'a> {
    /// All objects of a cluster-scoped resource, or those of all namespaces.
    pub fn everywhere(resource: &'a Resource) -> Self {
        Self::in_namespace(resource, "")
    }

    /// The objects of one namespace; an empty namespace means the whole cluster.
    pub fn in_namespace(resource: &'a Resource, namespace: &'a str) -> Self {
        Self {
            resource,
            namespace,
            accept: accept::JSON,
        }
    }

    /// Sets the accepted encodings, one of [`accept`]. The default is JSON.
    pub fn accepting(self, accept: &'a str) -> Self {
        Self { accept, ..self }
    }

    /// One of the objects.
    pub fn object(self, name: &'a str) -> ObjectRequests<'a> {
        ObjectRequests {
            collection: self,
            name,
            subresource: None,
        }
    }

    /// Lists objects.
    pub fn list(&self, options: &ListOptions) -> Result<Request<Vec<u8>>, RequestError> {
        build(
            Method::GET,
            self.path()?.with_query(&options.to_query()),
            self.accept,
            None,
        )
    }

    /// Watches objects.
    pub fn watch(&self, options: &WatchOptions) -> Result<Request<Vec<u8>>, RequestError> {
        build(
            Method::GET,
            self.path()?.with_query(&options.to_query()),
            self.accept,
            None,
        )
    }

    /// Creates an object.
    pub fn create(&self, object: Payload, options: &CreateOptions) -> Result<Request<Vec<u8>>, RequestError> {
        if path::needs_namespace(self.resource, self.namespace) {
            return Err(RequestError::CreateWithoutNamespace);
        }
        let target = self.path()?.with_query(&options.to_query());
        build(Method::POST, target, self.accept, Some(object))
    }

    /// Deletes the objects that `which` selects.
    pub fn delete(
        &self,
        which: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Request<Vec<u8>>, RequestError> {
        let target = self.path()?.with_query(&which.to_query());
        build(
            Method::DELETE,
            target,
            self.accept,
            Some(Payload::delete_options(options)),
        )
    }

    fn path(&self) -> Result<Path, RequestError> {
        Path::collection(self.resource, self.namespace)
    }
}

impl<'a> ObjectRequests<'a> {
    /// Sets the accepted encodings, one of [`accept`].
    pub fn accepting(mut self, accept: &'a str) -> Self {
        self.collection.accept = accept;
        self
    }

    /// Addresses a subresource: `status`, `scale`, `eviction`, `binding`, `token`, `approval`, `finalize` …
    pub fn subresource(self, subresource: &'a str) -> Self {
        Self {
            subresource: Some(subresource),
            ..self
        }
    }

    /// Reads the object.
    pub fn get(&self, options: &GetOptions) -> Result<Request<Vec<u8>>, RequestError> {
        self.build(Method::GET, &options.to_query(), None)
    }

    /// Posts to a subresource: evicts, binds, requests a token.
    pub fn create(&self, body: Payload, options: &CreateOptions) -> Result<Request<Vec<u8>>, RequestError> {
        self.build(Method::POST, &options.to_query(), Some(body))
    }

    /// Replaces the object.
    pub fn update(&self, body: Payload, options: &UpdateOptions) -> Result<Request<Vec<u8>>, RequestError> {
        self.build(Method::PUT, &options.to_query(), Some(body))
    }

    /// Patches the object.
    pub fn patch(
        &self,
        kind: PatchKind,
        patch: Vec<u8>,
        options: &PatchOptions,
    ) -> Result<Request<Vec<u8>>, RequestError> {
        let patch = Payload::new(kind.content_type(), patch);
        self.build(Method::PATCH, &options.to_query(), Some(patch))
    }

    /// Applies a configuration, in JSON or YAML (server-side apply).
    pub fn apply(
        &self,
        configuration: Vec<u8>,
        options: &ApplyOptions,
    ) -> Result<Request<Vec<u8>>, RequestError> {
        let configuration = Payload::new(APPLY, configuration);
        self.build(Method::PATCH, &options.to_query(), Some(configuration))
    }

    /// Deletes the object.
    pub fn delete(&self, options: &DeleteOptions) -> Result<Request<Vec<u8>>, RequestError> {
        self.build(Method::DELETE, "", Some(Payload::delete_options(options)))
    }

    /// Reads a pod's log.
    pub fn log(&self, options: &LogOptions) -> Result<Request<Vec<u8>>, RequestError> {
        self.subresource("log").connect(&options.to_query())
    }

    /// Runs a command in a pod. The sender adds the upgrade headers, as for attach and port-forward.
    pub fn exec(&self, options: &ExecOptions) -> Result<Request<Vec<u8>>, RequestError> {
        self.subresource("exec").connect(&options.to_query())
    }

    /// Attaches to a pod's process.
    pub fn attach(&self, options: &AttachOptions) -> Result<Request<Vec<u8>>, RequestError> {
        self.subresource("attach").connect(&options.to_query())
    }

    /// Forwards connections to a pod.
    pub fn port_forward(&self, options: &PortForwardOptions) -> Result<Request<Vec<u8>>, RequestError> {
        self.subresource("portforward").connect(&options.to_query())
    }

    /// Calls a pod, service or node through the server's proxy. `target` is a path with an optional query, already
    /// percent-encoded.
    pub fn proxy(
        &self,
        method: Method,
        target: &str,
        body: Option<Payload>,
    ) -> Result<Request<Vec<u8>>, RequestError> {
        let path = self.subresource("proxy").path()?.with_proxied(target)?;
        build(method, path, accept::ANYTHING, body)
    }

    fn connect(&self, query: &str) -> Result<Request<Vec<u8>>, RequestError> {
        build(
            Method::GET,
            self.path()?.with_query(query),
            accept::ANYTHING,
            None,
        )
    }

    fn build(
        &self,
        method: Method,
        query: &str,
        body: Option<Payload>,
    ) -> Result<Request<Vec<u8>>, RequestError> {
        build(
            method,
            self.path()?.with_query(query),
            self.collection.accept,
            body,
        )
    }

    fn path(&self) -> Result<Path, RequestError> {
        let CollectionRequests {
            resource, namespace, ..
        } = self.collection;
        Path::object(resource, namespace, self.name, self.subresource)
    }
}

fn build(
    method: Method,
    target: Path,
    accept: &str,
    body: Option<Payload>,
) -> Result<Request<Vec<u8>>, RequestError> {
    let mut request = Request::builder()
        .method(method)
        .uri(target.into_string())
        .header(ACCEPT, accept);
    if let Some(body) = &body {
        request = request.header(CONTENT_TYPE, body.content_type());
    }
    request
        .body(body.map(Payload::into_bytes).unwrap_or_default())
        .map_err(RequestError::Build)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FieldSelector, LabelSelector, PropagationPolicy, Scope};

    fn resource(group: &'static str, plural: &'static str, scope: Scope) -> Resource {
        Resource {
            group: group.into(),
            version: "v1".into(),
            kind: "X".into(),
            plural: plural.into(),
            scope,
        }
    }

    fn check(
        request: Result<Request<Vec<u8>>, RequestError>,
        line: &str,
        content_type: Option<&str>,
        body: &str,
    ) {
        let request = request.unwrap();
        assert_eq!(format!("{} {}", request.method(), request.uri()), line);
        let sent = request
            .headers()
            .get(CONTENT_TYPE)
            .map(|value| value.to_str().unwrap());
        assert_eq!(
            (sent, std::str::from_utf8(request.body()).unwrap()),
            (content_type, body),
            "{line}"
        );
    }

    #[test]
    fn collections_have_verbs() {
        let pods = resource("", "pods", Scope::Namespaced);
        let all = CollectionRequests::everywhere(&pods);
        let some = CollectionRequests::in_namespace(&pods, "ns");
        let selected = ListOptions {
            label_selector: "a=b".parse::<LabelSelector>().unwrap(),
            ..Default::default()
        };
        check(all.list(&ListOptions::default()), "GET /api/v1/pods", None, "");
        check(
            all.watch(&WatchOptions {
                field_selector: FieldSelector::name("a"),
                ..Default::default()
            }),
            "GET /api/v1/pods?fieldSelector=metadata.name%3Da&watch=true",
            None,
            "",
        );
        check(
            some.create(
                Payload::json(b"{}".to_vec()),
                &CreateOptions {
                    dry_run: true,
                    ..Default::default()
                },
            ),
            "POST /api/v1/namespaces/ns/pods?dryRun=All",
            Some("application/json"),
            "{}",
        );
        check(
            some.delete(&selected, &DeleteOptions::default()),
            "DELETE /api/v1/namespaces/ns/pods?labelSelector=a%3Db",
            Some("application/json"),
            r#"{"kind":"DeleteOptions","apiVersion":"v1"}"#,
        );
    }

    #[test]
    fn objects_have_verbs() {
        let deployments = resource("apps", "deployments", Scope::Namespaced);
        let web = CollectionRequests::in_namespace(&deployments, "ns").object("web");
        let line = "/apis/apps/v1/namespaces/ns/deployments/web";
        check(web.get(&GetOptions::default()), &format!("GET {line}"), None, "");
        check(
            web.subresource("status")
                .update(Payload::protobuf(b"k8s".to_vec()), &UpdateOptions::default()),
            &format!("PUT {line}/status"),
            Some("application/vnd.kubernetes.protobuf"),
            "k8s",
        );
        check(
            web.subresource("scale")
                .patch(PatchKind::Merge, b"{}".to_vec(), &PatchOptions::default()),
            &format!("PATCH {line}/scale"),
            Some("application/merge-patch+json"),
            "{}",
        );
        let apply = ApplyOptions {
            field_manager: "me".into(),
            force: true,
            ..Default::default()
        };
        check(
            web.apply(b"a: b".to_vec(), &apply),
            &format!("PATCH {line}?fieldManager=me&force=true"),
            Some("application/apply-patch+yaml"),
            "a: b",
        );
        let background = DeleteOptions {
            propagation_policy: Some(PropagationPolicy::Background),
            ..Default::default()
        };
        check(
            web.delete(&background),
            &format!("DELETE {line}"),
            Some("application/json"),
            r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}"#,
        );
    }

    #[test]
    fn pods_can_be_talked_to() {
        let pods = resource("", "pods", Scope::Namespaced);
        let pod = CollectionRequests::in_namespace(&pods, "ns").object("p");
        let line = "/api/v1/namespaces/ns/pods/p";
        let exec = ExecOptions {
            command: vec!["ls".into()],
            stdout: true,
            ..Default::default()
        };
        check(
            pod.exec(&exec),
            &format!("GET {line}/exec?command=ls&stdout=true"),
            None,
            "",
        );
        check(
            pod.attach(&AttachOptions::default()),
            &format!("GET {line}/attach"),
            None,
            "",
        );
        check(
            pod.port_forward(&PortForwardOptions { ports: vec![80] }),
            &format!("GET {line}/portforward?ports=80"),
            None,
            "",
        );
        let log = LogOptions {
            tail_lines: Some(5),
            ..Default::default()
        };
        check(pod.log(&log), &format!("GET {line}/log?tailLines=5"), None, "");
        check(
            pod.subresource("eviction")
                .create(Payload::json(b"{}".to_vec()), &CreateOptions::default()),
            &format!("POST {line}/eviction"),
            Some("application/json"),
            "{}",
        );
        check(
            pod.proxy(Method::POST, "a%20b/c?d=e", None),
            &format!("POST {line}/proxy/a%20b/c?d=e"),
            None,
            "",
        );
    }

    #[test]
    fn names_may_hold_what_urls_escape() {
        let roles = resource("rbac.authorization.k8s.io", "clusterroles", Scope::Cluster);
        let role = CollectionRequests::everywhere(&roles).object("system:a b?");
        check(
            role.get(&GetOptions::default()),
            "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b%3F",
            None,
            "",
        );
    }

    #[test]
    fn the_accepted_encodings_are_the_callers_choice() {
        let pods = resource("", "pods", Scope::Namespaced);
        let accept = |request: Request<Vec<u8>>| request.headers()[ACCEPT].to_str().unwrap().to_owned();
        let all = CollectionRequests::everywhere(&pods);
        assert_eq!(
            accept(all.list(&ListOptions::default()).unwrap()),
            "application/json"
        );
        let protobuf = all.accepting(accept::PROTOBUF);
        assert_eq!(
            accept(protobuf.list(&ListOptions::default()).unwrap()),
            "application/vnd.kubernetes.protobuf,application/json"
        );
    }
}
