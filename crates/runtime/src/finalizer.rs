//! Finalizers: an object stays until what belongs to it was cleaned up.
//!
//! Called from a reconcile with the object and two things to do: keep it in line while it lives, clean up once it is
//! being deleted. Before anything is created the finalizer is on the object; it is taken off only after cleaning up
//! has succeeded. Both writes are patches that name the version they change. If somebody has written in between, the
//! server refuses them with 422 Invalid, as it does every JSON patch whose test fails
//! ([`FinalizerError::is_stale`]); the reconcile fails and is tried again with the new state.

use serde_json::{Value, json};
use watchkeeper_client::{DynamicApi, Error};
use watchkeeper_meta::PatchKind;
use watchkeeper_wire::Object;

use crate::controller::{Action, BoxError};

/// What is to be done for the object.
#[derive(Clone, Debug)]
pub enum Phase<T = Object> {
    /// It lives: bring what belongs to it in line.
    Apply(T),
    /// It is being deleted: clean up what belongs to it.
    Cleanup(T),
}

/// Why a step did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum FinalizerError {
    /// The finalizer could not be put on the object.
    #[error("adding the finalizer")]
    Add(#[source] Box<Error>),
    /// Keeping the object in line failed.
    #[error("applying the object")]
    Apply(#[source] BoxError),
    /// Cleaning up failed; the finalizer stays.
    #[error("cleaning up")]
    Cleanup(#[source] BoxError),
    /// The finalizer could not be taken off.
    #[error("removing the finalizer")]
    Remove(#[source] Box<Error>),
}

impl FinalizerError {
    /// Whether somebody else has written the object meanwhile: the next reconcile sees what.
    pub fn is_stale(&self) -> bool {
        match self {
            Self::Add(error) | Self::Remove(error) => error.is_invalid(),
            Self::Apply(_) | Self::Cleanup(_) => false,
        }
    }
}

/// Does what the object's state asks for. `api` is that of the object's namespace; `finalizer` is a qualified name
/// such as `example.com/cleanup`.
pub async fn finalizer<E: Into<BoxError>>(
    api: &DynamicApi,
    finalizer: &str,
    object: Object,
    reconcile: impl AsyncFnOnce(Phase) -> Result<Action, E>,
) -> Result<Action, FinalizerError> {
    let present = object.finalizers().iter().any(|name| name == finalizer);
    match (object.is_deleting(), present) {
        (false, true) => reconcile(Phase::Apply(object))
            .await
            .map_err(|error| FinalizerError::Apply(error.into())),
        // Goes on at once: the write is a change, but the caller's predicate may well leave such changes out.
        (false, false) => {
            let added = patch(api, &object, add(&object, finalizer)).await;
            match added.map_err(|error| FinalizerError::Add(Box::new(error)))? {
                Some(object) => reconcile(Phase::Apply(object))
                    .await
                    .map_err(|error| FinalizerError::Apply(error.into())),
                None => Ok(Action::Done),
            }
        }
        (true, true) => {
            let action = reconcile(Phase::Cleanup(object.clone())).await;
            let action = action.map_err(|error| FinalizerError::Cleanup(error.into()))?;
            let removed = patch(api, &object, remove(&object, finalizer)).await;
            removed
                .map(|_| action)
                .map_err(|error| FinalizerError::Remove(Box::new(error)))
        }
        // Others have finalizers, too; ours is done.
        (true, false) => Ok(Action::Done),
    }
}

/// The object after the change; `None` if it is gone.
async fn patch(api: &DynamicApi, object: &Object, change: Value) -> Result<Option<Object>, Error> {
    let version =
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": object.resource_version()});
    let operations = Value::Array(vec![version, change]);
    match api.patch(object.name(), PatchKind::Json, &operations).await {
        Ok(changed) => Ok(Some(changed)),
        // And so is the finalizer.
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn add(object: &Object, finalizer: &str) -> Value {
    match object.finalizers().is_empty() {
        true => json!({"op": "add", "path": "/metadata/finalizers", "value": [finalizer]}),
        false => json!({"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}),
    }
}

fn remove(object: &Object, finalizer: &str) -> Value {
    let at = object.finalizers().iter().position(|name| name == finalizer);
    json!({"op": "remove", "path": format!("/metadata/finalizers/{}", at.unwrap_or_default())})
}
