//! The objects a request selects: by namespace, labels, fields and shard.

use watchkeeper_meta::{FieldSelector, LabelSelector, ListOptions, ShardSelector, Status, WatchOptions};

use crate::definition::Definition;
use crate::object::StoredObject;
use crate::reader::Reader;

/// The selectors of a request, as stated.
#[derive(Clone, Copy)]
pub(crate) struct Selectors<'a> {
    labels: &'a LabelSelector,
    fields: &'a FieldSelector,
    shard: Option<&'a str>,
}

impl<'a> From<&'a ListOptions> for Selectors<'a> {
    fn from(options: &'a ListOptions) -> Self {
        Self {
            labels: &options.label_selector,
            fields: &options.field_selector,
            shard: options.shard_selector.as_deref(),
        }
    }
}

impl<'a> From<&'a WatchOptions> for Selectors<'a> {
    fn from(options: &'a WatchOptions) -> Self {
        Self {
            labels: &options.label_selector,
            fields: &options.field_selector,
            shard: options.shard_selector.as_deref(),
        }
    }
}

/// The checked selectors of a request. The namespace is a storage prefix and needs no check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    shard: Option<ShardSelector>,
}

impl Selection {
    /// Checks the selectors against the resource, and that of a shard against its grammar.
    pub(crate) fn checked<'a>(
        reader: &Reader,
        definition: &Definition,
        selectors: impl Into<Selectors<'a>>,
    ) -> Result<Self, Status> {
        let selectors = selectors.into();
        Ok(Self {
            labels: selectors.labels.clone(),
            fields: definition.check_fields(selectors.fields.clone())?,
            shard: parse_shard(reader, selectors.shard)?,
        })
    }

    /// True if one shard is selected.
    pub(crate) fn is_shard(&self) -> bool {
        self.shard.is_some()
    }

    /// True if every object is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything() && self.shard.is_none()
    }

    /// True if an object is selected. Decodes only the fields of the selectors.
    pub(crate) fn matches(&self, definition: &Definition, object: &StoredObject) -> Result<bool, Status> {
        if self.is_everything() {
            return Ok(true);
        }
        let header = object.header(definition)?;
        let is_in_shard = self.shard.as_ref().is_none_or(|shard| shard.matches(&header));
        if !is_in_shard || !self.labels.matches(&header) {
            return Ok(false);
        }
        let in_header = |field: &str| matches!(field, "metadata.name" | "metadata.namespace");
        if self
            .fields
            .requirements()
            .iter()
            .all(|requirement| in_header(&requirement.field))
        {
            return Ok(self.fields.matches(|field| match field {
                "metadata.name" => header.name.to_string(),
                _ => header.namespace.to_string(),
            }));
        }
        let value = object.to_value(definition)?;
        Ok(self.fields.matches(|field| definition.field_value(&value, field)))
    }
}

/// The requested shard. While the feature is off, the parameter is ignored without validation, as in Kubernetes.
fn parse_shard(reader: &Reader, selector: Option<&str>) -> Result<Option<ShardSelector>, Status> {
    let selector = selector.filter(|_| reader.feature_gates().sharded_list_and_watch);
    let parsed = selector.map(str::parse).transpose();
    parsed.map_err(|error| Status::bad_request(format!("invalid shardSelector: {error}")))
}
