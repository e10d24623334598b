//! A resource as this registry serves it: a kind in one of its versions, and, of a custom kind, since when.

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

/// A resource that can be stored. What it is called and what its objects mean is its [`KindVersion`]'s to say.
#[derive(Debug)]
pub struct Definition {
    version: KindVersion,
    /// How long a custom kind has been what it is; `None` for a built-in one, which always was.
    pub(crate) life: Option<Life>,
    /// Who converts between the versions of a custom kind, if more than the name of the version changes.
    pub(crate) converter: Option<Converter>,
}

/// How long a custom kind has been what it is.
#[derive(Debug)]
pub(crate) struct Life {
    /// Objects that were written after this have passed this schema; older ones are pruned and defaulted when read.
    pub(crate) schema_since: Revision,
    /// Nothing that happened to the kind before this, which is when it was defined, can be watched.
    pub(crate) served_since: Revision,
    /// Whether the version is served no longer, or otherwise: its watches end.
    pub(crate) is_retired: watch::Sender<bool>,
    /// The kind is going: nothing new is made.
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

    /// Component statuses, which can be read though nothing stores them.
    pub fn component_statuses() -> Option<Self> {
        KindVersion::component_statuses().map(Self::plain)
    }

    fn plain(version: KindVersion) -> Self {
        Self {
            version,
            life: None,
            converter: None,
        }
    }

    /// A version of a custom kind.
    pub(crate) fn custom(version: KindVersion, life: Life) -> Self {
        let custom = version.custom.as_ref();
        let webhook = custom.and_then(|custom| custom.conversion_webhook.as_ref());
        Self {
            converter: webhook.map(Converter::read),
            version,
            life: Some(life),
        }
    }

    /// Whether an object of a custom kind, stored in that version at that revision, is as this version shows it.
    pub(crate) fn shows(&self, api_version: &str, revision: Option<Revision>) -> bool {
        let since = self
            .life
            .as_ref()
            .map_or(Revision::ZERO, |life| life.schema_since);
        self.stored_api_version() == api_version && revision.is_none_or(|revision| revision > since)
    }

    /// Whether the kind is going, so that nothing new is made.
    pub(crate) fn is_terminating(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.is_terminating)
    }

    /// An object in the server's own form again, after hooks have worked on it.
    pub(crate) fn recanonicalized(&self, object: Value) -> Result<Value, Status> {
        self.recanonicalized_changed(object, &Difference::Everywhere)
    }

    /// As [`Definition::recanonicalized`], for an object that differs in this from one in that form.
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
