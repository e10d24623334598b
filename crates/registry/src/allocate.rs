//! Allocates cluster IPs and node ports of services: each belongs to one service at a time.
//!
//! The allocated values are those of the stored services. They are read once and kept up to date by a feed of the
//! store, so they cannot drift, and a restart simply reads them again. A lock, held until the service is stored,
//! prevents two concurrent creates from picking the same value.
//!
//! The lock covers one process. If several servers share the store, a server creates a key for the picked value, its
//! *claim*, then checks again that no stored service has the value, and deletes the claim after the service is
//! stored. Of two servers that pick the same value, one finds the other's claim and picks again. If it is unknown
//! whether the service was stored, the claim stays until its TTL ends, when the service can no longer be stored.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::MutexGuard;
use watchkeeper_meta::{FieldError, FieldErrors, FieldPath, ListOptions, Status};
use watchkeeper_storage::{Feed, Revision, WriteError};

use crate::context::{accept, not_stored};
use crate::definition::Definition;
use crate::object::StoredObject;
use crate::reader::Reader;

/// The range of cluster IPs. The first address belongs to the `kubernetes` service.
pub(crate) const SERVICE_RANGE: &str = "10.0.0.0/16";
const NETWORK: [u8; 2] = [10, 0];
/// The range of node ports, as in Kubernetes.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// The key prefix of claims; the address or port follows.
const CLAIMS: &str = "/registry/watchkeeper/claims/";
/// The TTL of a claim that is not deleted, because its server died or does not know whether the service was stored.
/// Longer than any request.
const CLAIM_TTL: Duration = Duration::from_secs(120);
/// The pause before a claimed value is tried again, with jitter. A service is stored in a few milliseconds.
const CLAIM_PAUSE: Duration = Duration::from_millis(10);
/// The number of picks lost to other claims before the request fails.
const MAX_CLAIMS: usize = 32;
/// The number of random picks before the range counts as full.
const MAX_TRIES: usize = 10_000;

/// Allocates addresses and ports.
#[derive(Default)]
pub(crate) struct Allocator {
    /// Held from picking a service's address until the service is stored.
    lock: tokio::sync::Mutex<()>,
    known: Mutex<Option<Allocations>>,
    /// The claims of this server and their revisions. Accessed only with the lock held.
    claims: Mutex<HashMap<String, Revision>>,
}

/// The service that values are picked for.
struct Picking<'a> {
    /// The stored service.
    own: Option<&'a Value>,
    /// Its type.
    kind: &'a str,
    /// The request is a dry run.
    dry_run: bool,
}

/// The allocator's lock, held from picking until the service is stored.
pub(crate) struct Allocating<'a> {
    allocator: &'a Allocator,
    reader: &'a Reader,
    /// It is unknown whether the service was stored, or will be.
    is_in_doubt: bool,
    _lock: MutexGuard<'a, ()>,
}

/// Stores an object that values may have been picked for. The outcome is in doubt while the write is in progress, if
/// it is cancelled, and afterwards if the store does not know the outcome.
pub(crate) async fn store<T, E>(
    allocating: &mut Option<Allocating<'_>>,
    write: impl Future<Output = Result<T, E>>,
    is_unknown: impl FnOnce(&E) -> bool,
) -> Result<T, E> {
    let Some(allocating) = allocating else {
        return write.await;
    };
    allocating.is_in_doubt = true;
    let stored = write.await;
    allocating.is_in_doubt = stored.as_ref().is_err_and(is_unknown);
    stored
}

impl Drop for Allocating<'_> {
    fn drop(&mut self) {
        let claims = std::mem::take(&mut *self.allocator.claims.lock());
        if claims.is_empty() || self.is_in_doubt {
            return;
        }
        let store = self.reader.store().clone();
        tokio::spawn(async move {
            for (key, revision) in claims {
                // A claim that cannot be deleted expires.
                let _ = store.delete(&key, revision).await;
            }
        });
    }
}

/// The allocated values, and the feed that updates them.
struct Allocations {
    taken: Taken,
    feed: Feed,
}

/// Allocated values.
#[derive(Default)]
struct Taken {
    addresses: HashSet<String>,
    node_ports: HashSet<i64>,
}

/// The values of all services but one.
struct Others<'a> {
    all: &'a Taken,
    own: Taken,
}

impl Others<'_> {
    fn have_address(&self, address: &str) -> bool {
        self.all.addresses.contains(address) && !self.own.addresses.contains(address)
    }

    fn have_port(&self, port: i64) -> bool {
        self.all.node_ports.contains(&port) && !self.own.node_ports.contains(&port)
    }
}

impl Taken {
    fn of(service: &Value) -> Self {
        let mut taken = Self::default();
        taken.add(service);
        taken
    }

    fn add(&mut self, service: &Value) {
        self.addresses.extend(addresses(service).map(str::to_owned));
        self.node_ports.extend(node_ports(service));
    }

    fn remove(&mut self, service: &Value) {
        for address in addresses(service) {
            self.addresses.remove(address);
        }
        for port in node_ports(service) {
            self.node_ports.remove(&port);
        }
    }
}

impl Allocations {
    /// Applies the changes of the feed. An error means that changes were missed.
    fn catch_up(&mut self, definition: &Definition) -> Result<(), Status> {
        loop {
            let before = self.feed.position();
            let batch = self.feed.read().map_err(Status::internal_error)?;
            let (is_empty, revision) = (batch.changes.is_empty(), batch.revision);
            for change in batch.changes {
                let read = |value: &watchkeeper_storage::Value| StoredObject {
                    bytes: value.bytes(),
                    revision: None,
                };
                if let Some((previous, _)) = &change.previous {
                    self.taken.remove(&read(previous).to_value(definition)?);
                }
                if let Some(value) = &change.value {
                    self.taken.add(&read(value).to_value(definition)?);
                }
            }
            if is_empty && revision == before {
                return Ok(());
            }
        }
    }
}

impl Allocator {
    /// Takes the lock.
    pub(crate) async fn lock<'a>(&'a self, reader: &'a Reader) -> Allocating<'a> {
        Allocating {
            allocator: self,
            reader,
            is_in_doubt: false,
            _lock: self.lock.lock().await,
        }
    }
}

impl Allocating<'_> {
    /// Allocates the addresses and ports that a service requests or needs. `own` is the live service on an update; it
    /// keeps its values.
    pub(crate) async fn allocate(
        &self,
        definition: &Arc<Definition>,
        service: &mut Value,
        own: Option<&Value>,
        dry_run: bool,
    ) -> Result<(), Status> {
        let kind = service["spec"]["type"].as_str().unwrap_or_default().to_owned();
        if !matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
            return Ok(());
        }
        let picking = Picking {
            own,
            kind: &kind,
            dry_run,
        };
        if dry_run || !self.reader.store().is_shared() {
            return self.pick(definition, service, &picking).await;
        }
        for _ in 0..MAX_CLAIMS {
            let mut picked = service.clone();
            self.pick(definition, &mut picked, &picking).await?;
            if self.secure(definition, &picked, &picking).await? {
                *service = picked;
                return Ok(());
            }
            tokio::time::sleep(CLAIM_PAUSE.mul_f64(0.5 + fastrand::f64())).await;
        }
        Err(Status::server_timeout(
            &definition.group_resource(),
            "allocate",
            1,
        ))
    }

    /// Sets free values in a service.
    fn pick<'a>(
        &'a self,
        definition: &'a Arc<Definition>,
        service: &'a mut Value,
        picking: &'a Picking<'a>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            self.follow_services(definition).await?;
            let known = self.allocator.known.lock();
            let nothing = Taken::default();
            let taken = Others {
                all: known.as_ref().map_or(&nothing, |followed| &followed.taken),
                own: picking.own.map(Taken::of).unwrap_or_default(),
            };
            check_families(definition, service)?;
            check_address(definition, service, &taken)?;
            allocate_address(service, || match picking.dry_run {
                true => Some(network_address()),
                false => free_address(&taken),
            });
            match wants_ports(service, picking.kind) {
                true if picking.dry_run => set_dry_run_ports(service),
                true => allocate_ports(definition, service, &taken)?,
                false => {}
            }
            Ok(())
        })
    }

    /// Claims the picked values; false if another server has a claim on one, or stored it before the claim.
    async fn secure(
        &self,
        definition: &Arc<Definition>,
        picked: &Value,
        picking: &Picking<'_>,
    ) -> Result<bool, Status> {
        if !self.claim(&Taken::of(picked), picking.own).await? {
            return Ok(false);
        }
        // After this, every service stored before the claim is visible.
        self.reader
            .store()
            .refresh()
            .await
            .map_err(Status::internal_error)?;
        let again = self.pick(definition, &mut picked.clone(), picking).await;
        Ok(again.is_ok())
    }

    /// Claims values; false if another server has a claim on one.
    async fn claim(&self, wanted: &Taken, own: Option<&Value>) -> Result<bool, Status> {
        let own = own.map(Taken::of).unwrap_or_default();
        let addresses = wanted.addresses.difference(&own.addresses).cloned();
        let ports = wanted.node_ports.difference(&own.node_ports).map(i64::to_string);
        for name in addresses.chain(ports) {
            let key = format!("{CLAIMS}{name}");
            if self.allocator.claims.lock().contains_key(&key) {
                continue;
            }
            match self
                .reader
                .store()
                .create(&key, Bytes::new(), Some(CLAIM_TTL))
                .await
            {
                Ok(revision) => drop(self.allocator.claims.lock().insert(key, revision)),
                Err(WriteError::Conflict { .. }) => return Ok(false),
                Err(error) => return Err(not_stored(error)),
            }
        }
        Ok(true)
    }

    /// Updates the allocated values.
    async fn follow_services(&self, definition: &Arc<Definition>) -> Result<(), Status> {
        let known = &self.allocator.known;
        if let Some(followed) = known.lock().as_mut()
            && followed.catch_up(definition).is_ok()
        {
            return Ok(());
        }
        // The feed starts before the read, so that a change in between is seen twice rather than missed.
        let after = self.reader.store().current_revision();
        let feed = self.reader.store().watch(&definition.prefix(""), after);
        let mut taken = Taken::default();
        for service in self
            .reader
            .list(definition, "", &ListOptions::default())
            .await?
            .objects()
        {
            taken.add(&service.to_value(definition)?);
        }
        let feed = feed.map_err(Status::internal_error)?;
        *known.lock() = Some(Allocations { taken, feed });
        Ok(())
    }
}

/// The cluster addresses of a service.
pub(crate) fn addresses(service: &Value) -> impl Iterator<Item = &str> {
    let addresses = service["spec"]["clusterIPs"].as_array().into_iter().flatten();
    addresses
        .filter_map(Value::as_str)
        .filter(|address| !matches!(*address, "" | "None"))
}

fn node_ports(service: &Value) -> impl Iterator<Item = i64> + '_ {
    let ports = service["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| &port["nodePort"]);
    ports
        .chain([&service["spec"]["healthCheckNodePort"]])
        .filter_map(Value::as_i64)
        .filter(|port| *port > 0)
}

fn allocate_address(service: &mut Value, free: impl FnOnce() -> Option<String>) {
    let spec = &mut service["spec"];
    let stated = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    let first = spec["clusterIPs"][0].as_str().unwrap_or_default().to_owned();
    let address = match (stated.is_empty(), first.is_empty()) {
        (false, _) => stated,
        (true, false) => first,
        (true, true) => match free() {
            Some(address) => address,
            None => return,
        },
    };
    let has_selector = spec["selector"]
        .as_object()
        .is_some_and(|selector| !selector.is_empty());
    spec["clusterIP"] = json!(address);
    if spec["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
        spec["clusterIPs"] = json!([address]);
    }
    // A headless service without a selector may have endpoints of either family.
    let either = address == "None" && !has_selector;
    if spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = json!(if either { "RequireDualStack" } else { "SingleStack" });
    }
    if spec["ipFamilies"].as_array().is_none_or(Vec::is_empty) {
        let one = if address.contains(':') { "IPv6" } else { "IPv4" };
        spec["ipFamilies"] = if either {
            json!(["IPv4", "IPv6"])
        } else {
            json!([one])
        };
    }
}

/// Rejects values that require a dual-stack cluster.
fn check_families(definition: &Definition, service: &Value) -> Result<(), Status> {
    let spec = FieldPath::new("spec");
    let mut errors = FieldErrors::new();
    let is_headless = service["spec"]["clusterIP"] == "None";
    let selects = service["spec"]["selector"]
        .as_object()
        .is_some_and(|selector| !selector.is_empty());
    if service["spec"]["ipFamilyPolicy"] == "RequireDualStack" && (selects || !is_headless) {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(
            &spec.child("ipFamilyPolicy"),
            "RequireDualStack",
            why,
        ));
    }
    let families = service["spec"]["ipFamilies"].as_array().into_iter().flatten();
    for (index, _) in families.enumerate().filter(|(_, family)| *family == "IPv6") {
        if selects || !is_headless {
            let path = spec.child("ipFamilies").index(index);
            errors.push(FieldError::invalid(
                &path,
                "IPv6",
                "not configured on this cluster",
            ));
        }
    }
    accept(definition, service, &errors)
}

/// Rejects an address that is allocated or outside the range.
fn check_address(definition: &Definition, service: &Value, taken: &Others<'_>) -> Result<(), Status> {
    let stated = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    let Ok(address) = stated.parse::<Ipv4Addr>() else {
        return Ok(());
    };
    let why = match address.octets() {
        [a, b, ..] if [a, b] != NETWORK => "the provided network does not match the current range",
        _ if taken.have_address(stated) => "provided IP is already allocated",
        _ => return Ok(()),
    };
    let path = FieldPath::new("spec").child("clusterIPs");
    let error = FieldError::invalid(
        &path,
        json!([stated]),
        format!("failed to allocate IP {stated}: {why}"),
    );
    let name = service["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::invalid(&definition.group_kind(), name, &error.into()))
}

fn wants_ports(service: &Value, kind: &str) -> bool {
    kind == "NodePort"
        || (kind == "LoadBalancer" && service["spec"]["allocateLoadBalancerNodePorts"] != false)
}

/// Sets the ports that Kubernetes shows in a dry run: nothing is allocated or rejected, and each port follows the
/// highest one.
fn set_dry_run_ports(service: &mut Value) {
    let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    let Some(ports) = ports else { return };
    let mut last = ports.iter().map(node_port).max().filter(|port| *port > 0);
    for port in ports.iter_mut().filter(|port| node_port(port) == 0) {
        let next = last.unwrap_or(*NODE_PORTS.end()) + 1;
        port["nodePort"] = json!(next);
        last = Some(next);
    }
}

/// The address of the network itself, which no service has. Shown in a dry run.
fn network_address() -> String {
    let [a, b] = NETWORK;
    Ipv4Addr::new(a, b, 0, 0).to_string()
}

fn free_address(taken: &Others<'_>) -> Option<String> {
    let pick = || {
        let [a, b] = NETWORK;
        // .0.0 and .255.255 are not host addresses, and .0.1 is the server's.
        let host = fastrand::u16(2..u16::MAX);
        let [c, d] = host.to_be_bytes();
        Ipv4Addr::new(a, b, c, d).to_string()
    };
    (0..MAX_TRIES)
        .map(|_| pick())
        .find(|address| !taken.have_address(address))
}

fn allocate_ports(definition: &Definition, service: &mut Value, taken: &Others<'_>) -> Result<(), Status> {
    let mut given_here = HashSet::new();
    let name = service["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let refuse = |index: usize, port: i64, why: &str| {
        let path = FieldPath::new("spec")
            .child("ports")
            .index(index)
            .child("nodePort");
        Status::invalid(
            &definition.group_kind(),
            &name,
            &FieldError::invalid(&path, port, why).into(),
        )
    };
    let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    let mut shared = SharedPorts::new(ports.as_deref().map_or(&[], Vec::as_slice));
    for (index, port) in ports.into_iter().flatten().enumerate() {
        let given = match shared.wanted(port) {
            Wanted::Same(given) => given,
            Wanted::Any => free_port(taken, &given_here).ok_or_else(|| refuse(index, 0, "range is full"))?,
            Wanted::This(stated) if !NODE_PORTS.contains(&stated) => {
                return Err(refuse(
                    index,
                    stated,
                    "provided port is not in the valid range. The range of valid ports is 30000-32767",
                ));
            }
            Wanted::This(stated) if taken.have_port(stated) || given_here.contains(&stated) => {
                return Err(refuse(index, stated, "provided port is already allocated"));
            }
            Wanted::This(stated) => stated,
        };
        given_here.insert(given);
        shared.give(port, given);
    }
    let spec = &mut service["spec"];
    let needs_health_check = spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
    if needs_health_check && spec["healthCheckNodePort"].as_i64().unwrap_or_default() == 0 {
        spec["healthCheckNodePort"] = json!(free_port(taken, &given_here).unwrap_or_default());
    }
    Ok(())
}

/// Service ports with equal numbers share a node port: DNS over TCP and over UDP.
struct SharedPorts {
    /// The node ports that the service states, by port number.
    stated: HashMap<i64, i64>,
    /// The node ports allocated so far.
    given: HashMap<i64, i64>,
}

/// The node port that a service port needs.
enum Wanted {
    Any,
    This(i64),
    /// The node port of another port with the same number.
    Same(i64),
}

impl SharedPorts {
    fn new(ports: &[Value]) -> Self {
        // The first stated node port applies to the others.
        let stated = ports.iter().rev().filter(|port| node_port(port) != 0);
        Self {
            stated: stated.map(|port| (number(port), node_port(port))).collect(),
            given: HashMap::new(),
        }
    }

    fn wanted(&self, port: &Value) -> Wanted {
        let (number, stated) = (number(port), node_port(port));
        match (self.given.get(&number), stated) {
            (Some(&given), stated) if stated == 0 || stated == given => Wanted::Same(given),
            (None, 0) => self
                .stated
                .get(&number)
                .map_or(Wanted::Any, |&stated| Wanted::This(stated)),
            (_, stated) => Wanted::This(stated),
        }
    }

    fn give(&mut self, port: &mut Value, given: i64) {
        self.given.entry(number(port)).or_insert(given);
        port["nodePort"] = json!(given);
    }
}

fn number(port: &Value) -> i64 {
    port["port"].as_i64().unwrap_or_default()
}

fn node_port(port: &Value) -> i64 {
    port["nodePort"].as_i64().unwrap_or_default()
}

fn free_port(taken: &Others<'_>, given_here: &HashSet<i64>) -> Option<i64> {
    (0..MAX_TRIES)
        .map(|_| fastrand::i64(NODE_PORTS))
        .find(|port| !taken.have_port(*port) && !given_here.contains(port))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use watchkeeper_storage::{Store, StoreOptions};

    use super::*;
    use crate::{Body, Format, Registry, WriteContext};

    const PICKING: Picking<'static> = Picking {
        own: None,
        kind: "NodePort",
        dry_run: false,
    };

    const PORT: i64 = 30_007;

    fn service(name: &str) -> Value {
        let ports = json!([{"port": 80, "nodePort": PORT}]);
        json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}})
    }

    async fn registry() -> (Registry, Arc<Definition>) {
        let registry = Registry::open(Store::memory(StoreOptions::default()))
            .await
            .unwrap();
        let services = registry.builtin(&watchkeeper_kinds::builtin::SERVICE).unwrap();
        (registry, services)
    }

    #[tokio::test]
    async fn a_value_stored_before_the_claim_is_not_allocated_again() {
        let (registry, services) = registry().await;
        let mut picked = service("a");
        let allocating = registry.allocator().lock(&registry).await;
        allocating.pick(&services, &mut picked, &PICKING).await.unwrap();
        // Another server, to which the lock does not apply.
        drop(allocating);
        let other = service("b").to_string();
        let body = Body {
            format: Format::Json,
            bytes: other.as_bytes(),
        };
        let context = WriteContext::default();
        let stored = registry.create(&services, "default", body, &context);
        stored.await.unwrap();
        let allocating = registry.allocator().lock(&registry).await;
        assert!(!allocating.secure(&services, &picked, &PICKING).await.unwrap());
    }

    /// The outcome of a write.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Outcome {
        Stored,
        Refused,
        Unknown,
        GivenUp,
    }

    /// True if the claim still exists after the write.
    async fn is_kept(outcome: Outcome) -> bool {
        let (registry, _) = registry().await;
        let allocating = registry.allocator().lock(&registry).await;
        assert!(allocating.claim(&Taken::of(&service("a")), None).await.unwrap());
        let mut allocating = Some(allocating);
        let write = async {
            match outcome {
                Outcome::Stored => Ok(()),
                Outcome::Refused | Outcome::Unknown => Err(outcome),
                Outcome::GivenUp => std::future::pending().await,
            }
        };
        let written = store(&mut allocating, write, |error| *error == Outcome::Unknown);
        // Polled once: the write is done or cancelled.
        let _ = written.now_or_never();
        drop(allocating);
        // A task deletes the claim; it has run by the time another task has.
        tokio::spawn(async {}).await.unwrap();
        let key = format!("{CLAIMS}{PORT}");
        registry.store().get(&key, None).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn a_claim_is_deleted_only_if_the_outcome_of_the_write_is_known() {
        let check = async |outcome, kept| assert_eq!(is_kept(outcome).await, kept, "{outcome:?}");
        check(Outcome::Stored, false).await;
        check(Outcome::Refused, false).await;
        check(Outcome::Unknown, true).await;
        check(Outcome::GivenUp, true).await;
    }
}
