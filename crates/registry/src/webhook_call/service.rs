//! Where a service is that has a webhook.
//!
//! There is no cluster network, so nobody can connect to the address of a service. What stands behind it may be within
//! reach all the same: the name it stands for, or the addresses of its endpoints. As a Kubernetes server that routes to
//! endpoints, this one takes any that is ready.

use serde_json::Value;
use watchkeeper_kinds::builtin;
use watchkeeper_meta::{LabelSelector, ListOptions, Status};

use crate::reader::Reader;

/// Whose endpoints a slice lists.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

impl Reader {
    /// Where to connect for a service's port, or why that cannot be said.
    pub(super) async fn service_address(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<Result<String, String>, Status> {
        let services = self.builtin(&builtin::SERVICE)?;
        let Some(service) = self.find(&services, namespace, name).await? else {
            return Ok(Err(format!("service {name:?} not found")));
        };
        let spec = &service.to_value(&services)?["spec"];
        if spec["type"] == "ExternalName" {
            let host = spec["externalName"].as_str().unwrap_or_default();
            return Ok(Ok(format!("{host}:{port}")));
        }
        let mut ports = spec["ports"].as_array().into_iter().flatten();
        let Some(found) = ports.find(|it| it["port"] == port) else {
            return Ok(Err(format!("no service port {port} found for service {name:?}")));
        };
        let found = found["name"].as_str().unwrap_or_default();
        let ready = self.ready_endpoints(namespace, name, found).await?;
        match ready.is_empty() {
            true => Ok(Err(format!("no endpoints available for service {name:?}"))),
            false => Ok(Ok(ready[fastrand::usize(..ready.len())].clone())),
        }
    }

    /// The addresses of a service's endpoints that are ready, with the port of this name.
    async fn ready_endpoints(&self, namespace: &str, name: &str, port: &str) -> Result<Vec<String>, Status> {
        let slices = self.builtin(&builtin::ENDPOINT_SLICE)?;
        let selector = LabelSelector::from_labels([(SERVICE_LABEL, name)]);
        let options = ListOptions {
            label_selector: selector.map_err(Status::internal_error)?,
            ..ListOptions::default()
        };
        let mut ready = Vec::new();
        for slice in self.list(&slices, namespace, &options).await?.items {
            ready.extend(addresses(&slice.to_value(&slices)?, port));
        }
        Ok(ready)
    }
}

/// What a slice says of its ready endpoints.
fn addresses(slice: &Value, port: &str) -> Vec<String> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_named = |it: &Value| it["name"].as_str().unwrap_or_default() == port;
    let Some(port) = items(&slice["ports"]).into_iter().find(is_named) else {
        return Vec::new();
    };
    let (port, is_ipv6) = (&port["port"], slice["addressType"] == "IPv6");
    let ready = items(&slice["endpoints"]).into_iter();
    let ready = ready.filter(|endpoint| endpoint["conditions"]["ready"] != false);
    let addresses = ready.flat_map(|endpoint| items(&endpoint["addresses"]));
    let written = addresses.filter_map(|address| {
        let address = address.as_str()?;
        Some(match is_ipv6 {
            true => format!("[{address}]:{port}"),
            false => format!("{address}:{port}"),
        })
    });
    written.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endpoints_that_are_ready_have_addresses() {
        let slice = json!({
            "addressType": "IPv4",
            "ports": [{"name": "metrics", "port": 1}, {"name": "https", "port": 8443}],
            "endpoints": [
                {"addresses": ["10.1.0.1"], "conditions": {"ready": true}},
                {"addresses": ["10.1.0.2"], "conditions": {"ready": false}},
                {"addresses": ["10.1.0.3"]},
            ],
        });
        assert_eq!(addresses(&slice, "https"), ["10.1.0.1:8443", "10.1.0.3:8443"]);
        assert!(addresses(&slice, "other").is_empty());
    }

    #[test]
    fn addresses_with_colons_are_written_in_brackets() {
        let slice = json!({"addressType": "IPv6", "ports": [{"port": 443}],
            "endpoints": [{"addresses": ["2001:db8::1"]}]});
        assert_eq!(addresses(&slice, ""), ["[2001:db8::1]:443"]);
    }
}
