//! The records of a block.
//!
//! They are encoded with `postcard`. Streams are numbered within a segment, by the record that introduces them.
//! Versions of an object are [deltas](crate::delta) against the previous version, if there is one.

use serde::{Deserialize, Serialize};

use crate::delta;

/// A record with its time, in milliseconds relative to the block.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timed<'a> {
    pub(crate) after: u32,
    #[serde(borrow)]
    pub(crate) record: Record<'a>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Record<'a> {
    /// A stream starts, or continues from an earlier segment.
    Stream {
        id: u32,
        #[serde(borrow)]
        stream: StreamRecord<'a>,
    },
    /// An object was added or modified.
    Put {
        stream: u32,
        is_new: bool,
        key: &'a str,
        #[serde(borrow)]
        body: Body<'a>,
    },
    /// An object was deleted. Without a body, the deletion was not seen.
    Gone {
        stream: u32,
        key: &'a str,
        #[serde(borrow)]
        last: Option<Body<'a>>,
    },
    /// The records so far are the complete state at this version.
    Synced { stream: u32, version: &'a str },
    /// Nothing else happened up to this version.
    Progress { stream: u32, version: &'a str },
    /// Events between two versions are missing; differences follow, up to `Synced`.
    Gap {
        stream: u32,
        from: Option<&'a str>,
        to: Option<&'a str>,
        reason: &'a str,
    },
    /// The stream fails at the moment.
    Failed { stream: u32, reason: &'a str },
    /// The stream is no longer followed; its objects are unknown.
    Ended { stream: u32, reason: &'a str },
    /// An object known from an earlier segment.
    Held {
        stream: u32,
        key: &'a str,
        #[serde(borrow)]
        body: Body<'a>,
    },
    /// The version up to which an earlier segment followed a stream.
    Reached {
        stream: u32,
        version: &'a str,
        is_complete: bool,
        is_listing: bool,
    },
}

/// The encoded form of a stream.
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
    /// A delta against the previous JSON of the key.
    Delta(&'a [u8]),
}

impl Body<'_> {
    /// The object's JSON, given the previous JSON of the key.
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
