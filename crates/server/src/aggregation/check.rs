//! Checks that an aggregated API server serves its group version, and fetches its documents.

use std::sync::Arc;

use futures_util::future::{join3, select_ok};
use serde_json::Value;
use tokio::time::timeout;
use watchkeeper_registry::{NoAddress, User};

use super::{Backend, RemoteDocuments, RemoteService, aggregator_user, discovery};
use crate::limits::{AGGREGATED_CHECK_TIMEOUT, MAX_CHECKED_ADDRESSES};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
const JSON: &str = "application/json";

/// The condition `Available`, with kube-aggregator's texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Availability {
    pub(crate) is_available: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Availability {
    pub(crate) fn local() -> Self {
        Self {
            is_available: true,
            reason: "Local",
            message: "Local APIServices are always available".to_owned(),
        }
    }

    fn passed() -> Self {
        Self {
            is_available: true,
            reason: "Passed",
            message: "all checks passed".to_owned(),
        }
    }

    fn refused(reason: &'static str, message: String) -> Self {
        Self {
            is_available: false,
            reason,
            message,
        }
    }

    /// A service without an address.
    pub(crate) fn without_address(service: &RemoteService, why: &NoAddress) -> Self {
        let place = format!("service/{} in {:?}", service.name, service.namespace);
        match why {
            NoAddress::NoService { .. } => {
                Self::refused("ServiceNotFound", format!("{place} is not present"))
            }
            NoAddress::NoPort { port, .. } => Self::refused(
                "ServicePortError",
                format!("{place} is not listening on port {port}"),
            ),
            NoAddress::NoSlices { .. } => Self::refused(
                "EndpointsNotFound",
                format!("cannot find endpointslices for {place}"),
            ),
            NoAddress::NoEndpoints { port_name, .. } => {
                let text =
                    format!("endpointslices for {place} have no addresses with port name {port_name:?}");
                Self::refused("MissingEndpoints", text)
            }
        }
    }
}

/// The result of a check, and the documents if it passed.
pub(crate) type Checked = (Availability, Option<RemoteDocuments>);

/// Checks all addresses concurrently; one success is enough.
pub(crate) async fn check(service: &RemoteService, backend: &Arc<Backend>, addresses: &[String]) -> Checked {
    let user = aggregator_user();
    let asked = addresses.iter().take(MAX_CHECKED_ADDRESSES);
    let asked = asked.map(|address| Box::pin(answers(service, backend, address, &user)));
    match select_ok(asked).await {
        Err(why) => (Availability::refused("FailedDiscoveryCheck", why), None),
        Ok(((address, legacy), _)) => {
            let documents = documents(service, backend, address, &legacy, &user).await;
            (Availability::passed(), Some(documents))
        }
    }
}

/// The address and its legacy discovery document, if it responds.
async fn answers<'a>(
    service: &RemoteService,
    backend: &Backend,
    address: &'a str,
    user: &User,
) -> Result<(&'a str, Value), String> {
    let path = format!("/apis/{}/{}", service.group, service.version);
    let url = format!("https://{address}{path}");
    let failed = |why: String| format!("failing or missing response from {url}: {why}");
    let fetched = timeout(AGGREGATED_CHECK_TIMEOUT, backend.get(address, &path, JSON, user)).await;
    let get = |why: &str| failed(format!("Get {url:?}: {why}"));
    let fetched = fetched
        .map_err(|_| get("context deadline exceeded"))?
        .map_err(|why| get(&why))?;
    match (200..300).contains(&fetched.status) {
        true => Ok((address, serde_json::from_slice(&fetched.body).unwrap_or_default())),
        false => Err(failed(format!("bad status from {url}: {}", fetched.status))),
    }
}

/// Fetches discovery and OpenAPI. Failures are left out; discovery is then not current.
async fn documents(
    service: &RemoteService,
    backend: &Backend,
    address: &str,
    legacy: &Value,
    user: &User,
) -> RemoteDocuments {
    let (group, version) = (&*service.group, &*service.version);
    let fetch = async |path: &'static str, accept| {
        let fetched = timeout(AGGREGATED_CHECK_TIMEOUT, backend.get(address, path, accept, user)).await;
        let fetched = fetched.ok()?.ok().filter(|it| it.status == 200)?;
        serde_json::from_slice::<Value>(&fetched.body).ok()
    };
    let (aggregated, v2, v3) = join3(
        fetch("/apis", AGGREGATED),
        fetch("/openapi/v2", JSON),
        fetch("/openapi/v3", JSON),
    )
    .await;
    let resources = aggregated.and_then(|it| discovery::from_aggregated(&it, group, version));
    let resources = resources.or_else(|| discovery::from_legacy(legacy, group, version));
    let v3 = v3.and_then(|index| {
        let entry = &index["paths"][format!("apis/{group}/{version}")];
        entry["serverRelativeURL"].as_str().map(str::to_owned)
    });
    RemoteDocuments {
        is_current: resources.is_some(),
        resources: resources.unwrap_or_default(),
        openapi_v2: v2.map(Arc::new),
        openapi_v3: v3,
    }
}
