//! Implements [`ResourceType`] for the kinds of kube: derived with `kube::CustomResource`, written by hand, or of
//! `k8s-openapi`.
//!
//! One implementation covers them all, because kube's own covers `k8s-openapi`. Kinds known only at run time
//! (`DynamicObject`) are not included; use [`DynamicApi`](crate::DynamicApi).

use std::borrow::Cow;

use kube_core::Resource as Described;
use serde::Serialize;
use serde::de::DeserializeOwned;
use watchkeeper_meta::Resource;

use crate::known_scope::KnownScope;
use crate::typed::{Identity, ResourceType};

impl<K> ResourceType for K
where
    K: Described<DynamicType = ()> + DeserializeOwned + Serialize + Send + Sync + 'static,
    K::Scope: KnownScope,
{
    fn resource() -> Resource {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Resource {
            group: owned(K::group(&())),
            version: owned(K::version(&())),
            kind: owned(K::kind(&())),
            plural: owned(K::plural(&())),
            scope: <K::Scope as KnownScope>::SCOPE,
        }
    }

    fn identity(&self) -> Identity {
        Identity::from(self.meta())
    }
}
