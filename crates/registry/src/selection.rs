//! The objects a request selects: by namespace, labels and fields.

use watchkeeper_meta::{FieldSelector, LabelSelector, Status};

use crate::definition::Definition;
use crate::object::StoredObject;

/// The selectors of a request. The namespace is a storage prefix and needs no check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Checks the selectors against the resource.
    pub(crate) fn new(
        definition: &Definition,
        labels: LabelSelector,
        fields: FieldSelector,
    ) -> Result<Self, Status> {
        Ok(Self {
            labels,
            fields: definition.check_fields(fields)?,
        })
    }

    /// True if every object is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// True if an object is selected. Decodes only the fields of the selectors.
    pub(crate) fn matches(&self, definition: &Definition, object: &StoredObject) -> Result<bool, Status> {
        if self.is_everything() {
            return Ok(true);
        }
        let header = object.header(definition)?;
        if !self.labels.matches(&header) {
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
