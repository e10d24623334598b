//! Waits until an object meets a condition.
//!
//! Takes an informer, a key and a condition; returns the object that meets it, or the reason it did not in time. The
//! informer recovers from failures, so a lost connection does not end a wait.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use watchkeeper_meta::ObjectKey;
//! # use watchkeeper_runtime::informer::Informer;
//! use watchkeeper_runtime::wait::{Condition, wait_for};
//!
//! # async fn run(config_maps: Informer) -> Result<(), Box<dyn std::error::Error>> {
//! let blue = Condition::field("/data/colour", "blue").or(Condition::exists().not());
//! let paint = ObjectKey::new("default", "paint");
//! let found = wait_for(&config_maps, &paint, &blue, Duration::from_secs(10)).await?;
//! println!("{}", if found.is_some() { "it is blue" } else { "it is gone" });
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use watchkeeper_meta::ObjectKey;
use watchkeeper_wire::Object;

use crate::informer::{Health, Informer};
use crate::view::View;

/// The timeout passed, or the informer has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{key} is not {what} after {within:?} ({health})")]
pub struct WaitError {
    /// The object's key.
    pub key: ObjectKey,
    /// The condition.
    pub what: String,
    /// The timeout.
    pub within: Duration,
    /// The health of the informer.
    pub health: Health,
}

/// A condition on an object or its absence. Conditions combine with [`Condition::and`], [`Condition::or`] and
/// [`Condition::not`].
pub struct Condition {
    what: String,
    holds: Box<Test>,
}

/// Tests an object or its absence.
type Test = dyn Fn(Option<&Object>) -> bool + Send + Sync;

impl Condition {
    /// Any condition; `what` completes the sentence "it is not …".
    pub fn new(
        what: impl Into<String>,
        holds: impl Fn(Option<&Object>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            what: what.into(),
            holds: Box::new(holds),
        }
    }

    /// The object exists.
    pub fn exists() -> Self {
        Self::new("there", |object| object.is_some())
    }

    /// The object of this uid was deleted, even if another one has its name.
    pub fn deleted(uid: impl Into<String>) -> Self {
        let uid = uid.into();
        Self::new("deleted", move |object| {
            object.is_none_or(|object| object.uid() != uid)
        })
    }

    /// An entry of `status.conditions` has this status, as in `kubectl wait --for=condition=Ready`.
    pub fn status_condition(kind: impl Into<String>, status: impl Into<String>) -> Self {
        let (kind, status) = (kind.into(), status.into());
        let what = format!("{kind}={status}");
        Self::on_value(what, move |value| {
            let conditions = value["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|condition| condition["type"] == *kind && condition["status"] == *status)
        })
    }

    /// The field at a JSON pointer (`/status/phase`) has this value.
    pub fn field(pointer: impl Into<String>, expected: impl Into<Value>) -> Self {
        let (pointer, expected) = (pointer.into(), expected.into());
        let what = format!("{pointer}={expected}");
        Self::on_value(what, move |value| value.pointer(&pointer) == Some(&expected))
    }

    fn on_value(what: String, holds: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        Self::new(what, move |object| {
            let value = object.and_then(|object| object.to_value().ok());
            value.is_some_and(|value| holds(&value))
        })
    }

    /// Both must hold.
    pub fn and(self, other: Self) -> Self {
        let what = format!("{} and {}", self.what, other.what);
        Self::new(what, move |object| (self.holds)(object) && (other.holds)(object))
    }

    /// Either must hold.
    pub fn or(self, other: Self) -> Self {
        let what = format!("{} or {}", self.what, other.what);
        Self::new(what, move |object| (self.holds)(object) || (other.holds)(object))
    }

    /// It must not hold.
    #[allow(
        clippy::should_implement_trait,
        reason = "reads as a sentence beside `and` and `or`"
    )]
    pub fn not(self) -> Self {
        Self::new(format!("not {}", self.what), move |object| !(self.holds)(object))
    }

    /// True if it holds now.
    pub fn holds(&self, object: Option<&Object>) -> bool {
        (self.holds)(object)
    }
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Condition").field(&self.what).finish()
    }
}

/// Waits up to `within` until an object meets a condition, or the informer ends. `None` means that its absence meets
/// it.
pub async fn wait_for<K: View>(
    informer: &Informer<K>,
    key: &ObjectKey,
    condition: &Condition,
    within: Duration,
) -> Result<Option<Object>, WaitError> {
    let store = informer.store();
    let satisfied = store.wait_until(|snapshot| snapshot.is_synced() && condition.holds(snapshot.get(key)));
    let begun = Instant::now();
    match tokio::time::timeout(within, satisfied).await {
        Ok(Ok(snapshot)) => Ok(snapshot.get(key).cloned()),
        Ok(Err(_)) | Err(_) => Err(WaitError {
            key: key.clone(),
            what: condition.what.clone(),
            within: begun.elapsed().min(within),
            health: informer.health(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use watchkeeper_meta::Status;

    use super::*;
    use crate::informer::{HealthPhase, InformerOptions};
    use crate::store::tests::object;
    use crate::watcher::{ListRequest, Opening, Source, WatchRequest};

    #[test]
    fn conditions_join() {
        let there = object("a/x@1#u");
        let check = |condition: Condition, object: Option<&Object>| condition.holds(object);
        assert!(check(Condition::exists(), Some(&there)));
        assert!(check(Condition::exists().not(), None));
        assert!(check(Condition::deleted("u"), None));
        assert!(!check(Condition::deleted("u"), Some(&there)));
        assert!(
            check(Condition::deleted("older"), Some(&there)),
            "another has taken its name"
        );
        assert!(check(
            Condition::field("/metadata/uid", "u").and(Condition::exists()),
            Some(&there)
        ));
        assert!(check(
            Condition::field("/metadata/uid", "v").or(Condition::exists()),
            Some(&there)
        ));
        assert!(!check(Condition::status_condition("Ready", "True"), Some(&there)));
    }

    /// Asks for a resource no server has.
    struct Wrong;

    impl Source for Wrong {
        type Object = Object;

        fn list(&self, _: ListRequest) -> Opening<Object> {
            async { Err(Status::bad_request("unable to parse").into()) }.boxed()
        }

        fn watch(&self, _: WatchRequest) -> Opening<Object> {
            async { Err(Status::bad_request("unable to parse").into()) }.boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_its_informer() {
        let informer = Informer::start(Arc::new(Wrong), InformerOptions::default());
        let key = ObjectKey::new("a", "x");
        let hour = Duration::from_secs(3600);
        let error = wait_for(&informer, &key, &Condition::exists(), hour)
            .await
            .unwrap_err();
        assert_eq!(error.health.phase, HealthPhase::Stopped);
        assert!(error.within < hour, "{error}");
    }
}
