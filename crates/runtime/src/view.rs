//! The view of a store's objects: undecoded, or as structs of their kind.
//!
//! Stores, informers and subscriptions have the kind as a type parameter. By default they return [`Object`]s of any
//! kind, as bytes with a header. With a kind they return `Arc<K>`, decoded when first read ([`crate::decoded`]).

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use watchkeeper_client::ResourceType;
use watchkeeper_meta::ObjectKey;
use watchkeeper_wire::{Object, WireError};

use crate::decoded::{Decoded, Value};
use crate::delta::Delta;
use crate::store::{Snapshot, Store};

/// A kind, or [`Untyped`]. Every [`ResourceType`] is one.
pub trait View: Sized + Send + Sync + 'static {
    /// The type readers get: `Arc<K>`, or the [`Object`] itself.
    type Handle: Clone + Send + Sync + 'static;

    /// The cache kept beside the objects.
    #[doc(hidden)]
    type Kept: Clone + fmt::Debug + Send + Sync + 'static;

    #[doc(hidden)]
    fn kept(store: &Store) -> Self::Kept;

    /// Returns `None` for an object that does not decode. `state` is the snapshot it was read from.
    #[doc(hidden)]
    fn read(kept: &Self::Kept, object: &Object, state: Option<&Snapshot>) -> Option<Self::Handle>;

    /// A change as a subscriber receives it; `None` if it receives nothing.
    #[doc(hidden)]
    fn translate(kept: &Self::Kept, delta: Delta, last: &mut LastRead<Self>) -> Option<Delta<Self::Handle>>;
}

/// The last decodable state of objects that no longer decode, as the subscriber received it. Nearly always empty.
#[doc(hidden)]
pub type LastRead<K> = HashMap<ObjectKey, <K as View>::Handle>;

/// Undecoded objects of any kind.
#[derive(Clone, Copy, Debug)]
pub enum Untyped {}

impl View for Untyped {
    type Handle = Object;
    type Kept = ();

    fn kept(_: &Store) {}

    fn read((): &(), object: &Object, _: Option<&Snapshot>) -> Option<Object> {
        Some(object.clone())
    }

    fn translate((): &(), delta: Delta, _: &mut LastRead<Self>) -> Option<Delta> {
        Some(delta)
    }
}

impl<K: ResourceType> View for K {
    type Handle = Arc<K>;
    type Kept = Arc<Decoded>;

    fn kept(store: &Store) -> Arc<Decoded> {
        store.decoded_as(TypeId::of::<K>())
    }

    fn read(decoded: &Arc<Decoded>, object: &Object, state: Option<&Snapshot>) -> Option<Arc<K>> {
        // The cache is per type, so the downcast succeeds.
        decoded.get(object, state, decode::<K>)?.downcast().ok()
    }

    fn translate(
        decoded: &Arc<Decoded>,
        delta: Delta,
        last_read: &mut LastRead<Self>,
    ) -> Option<Delta<Arc<K>>> {
        let read = |object: &Object| Self::read(decoded, object, None);
        let mut before = |old: &Object| last_read.remove(&old.key()).or_else(|| read(old));
        match delta {
            Delta::Added { object, cause } => Some(Delta::Added {
                object: read(&object)?,
                cause,
            }),
            Delta::Updated { old, new, cause } => match (before(&old), read(&new)) {
                (Some(old), Some(new)) => Some(Delta::Updated { old, new, cause }),
                (None, Some(object)) => Some(Delta::Added { object, cause }),
                // The subscriber keeps the last state until the object decodes again or is deleted.
                (Some(old), None) => {
                    last_read.insert(new.key(), old);
                    None
                }
                (None, None) => None,
            },
            Delta::Deleted {
                old,
                last,
                final_state,
                cause,
            } => {
                let old = before(&old)?;
                let seen = read(&last);
                Some(Delta::Deleted {
                    final_state: final_state && seen.is_some(),
                    last: seen.unwrap_or_else(|| old.clone()),
                    old,
                    cause,
                })
            }
        }
    }
}

fn decode<K: ResourceType>(object: &Object) -> Result<Value, WireError> {
    Ok(Arc::new(object.decode::<K>()?))
}

#[cfg(test)]
mod tests;
