//! Pod addresses, unique among existing pods.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use parking_lot::Mutex;
use watchkeeper_meta::ObjectKey;
use watchkeeper_runtime::store::Store;
use watchkeeper_wire::Object;

use crate::cluster::Cluster;
use crate::item::Item;
use crate::kinds::pods;

/// 10.192.0.0/10: four million addresses outside of the service range.
const NETWORK: u32 = u32::from_be_bytes([10, 192, 0, 0]);
const NETWORK_SIZE: u32 = 1 << 22;

/// The index of pods by address.
const BY_ADDRESS: &str = "address";

/// Allocates addresses.
pub(super) struct Addresses {
    /// The addresses in the store: of pods from before, or already written to the server.
    store: Store,
    given: Mutex<Given>,
}

/// The addresses given to pods that may not be in the store yet, both ways.
#[derive(Default)]
struct Given {
    by_address: HashMap<Ipv4Addr, ObjectKey>,
    by_pod: HashMap<ObjectKey, Ipv4Addr>,
}

impl Addresses {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let store = cluster.informer(&pods()).store().clone();
        let address = |pod: &Object| vec![Item::read(pod).text("/status/podIP").to_owned()];
        // Only the kubelets add this index.
        let _ = store.add_index(BY_ADDRESS, address);
        Self {
            store,
            given: Mutex::default(),
        }
    }

    /// The address of a pod: the node's for the host network, else a unique one.
    pub(super) fn of(&self, pod: &Item) -> String {
        if pod.at("/spec/hostNetwork") == true {
            return pod.text("/status/hostIP").to_owned();
        }
        let known = pod.text("/status/podIP");
        if !known.is_empty() {
            return known.to_owned();
        }
        let mut given = self.given.lock();
        let first = place(pod.uid());
        let mut candidates = (0..NETWORK_SIZE).map(|offset| address(first.wrapping_add(offset)));
        let free =
            candidates.find(|address| !given.by_address.contains_key(address) && self.is_unknown(*address));
        // Four million pods are more than any machine holds.
        let address = free.unwrap_or(address(first));
        given.by_address.insert(address, pod.key());
        given.by_pod.insert(pod.key(), address);
        address.to_string()
    }

    /// Releases the address of a pod.
    pub(super) fn free(&self, pod: &ObjectKey) {
        let mut given = self.given.lock();
        if let Some(address) = given.by_pod.remove(pod) {
            given.by_address.remove(&address);
        }
    }

    fn is_unknown(&self, address: Ipv4Addr) -> bool {
        let (pods, address) = (self.store.snapshot(), address.to_string());
        let known = pods.by_index(BY_ADDRESS, &address);
        known.is_ok_and(|mut pods| pods.next().is_none())
    }
}

fn address(place: u32) -> Ipv4Addr {
    // Excludes the first and the last address of the network.
    Ipv4Addr::from_bits(NETWORK + 1 + place % (NETWORK_SIZE - 2))
}

/// The start of the search, by uid: spreads pods, and is stable for a pod.
fn place(uid: &str) -> u32 {
    uid.bytes().fold(0, |sum: u32, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    })
}
