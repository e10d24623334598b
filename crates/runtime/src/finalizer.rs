//! Finalizers: protect an object until its clean-up has succeeded.
//!
//! Called from a reconcile with the object and a function for two phases: apply while it exists, clean up when it is
//! being deleted. The finalizer is added before the first apply and removed only after a successful clean-up. Both
//! writes are patches that test the resourceVersion. If the object has changed, the server refuses them with 422
//! Invalid, as every JSON patch whose test fails ([`FinalizerError::is_stale`]); the reconcile fails and is retried
//! with the new state.

use serde_json::{Value, json};
use watchkeeper_client::{DynamicApi, Error};
use watchkeeper_meta::PatchKind;
use watchkeeper_wire::Object;

use crate::controller::{Action, BoxError};

/// The phase of the object.
#[derive(Clone, Debug)]
pub enum Phase<T = Object> {
    /// It exists: create and update what belongs to it.
    Apply(T),
    /// It is being deleted: clean up what belongs to it.
    Cleanup(T),
}

/// The step that failed.
#[derive(Debug, thiserror::Error)]
pub enum FinalizerError {
    /// The finalizer could not be added.
    #[error("adding the finalizer")]
    Add(#[source] Box<Error>),
    /// The apply phase failed.
    #[error("applying the object")]
    Apply(#[source] BoxError),
    /// The clean-up failed; the finalizer stays.
    #[error("cleaning up")]
    Cleanup(#[source] BoxError),
    /// The finalizer could not be removed.
    #[error("removing the finalizer")]
    Remove(#[source] Box<Error>),
}

impl FinalizerError {
    /// True if the object has changed meanwhile; the retry sees the new state.
    pub fn is_stale(&self) -> bool {
        match self {
            Self::Add(error) | Self::Remove(error) => error.is_invalid(),
            Self::Apply(_) | Self::Cleanup(_) => false,
        }
    }
}

/// Runs the phase the object is in. `api` is that of the object's namespace; `finalizer` is a qualified name such as
/// `example.com/cleanup`.
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
        // Continues at once: the caller's predicate may well ignore the change of this write.
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
        // The object waits for other finalizers; ours is done.
        (true, false) => Ok(Action::Done),
    }
}

/// The object after the change; `None` if it no longer exists.
async fn patch(api: &DynamicApi, object: &Object, change: Value) -> Result<Option<Object>, Error> {
    let version =
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": object.resource_version()});
    let operations = Value::Array(vec![version, change]);
    match api.patch(object.name(), PatchKind::Json, &operations).await {
        Ok(changed) => Ok(Some(changed)),
        // The finalizer is gone with it.
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
