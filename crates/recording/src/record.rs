//! The records of a block: what one step of a stream is on disk.
//!
//! They are `postcard`. Streams are numbered by the record that introduces them, within one segment. Versions of an
//! object are [deltas](crate::delta) against the version before, if there is one.

use serde::{Deserialize, Serialize};

use crate::delta;

/// A record with its time, in milliseconds after the block's.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timed<'a> {
    pub(crate) after: u32,
    #[serde(borrow)]
    pub(crate) record: Record<'a>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Record<'a> {
    /// A stream begins, or goes on from an earlier segment.
    Stream {
        id: u32,
        #[serde(borrow)]
        stream: StreamRecord<'a>,
    },
    /// An object is there, as added or modified.
    Put {
        stream: u32,
        is_new: bool,
        key: &'a str,
        #[serde(borrow)]
        body: Body<'a>,
    },
    /// An object is gone. Without a body its end was not seen.
    Gone {
        stream: u32,
        key: &'a str,
        #[serde(borrow)]
        last: Option<Body<'a>>,
    },
    /// What was told so far is the state at this version.
    Synced { stream: u32, version: &'a str },
    /// The server says that nothing else happened up to this version.
    Progress { stream: u32, version: &'a str },
    /// Events between two versions are missing; differences follow, up to `Synced`.
    Gap {
        stream: u32,
        from: Option<&'a str>,
        to: Option<&'a str>,
        reason: &'a str,
    },
    /// Something goes wrong, and is being dealt with.
    Failed { stream: u32, reason: &'a str },
    /// The stream is not followed any more, and its objects are not known.
    Ended { stream: u32, reason: &'a str },
    /// An object that an earlier segment has told of.
    Held {
        stream: u32,
        key: &'a str,
        #[serde(borrow)]
        body: Body<'a>,
    },
    /// How far an earlier segment has followed a stream.
    Reached {
        stream: u32,
        version: &'a str,
        is_complete: bool,
        is_listing: bool,
    },
}

/// A stream as it is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamRecord<'a> {
    pub(crate) name: &'a str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) is_namespaced: bool,
    pub(crate) namespace: &'a str,
    pub(crate) labels: &'a str,
    pub(crate) fields: &'a str,
}

/// An object's JSON.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Body<'a> {
    Whole(&'a [u8]),
    /// Against the bytes that the key held before.
    Delta(&'a [u8]),
}

impl Body<'_> {
    /// The object's JSON, given what the key held before.
    pub(crate) fn open(&self, previous: Option<&[u8]>) -> Result<Vec<u8>, String> {
        match (self, previous) {
            (Self::Whole(bytes), _) => Ok(bytes.to_vec()),
            (Self::Delta(delta), Some(previous)) => {
                delta::decode(previous, delta).map_err(|error| error.to_string())
            }
            (Self::Delta(_), None) => Err("a delta without a version before it".to_owned()),
        }
    }
}
