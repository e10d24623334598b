//! How the objects of a store are read: as they are, or as structs of their kind.
//!
//! Stores, informers and subscriptions have the kind as a parameter. Without one they give out [`Object`]s, of any kind,
//! as bytes with a header. With one they give out `Arc<K>`, decoded when it is first read ([`crate::decoded`]).

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
    /// What readers are given: `Arc<K>`, or the [`Object`] itself.
    type Handle: Clone + Send + Sync + 'static;

    /// What is kept beside the objects.
    #[doc(hidden)]
    type Kept: Clone + fmt::Debug + Send + Sync + 'static;

    #[doc(hidden)]
    fn kept(store: &Store) -> Self::Kept;

    /// `None` for an object that does not decode. `state` is where the object was read.
    #[doc(hidden)]
    fn read(kept: &Self::Kept, object: &Object, state: Option<&Snapshot>) -> Option<Self::Handle>;

    /// A change as a reader is told it; `None` if it is not.
    #[doc(hidden)]
    fn translate(kept: &Self::Kept, delta: Delta, last: &mut LastRead<Self>) -> Option<Delta<Self::Handle>>;
}

/// Objects as a subscriber was last told them, where what they are now does not decode. Nearly always empty.
#[doc(hidden)]
pub type LastRead<K> = HashMap<ObjectKey, <K as View>::Handle>;

/// Objects of any kind, as they are.
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
        // Kept by the type that asks: it is always that one.
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
                // It stays as it was told, until it can be read again or is gone.
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
