//! What every cluster has from the start: namespaces, the rights of people and of any client, the priorities of the
//! cluster's own parts, the flow schemas and priority levels of requests, and the service that leads to the server.
//!
//! Not made is what only others' parts would read: the roles of Kubernetes' components.

use futures_util::future::{try_join_all, try_join4};
use serde_json::{Value, json};
use watchkeeper_kinds::{
    Kind, Part, builtin, suggested_flow_schemas, suggested_priority_levels, system_classes,
};
use watchkeeper_meta::Status;

use crate::context::WriteContext;
use crate::rbac::default_objects;
use crate::write::{Target, Write};
use crate::{Registry, metadata};

/// The four namespaces of every cluster.
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// Who is said to have made them.
const MANAGER: &str = "kube-apiserver";

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
        let service = self.ensure(&builtin::SERVICE, "default", kubernetes_service());
        service.await.map(drop)
    }

    /// Creates an object unless it is there. Returns whether it was created.
    async fn ensure(&self, kind: &'static Kind, namespace: &str, object: Value) -> Result<bool, Status> {
        let definition = self.builtin(kind)?;
        let context = WriteContext {
            manager: MANAGER.to_owned(),
            by_server: true,
            ..Default::default()
        };
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

/// How programs in the cluster find the server.
fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
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
