//! Maintains an IPAddress object for each cluster IP of a service: created and deleted with the service.
//!
//! Allocation is decided by the services ([`allocate`](crate::allocate)); these objects are for readers. One that
//! could not be written is written at the next start.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use watchkeeper_kinds::{Part, builtin};
use watchkeeper_meta::{DeleteOptions, Status};

use super::{DeleteAdmission, Target, Write};
use crate::allocate::addresses;
use crate::context::WriteContext;
use crate::{Registry, metadata};

/// The field manager of these objects.
const MANAGER: &str = "kube-apiserver";
/// The value of their `managed-by` label.
const MANAGED_BY: &str = "ipallocator.k8s.io";

impl Registry {
    /// Creates and deletes the IPAddresses after a write of a service. Errors are only logged: the service is stored.
    pub(crate) fn follow_service<'a>(
        &'a self,
        before: Option<&'a Value>,
        after: Option<&'a Value>,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let service = after.or(before).unwrap_or(&Value::Null);
            let of =
                |service: Option<&'a Value>| service.into_iter().flat_map(addresses).collect::<BTreeSet<_>>();
            let (had, has) = (of(before), of(after));
            for address in had.difference(&has) {
                note(address, self.remove_address(address, service).await);
            }
            for address in has.difference(&had) {
                note(address, self.add_address(address, service).await);
            }
        })
    }

    /// Creates missing IPAddresses, and deletes those without a service.
    pub(crate) async fn settle_ip_addresses(&self) -> Result<(), Status> {
        let services = self.all_values(&*self.builtin(&builtin::SERVICE)?).await?;
        let known = self.all_values(&*self.builtin(&builtin::IP_ADDRESS)?).await?;
        let known: BTreeMap<&str, &Value> = known.iter().map(|it| (metadata::text(it, "name"), it)).collect();
        let mut taken = BTreeSet::new();
        for service in &services {
            for address in addresses(service) {
                taken.insert(address);
                if !known.contains_key(address) {
                    self.add_address(address, service).await?;
                }
            }
        }
        for (address, known) in known {
            let parent = &known["spec"]["parentRef"];
            let is_ours = known["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"] == MANAGED_BY;
            if is_ours && !taken.contains(address) {
                let service = json!({"metadata": {"name": parent["name"], "namespace": parent["namespace"]}});
                self.remove_address(address, &service).await?;
            }
        }
        Ok(())
    }

    async fn add_address(&self, address: &str, service: &Value) -> Result<(), Status> {
        let family = match address.parse() {
            Ok(IpAddr::V6(_)) => "IPv6",
            _ => "IPv4",
        };
        let labels = json!({
            "ipaddress.kubernetes.io/ip-family": family,
            "ipaddress.kubernetes.io/managed-by": MANAGED_BY,
        });
        let (definition, context) = (
            self.builtin(&builtin::IP_ADDRESS)?,
            WriteContext::by_server(MANAGER),
        );
        let object = json!({
            "apiVersion": definition.api_version,
            "kind": definition.kind.name,
            "metadata": {"name": address, "labels": labels},
            "spec": {"parentRef": parent(service)},
        });
        let target = Target::new(&definition, "", address, Part::Object);
        // Boxed: it is a write within a write.
        match Write::unguarded(self, target, &context).create(object).await {
            Err(status) if !status.is_already_exists() => Err(status),
            _ => Ok(()),
        }
    }

    async fn remove_address(&self, address: &str, service: &Value) -> Result<(), Status> {
        let (definition, context) = (
            self.builtin(&builtin::IP_ADDRESS)?,
            WriteContext::by_server(MANAGER),
        );
        let Some(found) = self.find(&definition, "", address).await? else {
            return Ok(());
        };
        if found.to_value(&definition)?["spec"]["parentRef"] != parent(service) {
            return Ok(());
        }
        let target = Target::new(&definition, "", address, Part::Object);
        let mut write = Write::unguarded(self, target, &context);
        let options = DeleteOptions::default();
        match write.delete(&options, DeleteAdmission::Skip).await {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }
}

fn note(address: &str, done: Result<(), Status>) {
    if let Err(status) = done {
        tracing::warn!(
            "the IPAddress {address} is not as its service is: {}",
            status.message
        );
    }
}

fn parent(service: &Value) -> Value {
    json!({
        "resource": builtin::SERVICE.plural,
        "namespace": metadata::text(service, "namespace"),
        "name": metadata::text(service, "name"),
    })
}
