//! A resource as the registry serves it: its names, its schema, its place in the store, its rules.

use std::sync::Arc;

use watchkeeper_meta::{GroupKind, GroupResource, ObjectKey, Resource, Scope};
use watchkeeper_patch::endpoint::Versions;
use watchkeeper_wire::schema::resources::{self, BuiltinResource};
use watchkeeper_wire::schema::{Schema, TypeId};

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
    pub builtin: &'static BuiltinResource,
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `PodList`.
    pub list_kind: String,
    /// The rules it differs in.
    pub strategy: Strategy,
    /// What its objects are made of.
    pub schema: &'static Schema,
    /// The type of its objects.
    pub type_id: TypeId,
    /// How the stored version differs, if it does.
    pub(crate) conversion: Option<&'static Conversion>,
    /// `/registry/pods/`.
    prefix: String,
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
            builtin,
            api_version,
            schema,
        })
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
        format!("{}{}", self.prefix, ObjectKey::new(namespace, name))
    }

    /// The versions of the kind, if it has several.
    pub(crate) fn versions(&self) -> Option<&'static dyn Versions> {
        let family = family(&self.resource.group, &self.resource.plural)?;
        Some(family)
    }

    /// The version objects are stored in.
    pub(crate) fn stored_api_version(&self) -> &str {
        self.conversion
            .map_or(&*self.api_version, |conversion| conversion.stored_api_version)
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
        self.builtin.subresource("status").is_some()
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
