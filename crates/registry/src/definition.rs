//! A resource as the registry serves it: a kind in one version and, for custom kinds, its lifetime.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use watchkeeper_kinds::KindVersion;
use watchkeeper_meta::Status;
use watchkeeper_storage::Revision;
use watchkeeper_wire::canonical::canonicalize_changed;
use watchkeeper_wire::difference::Difference;

use crate::converter::Converter;

/// A resource whose objects can be stored. Names and semantics are those of its [`KindVersion`].
#[derive(Debug)]
pub struct Definition {
    version: KindVersion,
    /// The lifetime of a custom kind; `None` for built-in kinds.
    pub(crate) lifetime: Option<Lifetime>,
    /// The conversion webhook of a custom kind, if it has one.
    pub(crate) converter: Option<Converter>,
}

/// The lifetime of a custom kind.
#[derive(Debug)]
pub(crate) struct Lifetime {
    /// Objects written after this revision match the schema; older ones are pruned and defaulted when they are read.
    pub(crate) schema_since: Revision,
    /// The creation of the kind. Watches cannot start before it.
    pub(crate) served_since: Revision,
    /// True once the version is no longer served, or has changed: its watches end.
    pub(crate) is_retired: watch::Sender<bool>,
    /// The kind is being deleted: objects cannot be created.
    pub(crate) is_terminating: bool,
}

impl Deref for Definition {
    type Target = KindVersion;

    fn deref(&self) -> &KindVersion {
        &self.version
    }
}

impl Definition {
    /// Every built-in resource that is stored.
    pub fn builtin() -> Vec<Arc<Self>> {
        let all = KindVersion::all().into_iter();
        all.map(|version| Arc::new(Self::plain(version))).collect()
    }

    /// ComponentStatuses, which can be read but are not stored.
    pub fn component_statuses() -> Option<Self> {
        KindVersion::component_statuses().map(Self::plain)
    }

    fn plain(version: KindVersion) -> Self {
        Self {
            version,
            lifetime: None,
            converter: None,
        }
    }

    /// A version of a custom kind.
    pub(crate) fn custom(version: KindVersion, lifetime: Lifetime) -> Self {
        let custom = version.custom.as_ref();
        let webhook = custom.and_then(|custom| custom.conversion_webhook.as_ref());
        Self {
            converter: webhook.map(Converter::read),
            version,
            lifetime: Some(lifetime),
        }
    }

    /// True if an object, stored in that version at that revision, can be served without conversion or defaulting.
    pub(crate) fn shows(&self, api_version: &str, revision: Option<Revision>) -> bool {
        let since = self
            .lifetime
            .as_ref()
            .map_or(Revision::ZERO, |lifetime| lifetime.schema_since);
        self.stored_api_version() == api_version && revision.is_none_or(|revision| revision > since)
    }

    /// True if the kind is being deleted, so that objects cannot be created.
    pub(crate) fn is_terminating(&self) -> bool {
        self.lifetime
            .as_ref()
            .is_some_and(|lifetime| lifetime.is_terminating)
    }

    /// Restores the canonical form of an object that hooks have changed.
    pub(crate) fn recanonicalized(&self, object: Value) -> Result<Value, Status> {
        self.recanonicalized_changed(object, &Difference::Everywhere)
    }

    /// Like [`Definition::recanonicalized`], for an object that differs in this way from a canonical one.
    pub(crate) fn recanonicalized_changed(
        &self,
        object: Value,
        difference: &Difference,
    ) -> Result<Value, Status> {
        let read = canonicalize_changed(&self.schema, self.type_id, object, difference)
            .map_err(Status::internal_error)?;
        let mut value = read.value;
        value["apiVersion"] = self.api_version.as_str().into();
        value["kind"] = self.resource.kind.as_ref().into();
        Ok(value)
    }
}
