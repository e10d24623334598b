//! The objects every cluster starts with: namespaces, RBAC roles for users and clients, priority classes, flow
//! schemas and priority levels, and the `kubernetes` service with its service CIDR. The server
//! [announces](Registry::announce) what only it knows: its address and the client certificate authorities it accepts.
//! With these come the roles of Kubernetes' components, which cannot reach a server without a port.

use std::net::SocketAddr;

use futures_util::future::{try_join, try_join_all, try_join4};
use serde_json::{Value, json};
use watchkeeper_kinds::{
    Condition, Kind, Part, builtin, suggested_flow_schemas, suggested_priority_levels, system_classes,
};
use watchkeeper_meta::{DeleteOptions, Status};

use crate::allocate::SERVICE_RANGE;
use crate::context::{WriteContext, timestamp};
use crate::rbac::{component_objects, default_objects};
use crate::write::{Configuration, DeleteAdmission, Target, Write};
use crate::{Registry, metadata};

/// The namespaces of every cluster.
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// The field manager of these objects.
const MANAGER: &str = "kube-apiserver";
/// The field manager of the service CIDR's status.
const CIDR_MANAGER: &str = "kubernetes-service-cidr-controller";
/// The name of the server's service and of the objects that belong to it.
const KUBERNETES: &str = "kubernetes";

/// The facts about a server that it announces in the cluster.
#[derive(Clone, Debug, Default)]
pub struct Announcement {
    /// Its address, if it listens on one.
    pub address: Option<SocketAddr>,
    /// The client certificate authorities it accepts, PEM.
    pub client_authority: Option<String>,
    /// Its identity as a front proxy.
    pub front_proxy: Option<AnnouncedProxy>,
}

/// The identity of a front proxy, for aggregated API servers, and the headers in which it names the user.
#[derive(Clone, Debug)]
pub struct AnnouncedProxy {
    /// The certificate authorities of proxies' client certificates, PEM.
    pub authority: String,
    /// The common names of accepted proxies; empty accepts all.
    pub allowed_names: Vec<String>,
    /// The headers with the user name.
    pub username_headers: Vec<String>,
    /// The headers with the groups.
    pub group_headers: Vec<String>,
    /// The headers with the uid.
    pub uid_headers: Vec<String>,
    /// The prefixes of headers with extra attributes.
    pub extra_headers_prefix: Vec<String>,
}

impl Default for AnnouncedProxy {
    /// The headers that a Kubernetes server sends.
    fn default() -> Self {
        let one = |header: &str| vec![header.to_owned()];
        Self {
            authority: String::new(),
            allowed_names: Vec::new(),
            username_headers: one("X-Remote-User"),
            group_headers: one("X-Remote-Group"),
            uid_headers: one("X-Remote-Uid"),
            extra_headers_prefix: one("X-Remote-Extra-"),
        }
    }
}

impl Registry {
    /// Creates the objects that do not exist yet.
    pub(crate) async fn bootstrap(&self) -> Result<(), Status> {
        let namespace = |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let namespaces = NAMESPACES
            .iter()
            .map(|name| self.ensure(&builtin::NAMESPACE, "", namespace(name)));
        let roles = default_objects();
        let roles = roles
            .into_iter()
            .map(|(kind, namespace, object)| self.ensure(kind, namespace, object));
        let classes = system_classes().map(|class| self.ensure(&builtin::PRIORITY_CLASS, "", class));
        let levels = suggested_priority_levels()
            .map(|level| self.ensure(&builtin::PRIORITY_LEVEL_CONFIGURATION, "", level));
        let schemas = suggested_flow_schemas().into_iter();
        let schemas = schemas.map(|schema| self.ensure(&builtin::FLOW_SCHEMA, "", schema));
        // Concurrently, so that a durable store commits them together.
        let (_, _, _, schemas) = try_join4(
            try_join_all(namespaces),
            try_join_all(roles),
            try_join_all(classes.chain(levels)),
            try_join_all(schemas),
        )
        .await?;
        // Schemas of an earlier run have their status already.
        if schemas.contains(&true) {
            self.settle_flow_schemas().await?;
        }
        let (_, is_new) = try_join(
            Box::pin(self.ensure_service_cidr()),
            self.ensure(&builtin::SERVICE, "default", kubernetes_service()),
        )
        .await?;
        match is_new {
            true => Ok(()),
            // Services of an earlier run may lack their IPAddress.
            false => self.settle_ip_addresses().await,
        }
    }

    async fn ensure_service_cidr(&self) -> Result<(), Status> {
        match self.ensure(&builtin::SERVICE_CIDR, "", service_cidr()).await? {
            true => self.mark_service_cidr_ready().await,
            false => Ok(()),
        }
    }

    /// Writes the server's address and accepted authorities into the objects that clients read. A server without a
    /// port announces nothing: it has no remote clients, and tests see only their own ConfigMaps.
    pub async fn announce(&self, server: &Announcement) -> Result<(), Status> {
        let Some(address) = server.address else {
            return Ok(());
        };
        let trust = authentication(server);
        let trust = self.put(&builtin::CONFIG_MAP, "kube-system", trust);
        let tracking = token_tracking(&timestamp(self.clock().now()));
        let tracking = self.ensure(&builtin::CONFIG_MAP, "kube-system", tracking);
        let endpoints = self.put(&builtin::ENDPOINTS, "default", endpoints(address));
        let slice = self.put(&builtin::ENDPOINT_SLICE, "default", endpoint_slice(address));
        let roles = component_objects();
        let roles = roles
            .into_iter()
            .map(|(kind, namespace, role)| self.ensure(kind, namespace, role));
        let (..) = try_join(try_join4(trust, tracking, endpoints, slice), try_join_all(roles)).await?;
        Ok(())
    }

    /// Creates an object of the server, or replaces it if it differs.
    async fn put(&self, kind: &'static Kind, namespace: &str, object: Value) -> Result<(), Status> {
        let (definition, context) = (self.builtin(kind)?, WriteContext::by_server(MANAGER));
        let name = metadata::text(&object, "name").to_owned();
        let target = Target::new(&definition, namespace, &name, Part::Object);
        if let Some(found) = self.find(&definition, namespace, &name).await? {
            let found = found.to_value(&definition)?;
            let mut said = object.as_object().into_iter().flatten();
            if said.all(|(name, value)| name == "metadata" || found[name] == *value) {
                return Ok(());
            }
            let mut write = Write::unguarded(self, target, &context);
            let deleted = write
                .delete(&DeleteOptions::default(), DeleteAdmission::Skip)
                .await;
            if let Err(status) = deleted
                && !status.is_not_found()
            {
                return Err(status);
            }
        }
        let mut write = Write::unguarded(self, target, &context);
        write.create_unchecked(object).await
    }

    /// Sets the condition `Ready` of the service CIDR, as its controller does in Kubernetes.
    async fn mark_service_cidr_ready(&self) -> Result<(), Status> {
        let definition = self.builtin(&builtin::SERVICE_CIDR)?;
        let context = WriteContext::by_server(CIDR_MANAGER);
        let condition = Condition {
            kind: "Ready",
            status: "True",
            reason: "",
            message: "Kubernetes default Service CIDR is ready",
        };
        let condition = condition.following(None, &timestamp(self.clock().now()));
        let value = json!({
            "apiVersion": definition.api_version, "kind": definition.resource.kind,
            "metadata": {"name": KUBERNETES}, "status": {"conditions": [condition]},
        });
        let target = Target::new(&definition, "", KUBERNETES, Part::Status);
        let config = Configuration { value, untidy: None };
        let mut write = Write::unguarded(self, target, &context);
        write.apply(config, true).await.map(drop)
    }

    /// Creates an object unless it exists; returns true if it was created.
    async fn ensure(&self, kind: &'static Kind, namespace: &str, object: Value) -> Result<bool, Status> {
        let (definition, context) = (self.builtin(kind)?, WriteContext::by_server(MANAGER));
        let name = metadata::text(&object, "name").to_owned();
        // Stored by an earlier run, with its address.
        if self.find(&definition, namespace, &name).await?.is_some() {
            return Ok(false);
        }
        let target = Target::new(&definition, namespace, &name, Part::Object);
        match Write::unguarded(self, target, &context).create(object).await {
            Ok(_) => Ok(true),
            // Another server that shares the store may have created it at the same time.
            Err(status) => match self.find(&definition, namespace, &name).await? {
                Some(_) => Ok(false),
                None => Err(status),
            },
        }
    }
}

/// The range of cluster IPs.
fn service_cidr() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": KUBERNETES},
        "spec": {"cidrs": [SERVICE_RANGE]},
    })
}

/// The start of the tracking of legacy service account tokens.
fn token_tracking(now: &str) -> Value {
    let date = now.split('T').next().unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking"},
        "data": {"since": date},
    })
}

/// The accepted client certificate authorities, and the front proxy's identity.
fn authentication(server: &Announcement) -> Value {
    let mut data = serde_json::Map::new();
    if let Some(pem) = &server.client_authority {
        data.insert("client-ca-file".to_owned(), json!(pem));
    }
    if let Some(proxy) = &server.front_proxy {
        data.insert("requestheader-client-ca-file".to_owned(), json!(proxy.authority));
        for (key, words) in [
            ("requestheader-allowed-names", &proxy.allowed_names),
            ("requestheader-extra-headers-prefix", &proxy.extra_headers_prefix),
            ("requestheader-group-headers", &proxy.group_headers),
            ("requestheader-uid-headers", &proxy.uid_headers),
            ("requestheader-username-headers", &proxy.username_headers),
        ] {
            let mut words = words.clone();
            words.dedup();
            data.insert(key.to_owned(), json!(json!(words).to_string()));
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication"},
        "data": data,
    })
}

/// The server's address as Endpoints.
fn endpoints(address: SocketAddr) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": KUBERNETES, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{
            "addresses": [{"ip": address.ip().to_string()}],
            "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
        }],
    })
}

/// The server's address as an EndpointSlice.
fn endpoint_slice(address: SocketAddr) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": KUBERNETES, "labels": {"kubernetes.io/service-name": KUBERNETES}},
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address.ip().to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
    })
}

/// The service through which programs in the cluster find the server.
fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": KUBERNETES,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    })
}
