//! The built-in resources, from the schema's table, and custom ones, from their definitions, as a catalog has them.

use std::borrow::Cow;
use std::sync::Arc;

use watchkeeper_registry::Definition;
use watchkeeper_wire::schema::resources::{self, BuiltinResource, Subresource};

use crate::Verb;
use crate::catalog::{ApiResource, ApiSubresource, CustomKind};

/// The resources of an unextended server, in discovery's order.
pub(crate) fn built_in() -> impl Iterator<Item = ApiResource> {
    resources::all().iter().map(resource)
}

/// A custom resource.
pub(crate) fn custom(definition: &Definition) -> ApiResource {
    let custom = CustomKind {
        stored_version: definition.stored_version().to_owned().into(),
        list_kind: definition.list_kind.clone(),
        open_api: definition.open_api().cloned().unwrap_or_default(),
        deprecation: definition.deprecation().map(str::to_owned),
    };
    ApiResource {
        custom: Some(Arc::new(custom)),
        ..resource(&definition.listing)
    }
}

fn resource(built_in: &BuiltinResource) -> ApiResource {
    ApiResource {
        resource: built_in.resource.clone(),
        singular: built_in.singular.clone(),
        verbs: verbs(&built_in.verbs),
        short_names: built_in.short_names.to_vec(),
        categories: built_in.categories.to_vec(),
        subresources: built_in.subresources.iter().map(subresource).collect(),
        custom: None,
    }
}

fn subresource(built_in: &Subresource) -> ApiSubresource {
    ApiSubresource {
        name: built_in.name.clone(),
        kind: built_in.kind.clone(),
        group_version: built_in
            .group_version
            .parse()
            .ok()
            .filter(|_| !built_in.group_version.is_empty()),
        verbs: verbs(&built_in.verbs),
    }
}

fn verbs(words: &[Cow<'static, str>]) -> Vec<Verb> {
    words.iter().filter_map(|word| Verb::parse(word)).collect()
}
