//! Addresses for pods: each has one of its own while it lives.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use parking_lot::Mutex;
use watchkeeper_meta::ObjectKey;
use watchkeeper_runtime::store::Store;
use watchkeeper_wire::Object;

use crate::cluster::Cluster;
use crate::item::Item;
use crate::kinds::pods;

/// 10.192.0.0/10: four million addresses that no service has.
const NETWORK: u32 = u32::from_be_bytes([10, 192, 0, 0]);
const NETWORK_SIZE: u32 = 1 << 22;

/// The index of pods by their address.
const BY_ADDRESS: &str = "address";

/// Gives out addresses.
pub(super) struct Addresses {
    /// What pods have that were there before, or whose owner has told the server.
    store: Store,
    given: Mutex<HashMap<Ipv4Addr, ObjectKey>>,
}

impl Addresses {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let store = cluster.informer(&pods()).store().clone();
        let address = |pod: &Object| vec![Item::read(pod).text("/status/podIP").to_owned()];
        // Only kubelets ask for it.
        let _ = store.add_index(BY_ADDRESS, address);
        Self {
            store,
            given: Mutex::default(),
        }
    }

    /// The address of a pod: on the node's network the node's, else one that nobody else has.
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
        let free = candidates.find(|address| !given.contains_key(address) && self.is_unknown(*address));
        // Four million pods are more than this machine holds.
        let address = free.unwrap_or(address(first));
        given.insert(address, pod.key());
        address.to_string()
    }

    /// Lets others have what a pod had.
    pub(super) fn free(&self, pod: &ObjectKey) {
        self.given.lock().retain(|_, owner| owner != pod);
    }

    fn is_unknown(&self, address: Ipv4Addr) -> bool {
        let (pods, address) = (self.store.snapshot(), address.to_string());
        let known = pods.by_index(BY_ADDRESS, &address);
        known.is_ok_and(|mut pods| pods.next().is_none())
    }
}

fn address(place: u32) -> Ipv4Addr {
    // The network's own address and its last are not for pods.
    Ipv4Addr::from_bits(NETWORK + 1 + place % (NETWORK_SIZE - 2))
}

/// Where to look first: pods spread out, and the same pod looks at the same place.
fn place(uid: &str) -> u32 {
    uid.bytes().fold(0, |sum: u32, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    })
}
