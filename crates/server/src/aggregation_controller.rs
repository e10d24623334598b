//! The controller of aggregated APIs: follows APIServices, services and endpoints, checks their servers, and sets the
//! condition `Available`. On servers with a port it also registers the local group versions.
//!
//! ```text
//! an APIService, service or endpoint changes ─▶ resolve ─▶ check ─▶ condition, discovery, OpenAPI
//!                                        30 s after a check that passed ──┘ (sooner after one that failed)
//! ```
//!
//! Without an APIService that names a service, it only waits for the first one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::time::Instant;
use watchkeeper_meta::Status;
use watchkeeper_registry::{Changes, NoAddress, Registration};

use crate::aggregation::{
    Availability, Backend, Checked, Remote, RemoteDocuments, RemoteService, check, group_priority,
    version_priority,
};
use crate::catalog::Catalog;
use crate::limits::{AGGREGATED_RECHECK, MIN_AGGREGATED_RETRY};
use crate::shared::Shared;

/// The default port of a service.
const HTTPS: u16 = 443;

/// Runs until the server drains. `registers` enables registration of local group versions.
pub(crate) async fn run(server: Arc<Shared>, registers: bool) {
    let mut controller = Controller::new(server.clone(), registers);
    let draining = server.draining.clone();
    if let Some(Err(status)) = draining.run_until_cancelled(controller.follow()).await {
        tracing::warn!("aggregated APIs are not followed any longer: {}", status.message);
    }
    controller.known.values().for_each(|entry| entry.backend.close());
}

struct Controller {
    server: Arc<Shared>,
    registers: bool,
    /// By the name of the APIService.
    known: BTreeMap<String, Entry>,
    checks: FuturesUnordered<BoxFuture<'static, Finished>>,
    /// Numbers checks, so that outdated results are recognized.
    last_check: u64,
}

/// An APIService that names a service.
struct Entry {
    /// As last read.
    object: Arc<Value>,
    service: RemoteService,
    backend: Arc<Backend>,
    addresses: Result<Vec<String>, NoAddress>,
    is_available: bool,
    documents: Arc<RemoteDocuments>,
    next: Next,
    /// The number of consecutive failed checks.
    failures: u32,
}

/// The next step for a server.
enum Next {
    Due(Instant),
    /// The check with this number is running.
    Checking(u64),
}

/// A finished check.
struct Finished {
    name: String,
    number: u64,
    checked: Checked,
}

impl Controller {
    fn new(server: Arc<Shared>, registers: bool) -> Self {
        Self {
            server,
            registers,
            known: BTreeMap::new(),
            checks: FuturesUnordered::new(),
            last_check: 0,
        }
    }

    fn follow<'a>(&'a mut self) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let server = self.server.clone();
            let registry = &server.registry;
            // Followed before the objects are read, so that no change is missed.
            let mut services = registry.api_service_changes()?;
            let mut custom = registry.custom_changes();
            let mut routes: Option<Changes> = None;
            self.register(true).await?;
            self.read().await?;
            loop {
                match (&routes, self.known.is_empty()) {
                    (None, false) => {
                        routes = Some(registry.service_changes()?);
                        self.resolve().await?;
                    }
                    (Some(_), true) => routes = None,
                    _ => {}
                }
                self.begin_checks();
                let due = self.next_due();
                tokio::select! {
                    changed = services.next() => {
                        if changed.is_none() {
                            return Ok(());
                        }
                        self.register(false).await?;
                        self.read().await?;
                    }
                    _ = custom.changed(), if self.registers => self.register(false).await?,
                    () = changed(&mut routes) => self.resolve().await?,
                    Some(finished) = self.checks.next() => self.finish(finished).await?,
                    () = sleep_until(due) => {}
                }
            }
        })
    }

    fn register<'a>(&'a mut self, at_start: bool) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if !self.registers {
                return Ok(());
            }
            let wanted = registrations(&self.server.catalog());
            let registry = &self.server.registry;
            Box::pin(registry.register_api_services(&wanted, at_start)).await
        })
    }

    /// Reads the APIServices.
    async fn read(&mut self) -> Result<(), Status> {
        let server = self.server.clone();
        let registry = &server.registry;
        let mut known = std::mem::take(&mut self.known);
        for object in registry.api_services().await? {
            let Some(service) = RemoteService::read(&object) else {
                let Availability {
                    is_available,
                    reason,
                    message,
                } = Availability::local();
                registry
                    .set_api_service_availability(&object, is_available, reason, &message)
                    .await?;
                continue;
            };
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let entry = match known.remove(&name) {
                Some(same) if same.service == service && is_same_object(&same.object, &object) => {
                    Entry { object, ..same }
                }
                _ => entry(&server, object, service).await?,
            };
            self.known.insert(name, entry);
        }
        for gone in known.values() {
            gone.backend.close();
        }
        self.publish();
        Ok(())
    }

    /// Resolves the services again. A server with changed addresses is checked at once.
    async fn resolve(&mut self) -> Result<(), Status> {
        for entry in self.known.values_mut() {
            let RemoteService {
                namespace,
                name,
                port,
                ..
            } = &entry.service;
            let addresses = self
                .server
                .registry
                .service_addresses(namespace, name, *port)
                .await?;
            if addresses != entry.addresses {
                entry.addresses = addresses;
                entry.next = Next::Due(Instant::now());
            }
        }
        self.publish();
        Ok(())
    }

    fn begin_checks(&mut self) {
        let now = Instant::now();
        for (name, entry) in &mut self.known {
            if !matches!(entry.next, Next::Due(due) if due <= now) {
                continue;
            }
            self.last_check += 1;
            let (name, number) = (name.clone(), self.last_check);
            entry.next = Next::Checking(number);
            let (service, backend) = (entry.service.clone(), entry.backend.clone());
            let addresses = entry.addresses.clone();
            let check = async move {
                let checked = match addresses {
                    Ok(addresses) => check(&service, &backend, &addresses).await,
                    Err(why) => (Availability::without_address(&service, &why), None),
                };
                Finished {
                    name,
                    number,
                    checked,
                }
            };
            self.checks.push(check.boxed());
        }
    }

    /// Publishes the result of a check, unless the server was replaced meanwhile.
    async fn finish(&mut self, finished: Finished) -> Result<(), Status> {
        let Finished {
            name,
            number,
            checked,
        } = finished;
        let Some(entry) = self.known.get_mut(&name) else {
            return Ok(());
        };
        if !matches!(entry.next, Next::Checking(under_way) if under_way == number) {
            return Ok(());
        }
        let (availability, documents) = checked;
        entry.is_available = availability.is_available;
        entry.failures = if availability.is_available {
            0
        } else {
            entry.failures + 1
        };
        entry.next = Next::Due(Instant::now() + pause(entry.failures));
        match documents {
            Some(documents) if documents.is_current => entry.documents = Arc::new(documents),
            // The last known documents stay in use.
            _ => Arc::make_mut(&mut entry.documents).is_current = false,
        }
        let object = entry.object.clone();
        self.publish();
        let Availability {
            is_available,
            reason,
            message,
        } = availability;
        let registry = &self.server.registry;
        registry
            .set_api_service_availability(&object, is_available, reason, &message)
            .await
    }

    fn publish(&self) {
        let remotes = self.known.values().map(|entry| Remote {
            service: entry.service.clone(),
            backend: entry.backend.clone(),
            addresses: entry.addresses.clone().unwrap_or_default(),
            is_available: entry.is_available,
            documents: entry.documents.clone(),
        });
        self.server.aggregator.publish(remotes.collect());
    }

    fn next_due(&self) -> Option<Instant> {
        let due = self.known.values().filter_map(|entry| match entry.next {
            Next::Due(due) => Some(due),
            Next::Checking(_) => None,
        });
        due.min()
    }
}

/// The entry of a new or replaced APIService.
async fn entry(server: &Shared, object: Arc<Value>, service: RemoteService) -> Result<Entry, Status> {
    let (namespace, name) = (&service.namespace, &service.name);
    let addresses = server
        .registry
        .service_addresses(namespace, name, service.port)
        .await?;
    let identity = server.aggregator.identity();
    Ok(Entry {
        backend: Arc::new(Backend::new(&service, identity, server.tasks.clone())),
        // The stored condition counts until the first check.
        is_available: has_available_condition(&object),
        documents: Arc::default(),
        next: Next::Due(Instant::now()),
        failures: 0,
        addresses,
        object,
        service,
    })
}

impl RemoteService {
    /// Reads a validated APIService; `None` if it names no service.
    fn read(object: &Value) -> Option<Self> {
        let spec = &object["spec"];
        let service = spec["service"].as_object()?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let bundle = STANDARD.decode(text(spec.get("caBundle"))).unwrap_or_default();
        let port = service.get("port").and_then(Value::as_u64);
        Some(Self {
            group: text(spec.get("group")),
            version: text(spec.get("version")),
            group_priority: spec["groupPriorityMinimum"].as_i64().unwrap_or_default(),
            version_priority: spec["versionPriority"].as_i64().unwrap_or_default(),
            namespace: text(service.get("namespace")),
            name: text(service.get("name")),
            port: port.and_then(|port| port.try_into().ok()).unwrap_or(HTTPS),
            authorities: (!bundle.is_empty()).then_some(bundle),
            trusts_everyone: spec["insecureSkipTLSVerify"] == true,
        })
    }
}

/// The pause after a check; after failures it doubles, up to the usual interval.
fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => AGGREGATED_RECHECK,
        Some(before) => AGGREGATED_RECHECK.min(MIN_AGGREGATED_RETRY * 2_u32.saturating_pow(before.min(16))),
    }
}

fn is_same_object(a: &Value, b: &Value) -> bool {
    a["metadata"]["uid"] == b["metadata"]["uid"]
}

fn has_available_condition(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut available = conditions.filter(|it| it["type"] == "Available");
    available.any(|it| it["status"] == "True")
}

async fn changed(routes: &mut Option<Changes>) {
    if let Some(routes) = routes
        && routes.next().await.is_some()
    {
        return;
    }
    // The store is closed, or nothing is followed.
    std::future::pending().await
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The APIServices of the local group versions.
fn registrations(catalog: &Catalog) -> Vec<Registration> {
    let groups = catalog.groups().iter();
    // The aggregation layer's own group has no APIService.
    let groups = groups.filter(|group| group.name != "apiregistration.k8s.io");
    let versions = groups.flat_map(|group| group.versions.iter().map(move |version| (group, version)));
    versions
        .filter(|(_, version)| version.remote.is_none())
        .map(|(group, version)| Registration {
            group: group.name.to_string(),
            version: version.name.to_string(),
            group_priority: group_priority(&group.name),
            version_priority: version_priority(&group.name, &version.name),
            is_custom: version.resources.iter().all(|resource| resource.is_custom()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregation::group_priority;

    #[test]
    fn built_in_groups_are_ordered_by_priority() {
        let catalog = Catalog::built_in();
        let groups: Vec<&str> = catalog.groups().iter().map(|group| &*group.name).collect();
        let mut sorted: Vec<&str> = groups.clone();
        sorted.retain(|name| !name.is_empty());
        sorted.sort_by_key(|name| (-group_priority(name), *name));
        let named: Vec<&str> = groups.into_iter().filter(|name| !name.is_empty()).collect();
        assert_eq!(named, sorted);
        assert!(
            named
                .iter()
                .all(|name| group_priority(name) != group_priority("example.com")),
            "{named:?}"
        );
    }
}
