//! A resource as the registry serves it: its names, its schema, its place in the store, its rules.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use watchkeeper_meta::{GroupKind, GroupResource, Resource, Scope};
use watchkeeper_patch::endpoint::Versions;
use watchkeeper_wire::schema::resources::{self, BuiltinResource};
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::custom::CustomVersion;
use crate::strategy::Strategy;
use crate::versions::{Conversion, conversion, family};

/// Where everything is stored, as in etcd behind a Kubernetes server.
const ROOT: &str = "/registry";

/// A resource that can be stored.
#[derive(Debug)]
pub struct Definition {
    /// Group, version, kind, plural name and scope.
    pub resource: Resource,
    /// What discovery says of it.
    pub listing: Cow<'static, BuiltinResource>,
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `PodList`.
    pub list_kind: String,
    /// The rules it differs in.
    pub strategy: Strategy,
    /// What its objects are made of.
    pub schema: SharedSchema,
    /// The type of its objects.
    pub type_id: TypeId,
    /// How the stored version differs, if it does.
    pub(crate) conversion: Option<&'static Conversion>,
    /// What a custom resource definition says of it, if it is one's.
    pub(crate) custom: Option<Box<CustomVersion>>,
    /// `/registry/pods/`.
    prefix: String,
}

/// A schema that is part of the program, or one that the versions of a custom kind have in common.
#[derive(Clone, Debug)]
pub enum SharedSchema {
    /// That of every built-in kind.
    Builtin(&'static Schema),
    /// One that was made at run time.
    Custom(Arc<Schema>),
}

impl Deref for SharedSchema {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        match self {
            Self::Builtin(schema) => schema,
            Self::Custom(schema) => schema,
        }
    }
}

impl Definition {
    /// Every built-in resource that is stored: those that can be listed and created.
    pub fn builtin() -> Vec<Arc<Self>> {
        let stored = resources::all()
            .iter()
            .filter(|builtin| builtin.has_verb("list") && builtin.has_verb("create"));
        stored.filter_map(Self::of).map(Arc::new).collect()
    }

    /// Component statuses, which can be read though nothing stores them.
    pub fn component_statuses() -> Option<Self> {
        resources::by_plural("", "v1", "componentstatuses").and_then(Self::of)
    }

    fn of(builtin: &'static BuiltinResource) -> Option<Self> {
        let resource = builtin.resource.clone();
        let schema = Schema::builtin();
        let api_version = builtin.api_version();
        Some(Self {
            type_id: schema.kind(&api_version, &resource.kind)?,
            list_kind: format!("{}List", resource.kind),
            strategy: Strategy::builtin(&resource.group, &resource.plural),
            conversion: conversion(&resource.group, &resource.version, &resource.plural),
            prefix: format!("{ROOT}/{}/", storage_name(&resource)),
            resource,
            listing: Cow::Borrowed(builtin),
            api_version,
            schema: SharedSchema::Builtin(schema),
            custom: None,
        })
    }

    /// A version of a custom kind.
    pub(crate) fn custom(
        listing: BuiltinResource,
        list_kind: String,
        schema: Arc<Schema>,
        type_id: TypeId,
        custom: CustomVersion,
    ) -> Self {
        let resource = listing.resource.clone();
        Self {
            api_version: listing.api_version(),
            list_kind,
            strategy: Strategy::CUSTOM,
            schema: SharedSchema::Custom(schema),
            type_id,
            conversion: None,
            custom: Some(Box::new(custom)),
            prefix: format!("{ROOT}/{}/{}/", resource.group, resource.plural),
            listing: Cow::Owned(listing),
            resource,
        }
    }

    /// Where the resource's objects are stored, one namespace's or all.
    pub(crate) fn prefix(&self, namespace: &str) -> String {
        match namespace {
            "" => self.prefix.clone(),
            namespace => format!("{}{namespace}/", self.prefix),
        }
    }

    /// Where one object is stored.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        match namespace {
            "" => [&self.prefix, name].concat(),
            namespace => [&self.prefix, namespace, "/", name].concat(),
        }
    }

    /// The versions of the kind, if it has several.
    pub(crate) fn versions(&self) -> Option<&dyn Versions> {
        if let Some(custom) = &self.custom {
            return custom.versions();
        }
        let family = family(&self.resource.group, &self.resource.plural)?;
        Some(family)
    }

    /// The version objects are stored in.
    pub(crate) fn stored_api_version(&self) -> &str {
        match (&self.custom, self.conversion) {
            (Some(custom), _) => &custom.stored_api_version,
            (None, Some(conversion)) => conversion.stored_api_version,
            (None, None) => &self.api_version,
        }
    }

    /// The version that objects are stored in, without its group.
    pub fn stored_version(&self) -> &str {
        let stored = self.stored_api_version();
        stored.rsplit_once('/').map_or(stored, |(_, version)| version)
    }

    /// Whether it is that of the definitions of custom kinds.
    pub(crate) fn defines_kinds(&self) -> bool {
        self.resource.plural == "customresourcedefinitions" && self.resource.group == "apiextensions.k8s.io"
    }

    /// Whether it is the built-in resource of this name. Custom kinds may be called as they like.
    pub(crate) fn is_built_in(&self, plural: &str) -> bool {
        !self.is_custom() && self.resource.plural == plural
    }

    /// Whether it is a custom kind's, whose objects travel as JSON only.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// The OpenAPI schema of a custom kind.
    pub fn open_api(&self) -> Option<&serde_json::Value> {
        self.custom.as_ref().map(|custom| &custom.open_api)
    }

    /// What everyone hears who uses a version that is going away.
    pub fn deprecation(&self) -> Option<&str> {
        self.custom.as_ref()?.deprecation.as_deref()
    }

    /// Whether its objects are stored as the messages they are served as.
    pub(crate) fn stores_messages(&self) -> bool {
        self.conversion.is_none() && !self.is_custom()
    }

    /// `deployments.apps`, for error texts.
    pub fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    /// `Deployment.apps`, for error texts.
    pub fn group_kind(&self) -> GroupKind {
        // Both versions of events are checked as the older one.
        if self.resource.group == "events.k8s.io" {
            return GroupKind::new("", self.resource.kind.clone());
        }
        GroupKind {
            group: self.resource.group.clone(),
            kind: self.resource.kind.clone(),
        }
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.resource.scope == Scope::Namespaced
    }

    /// Whether status is written apart from the rest.
    pub fn has_status(&self) -> bool {
        self.listing.subresource("status").is_some()
    }
}

/// The few names that are older than the resource's plural.
fn storage_name(resource: &Resource) -> &str {
    match &*resource.plural {
        "replicationcontrollers" => "controllers",
        "services" => "services/specs",
        "endpoints" => "services/endpoints",
        "nodes" => "minions",
        "ingresses" => "ingress",
        plural => plural,
    }
}
