//! Pruning of custom objects: fields the schema does not know are dropped, and metadata is decoded as in Go.
//!
//! Types are not checked here; the kind's validation checks all values later.

use serde_json::{Map, Value};

use super::TypeError;
use super::walk::{Place, Step, Walk, whole_number};
use crate::difference::Difference;
use crate::limits::NESTING_LIMIT;
use crate::schema::{Shape, TypeId, UnknownFields};

impl Walk<'_> {
    /// Prunes a value of a custom object.
    pub(super) fn prune(
        &mut self,
        shape: &Shape,
        value: &mut Value,
        difference: &Difference,
        at: &Place<'_>,
    ) -> Result<(), TypeError> {
        if at.depth > NESTING_LIMIT {
            return Err(TypeError::new(format!(
                "nested deeper than {NESTING_LIMIT} levels"
            )));
        }
        match (shape, value) {
            (Shape::Struct(id), Value::Object(members)) if self.schema[*id].structural => {
                self.prune_members(*id, members, difference, at)
            }
            (Shape::Struct(id), value) if !self.schema[*id].structural => {
                self.read_struct(*id, value, difference, at)
            }
            (Shape::List(item), Value::Array(items)) => {
                for (index, value) in items.iter_mut().enumerate() {
                    let below = difference.item(index);
                    if !below.is_nowhere() {
                        self.prune(item, value, below, &at.below(Step::Index(index)))?;
                    }
                }
                Ok(())
            }
            (Shape::Map(item), Value::Object(entries)) => {
                for (key, value) in entries.iter_mut() {
                    let below = difference.member(key);
                    if !below.is_nowhere() {
                        self.prune(item, value, below, &at.below(Step::Key(key)))?;
                    }
                }
                Ok(())
            }
            (_, value) => {
                tidy_numbers(value);
                Ok(())
            }
        }
    }

    fn prune_members(
        &mut self,
        id: TypeId,
        members: &mut Map<String, Value>,
        difference: &Difference,
        at: &Place<'_>,
    ) -> Result<(), TypeError> {
        let schema = self.schema;
        let keeps_unknown = schema[id].unknown_fields == UnknownFields::Keep;
        let mut unknown = Vec::new();
        for (name, value) in members.iter_mut() {
            let below = difference.member(name);
            if below.is_nowhere() {
                continue;
            }
            match schema.field(id, name) {
                Some(field) => self.prune(&field.shape, value, below, &at.below(Step::Field(id, name)))?,
                None if keeps_unknown => tidy_numbers(value),
                None => unknown.push(name.clone()),
            }
        }
        for name in unknown {
            self.complain(&name, at);
            members.remove(&name);
        }
        Ok(())
    }

    /// Metadata, of the object itself or of an embedded object.
    fn read_struct(
        &mut self,
        id: TypeId,
        value: &mut Value,
        difference: &Difference,
        at: &Place<'_>,
    ) -> Result<(), TypeError> {
        let pruned = std::mem::take(&mut self.unknown);
        let read = self.object(id, value, difference, &self.schema[id].name, at);
        let found = std::mem::replace(&mut self.unknown, pruned);
        self.unknown_in_structs.extend(found);
        read
    }
}

/// Go prints an integral float without a point.
fn tidy_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = whole_number(number) {
                *value = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy_numbers),
        Value::Object(members) => members.values_mut().for_each(tidy_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
