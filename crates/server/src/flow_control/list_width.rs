//! The width of a list in seats, estimated from the last response for the same path.
//!
//! A request takes one seat. A list takes one more for every [`BYTES_PER_SEAT`] of the last response for its path,
//! whoever requested it; kube-apiserver counts stored objects instead. An estimate decreases by one with each smaller
//! response, so that short pages in between do not hide a long list.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use parking_lot::Mutex;

use crate::request_info::RequestInfo;

/// About a hundred pods, as kube-apiserver estimates per seat.
const BYTES_PER_SEAT: usize = 256 * 1024;

/// The limit on seats of a list, as in kube-apiserver.
const MAX_SEATS: u32 = 10;

/// The limit on remembered paths; beyond it, all are dropped.
const MAX_PATHS: usize = 4096;

/// The lists that take more than one seat, by a hash of their path.
#[derive(Debug, Default)]
pub(super) struct ListWidths(Mutex<HashMap<u64, u32>>);

impl ListWidths {
    /// The seats of a request.
    pub(super) fn seats(&self, request: &RequestInfo) -> u32 {
        match is_list(request) {
            true => self.0.lock().get(&key(request)).copied().unwrap_or(1),
            false => 1,
        }
    }

    /// Records the size of a response; `None` if it is too long to be built at once.
    pub(super) fn learn(&self, request: &RequestInfo, bytes: Option<usize>) {
        if !is_list(request) {
            return;
        }
        let seen = bytes.map_or(MAX_SEATS, seats);
        let mut widths = self.0.lock();
        let key = key(request);
        let before = widths.get(&key).copied().unwrap_or(1);
        match seen.max(before - 1) {
            1 => {
                widths.remove(&key);
            }
            width => {
                if widths.len() >= MAX_PATHS {
                    widths.clear();
                }
                widths.insert(key, width);
            }
        }
    }
}

fn is_list(request: &RequestInfo) -> bool {
    request.resource.is_some() && request.verb == "list"
}

fn seats(bytes: usize) -> u32 {
    u32::try_from(1 + bytes / BYTES_PER_SEAT).map_or(MAX_SEATS, |seats| seats.min(MAX_SEATS))
}

fn key(request: &RequestInfo) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.path.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn a_long_list_takes_more_seats_next_time() {
        let widths = ListWidths::default();
        let pods = RequestInfo::read(&Method::GET, "/api/v1/pods", "limit=1");
        let nodes = RequestInfo::read(&Method::GET, "/api/v1/nodes", "");
        let mut seen = vec![widths.seats(&pods)];
        for bytes in [Some(100), Some(3 * BYTES_PER_SEAT), Some(100), None, Some(100)] {
            widths.learn(&pods, bytes);
            seen.push(widths.seats(&pods));
        }
        assert_eq!(seen, [1, 1, 4, 3, 10, 9]);
        assert_eq!(widths.seats(&nodes), 1);
    }
}
