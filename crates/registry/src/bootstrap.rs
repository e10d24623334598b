//! What every cluster has from the start: namespaces, the rights of people and of any client, the priorities of the
//! cluster's own parts, the flow schemas and priority levels of requests, and the service that leads to the server, with
//! the range its address is from. What only the server knows, where it listens and whose certificates it takes, is
//! [announced](Registry::announce) by it.
//!
//! Not made is what only others' parts would read: the roles of Kubernetes' components.

use std::net::SocketAddr;

use futures_util::future::{try_join, try_join_all, try_join4};
use serde_json::{Value, json};
use watchkeeper_kinds::{
    Kind, Part, builtin, suggested_flow_schemas, suggested_priority_levels, system_classes,
};
use watchkeeper_meta::{DeleteOptions, Status};

use crate::allocate::SERVICE_RANGE;
use crate::context::{WriteContext, timestamp};
use crate::rbac::{default_objects, delegation_objects};
use crate::write::{Configuration, DeleteAdmission, Target, Write};
use crate::{Registry, metadata};

/// The four namespaces of every cluster.
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// Who is said to have made them.
const MANAGER: &str = "kube-apiserver";
/// Who is said to have looked after the range of cluster addresses.
const CIDR_MANAGER: &str = "kubernetes-service-cidr-controller";
/// What the server is called as a service, and what belongs to it.
const KUBERNETES: &str = "kubernetes";

/// What only a server knows of itself.
#[derive(Clone, Debug, Default)]
pub struct Announcement {
    /// Where it can be reached, if it can.
    pub address: Option<SocketAddr>,
    /// The authorities whose client certificates it takes, PEM.
    pub client_authority: Option<String>,
    /// How others know that it speaks for a user.
    pub front_proxy: Option<AnnouncedProxy>,
}

/// How an aggregated API server knows a front proxy, and the headers in which that names a user.
#[derive(Clone, Debug)]
pub struct AnnouncedProxy {
    /// The authorities of the client certificates of proxies, PEM.
    pub authority: String,
    /// The common names of proxies that are believed; all if empty.
    pub allowed_names: Vec<String>,
    /// Headers with the name of a user.
    pub username_headers: Vec<String>,
    /// Headers with the groups of a user.
    pub group_headers: Vec<String>,
    /// Headers with the uid of a user.
    pub uid_headers: Vec<String>,
    /// How headers begin that say more of a user.
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
    /// Creates what every cluster has, as far as it is not there.
    pub(crate) async fn bootstrap(&self) -> Result<(), Status> {
        let namespace = |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let namespaces = NAMESPACES
            .iter()
            .map(|name| self.ensure(&builtin::NAMESPACE, "", namespace(name)));
        let rights = default_objects();
        let rights = rights
            .into_iter()
            .map(|(kind, object)| self.ensure(kind, "", object));
        let classes = system_classes().map(|class| self.ensure(&builtin::PRIORITY_CLASS, "", class));
        let levels = suggested_priority_levels()
            .map(|level| self.ensure(&builtin::PRIORITY_LEVEL_CONFIGURATION, "", level));
        let schemas = suggested_flow_schemas().into_iter();
        let schemas = schemas.map(|schema| self.ensure(&builtin::FLOW_SCHEMA, "", schema));
        // All at once, because a durable store then makes one commit of them.
        let (_, _, _, schemas) = try_join4(
            try_join_all(namespaces),
            try_join_all(rights),
            try_join_all(classes.chain(levels)),
            try_join_all(schemas),
        )
        .await?;
        // Schemas of an earlier run say already whether their levels exist.
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
            // Services of an earlier run may not have got theirs.
            false => self.settle_ip_addresses().await,
        }
    }

    async fn ensure_service_cidr(&self) -> Result<(), Status> {
        match self.ensure(&builtin::SERVICE_CIDR, "", service_cidr()).await? {
            true => self.mark_service_cidr_ready().await,
            false => Ok(()),
        }
    }

    /// Says what the server takes and where it is, in the objects that clients look into. One without a port has nothing to
    /// say: nobody can come from elsewhere, and a test has its maps for itself.
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
        let roles = delegation_objects();
        let roles = roles.map(|(kind, namespace, role)| self.ensure(kind, namespace, role));
        let (..) = try_join(try_join4(trust, tracking, endpoints, slice), try_join_all(roles)).await?;
        Ok(())
    }

    /// Makes an object of the server's own be as it should: one that is otherwise is made anew.
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

    /// Says of the first range that it can be used, as the controller that looks after it does.
    async fn mark_service_cidr_ready(&self) -> Result<(), Status> {
        let definition = self.builtin(&builtin::SERVICE_CIDR)?;
        let context = WriteContext::by_server(CIDR_MANAGER);
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "",
            "message": "Kubernetes default Service CIDR is ready",
            "lastTransitionTime": timestamp(self.clock().now()),
        });
        let value = json!({
            "apiVersion": definition.api_version, "kind": definition.resource.kind,
            "metadata": {"name": KUBERNETES}, "status": {"conditions": [condition]},
        });
        let target = Target::new(&definition, "", KUBERNETES, Part::Status);
        let config = Configuration { value, untidy: None };
        let mut write = Write::unguarded(self, target, &context);
        write.apply(config, true).await.map(drop)
    }

    /// Creates an object unless it is there. Returns whether it was created.
    async fn ensure(&self, kind: &'static Kind, namespace: &str, object: Value) -> Result<bool, Status> {
        let (definition, context) = (self.builtin(kind)?, WriteContext::by_server(MANAGER));
        let name = metadata::text(&object, "name").to_owned();
        // Data of an earlier run has it, and its address with it.
        if self.find(&definition, namespace, &name).await?.is_some() {
            return Ok(false);
        }
        let target = Target::new(&definition, namespace, &name, Part::Object);
        match Write::unguarded(self, target, &context).create(object).await {
            Ok(_) => Ok(true),
            // Another server that shares the store may have begun at the same moment.
            Err(status) => match self.find(&definition, namespace, &name).await? {
                Some(_) => Ok(false),
                None => Err(status),
            },
        }
    }
}

/// Where cluster addresses come from.
fn service_cidr() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": KUBERNETES},
        "spec": {"cidrs": [SERVICE_RANGE]},
    })
}

/// Since when tokens in Secrets are looked at when they are used.
fn token_tracking(now: &str) -> Value {
    let date = now.split('T').next().unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking"},
        "data": {"since": date},
    })
}

/// Whose client certificates the server takes, and how others know that it speaks for a user.
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

/// Where the server is, for those who read Endpoints.
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

/// Where the server is, for those who read slices.
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

/// How programs in the cluster find the server.
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
