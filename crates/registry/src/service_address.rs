//! Resolves a service to an address at which a webhook or an aggregated API server can be reached.
//!
//! There is no cluster network, so cluster IPs are unreachable. The external name or the endpoint addresses of a
//! service may be reachable. Like a Kubernetes server with aggregator routing, this one picks any ready endpoint.

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_kinds::builtin;
use watchkeeper_meta::{LabelSelector, ListOptions, Status};

use crate::reader::Reader;

/// The label with a slice's service name.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The reason a service has no address. Prints with the text of a Kubernetes server's proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAddress {
    /// There is no such service.
    NoService {
        /// Its name.
        name: String,
    },
    /// The service has no such port.
    NoPort {
        /// The service.
        name: String,
        /// The port.
        port: u16,
    },
    /// The service has no endpoint slice.
    NoSlices {
        /// The service.
        name: String,
    },
    /// No endpoint of the service is ready.
    NoEndpoints {
        /// The service.
        name: String,
        /// The name of the port; may be empty.
        port_name: String,
    },
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoService { name } => write!(f, "service {name:?} not found"),
            Self::NoPort { name, port } => write!(f, "no service port {port} found for service {name:?}"),
            Self::NoSlices { name } | Self::NoEndpoints { name, .. } => {
                write!(f, "no endpoints available for service {name:?}")
            }
        }
    }
}

impl Reader {
    /// An address for a service's port, or the reason there is none.
    pub async fn service_address(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<Result<String, NoAddress>, Status> {
        let found = self.service_addresses(namespace, name, port).await?;
        Ok(found.map(|mut all| all.swap_remove(fastrand::usize(..all.len()))))
    }

    /// All addresses for a service's port, in order and never empty, or the reason there are none.
    pub fn service_addresses<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        port: u16,
    ) -> BoxFuture<'a, Result<Result<Vec<String>, NoAddress>, Status>> {
        Box::pin(async move {
            let services = self.builtin(&builtin::SERVICE)?;
            let Some(service) = self.find(&services, namespace, name).await? else {
                let name = name.to_owned();
                return Ok(Err(NoAddress::NoService { name }));
            };
            let spec = &service.to_value(&services)?["spec"];
            if spec["type"] == "ExternalName" {
                let host = spec["externalName"].as_str().unwrap_or_default();
                return Ok(Ok(vec![format!("{host}:{port}")]));
            }
            let mut ports = spec["ports"].as_array().into_iter().flatten();
            let Some(found) = ports.find(|it| it["port"] == port) else {
                let name = name.to_owned();
                return Ok(Err(NoAddress::NoPort { name, port }));
            };
            let port_name = found["name"].as_str().unwrap_or_default();
            self.ready_endpoints(namespace, name, port_name).await
        })
    }

    /// The addresses of a service's ready endpoints, with the port of this name.
    async fn ready_endpoints(
        &self,
        namespace: &str,
        name: &str,
        port_name: &str,
    ) -> Result<Result<Vec<String>, NoAddress>, Status> {
        let slices = self.builtin(&builtin::ENDPOINT_SLICE)?;
        let selector = LabelSelector::from_labels([(SERVICE_LABEL, name)]);
        let options = ListOptions {
            label_selector: selector.map_err(Status::internal_error)?,
            ..ListOptions::default()
        };
        let name = name.to_owned();
        let found = self.list(&slices, namespace, &options).await?;
        if found.items.is_empty() {
            return Ok(Err(NoAddress::NoSlices { name }));
        }
        let mut ready = Vec::new();
        for slice in found.objects() {
            ready.extend(addresses(&slice.to_value(&slices)?, port_name));
        }
        ready.sort();
        let port_name = port_name.to_owned();
        match ready.is_empty() {
            true => Ok(Err(NoAddress::NoEndpoints { name, port_name })),
            false => Ok(Ok(ready)),
        }
    }
}

/// The addresses of a slice's ready endpoints.
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
