//! Builds a schema at run time, type by type, for custom resource definitions.
//!
//! Types that refer to each other get an id before their fields are known. Types of another schema, such as a custom
//! object's `metadata`, are copied with everything they refer to.
//!
//! ```
//! use watchkeeper_wire::schema::{Builder, Field, Schema, Shape, Type};
//!
//! let mut builder = Builder::new();
//! let builtin = Schema::builtin();
//! let meta = builder.import(builtin, builtin.type_named("meta/v1.ObjectMeta").unwrap());
//! let widget = builder.declare();
//! builder.define(widget, Type::new("example.com/v1.Widget", vec![
//!     Field { name: "metadata".into(), shape: Shape::Struct(meta), ..Field::default() },
//!     Field { name: "parts".into(), shape: Shape::List(Box::new(Shape::Struct(widget))), ..Field::default() },
//! ]));
//! builder.kind("example.com/v1", "Widget", widget);
//! let schema = builder.build().unwrap();
//! let id = schema.kind("example.com/v1", "Widget").unwrap();
//! assert!(schema.field(id, "parts").is_some());
//! ```

use std::collections::HashMap;

use super::{Enum, EnumId, Kind, Schema, SchemaError, Shape, Slots, Text, Type, TypeId};

/// A schema under construction.
#[derive(Debug, Default)]
pub struct Builder {
    types: Vec<Option<Type>>,
    enums: Vec<Enum>,
    kinds: Vec<Kind>,
    /// Imported types, by name.
    imported: HashMap<Text, TypeId>,
}

impl Builder {
    /// An empty schema.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a type whose fields follow.
    pub fn declare(&mut self) -> TypeId {
        self.types.push(None);
        TypeId::new(self.types.len() - 1)
    }

    /// Defines the fields of a declared type.
    pub fn define(&mut self, id: TypeId, it: Type) {
        self.types[id.index()] = Some(it);
    }

    /// Adds a type with its fields.
    pub fn add(&mut self, it: Type) -> TypeId {
        let id = self.declare();
        self.define(id, it);
        id
    }

    /// Adds an enumeration.
    pub fn add_enum(&mut self, it: Enum) -> EnumId {
        self.enums.push(it);
        EnumId::new(self.enums.len() - 1)
    }

    /// Gives a type its `apiVersion` and `kind`.
    pub fn kind(&mut self, api_version: impl Into<Text>, kind: impl Into<Text>, id: TypeId) {
        self.kinds.push(Kind {
            api_version: api_version.into(),
            kind: kind.into(),
            id,
        });
    }

    /// Copies a type of another schema with everything it refers to; each type is copied once.
    pub fn import(&mut self, from: &Schema, id: TypeId) -> TypeId {
        let source = &from[id];
        if let Some(known) = self.imported.get(&source.name) {
            return *known;
        }
        let own = self.declare();
        self.imported.insert(source.name.clone(), own);
        let mut copy = source.clone();
        for field in &mut copy.fields {
            field.shape = self.import_shape(from, &field.shape);
        }
        copy.slots = Slots::new(&copy.fields);
        self.define(own, copy);
        own
    }

    /// Builds the schema. A type that was declared but not defined is an error.
    pub fn build(self) -> Result<Schema, SchemaError> {
        let types: Option<Vec<Type>> = self.types.into_iter().collect();
        let types = types.ok_or_else(|| SchemaError("a declared type was not defined".to_owned()))?;
        Schema::new(types, self.enums, self.kinds)
    }

    fn import_shape(&mut self, from: &Schema, shape: &Shape) -> Shape {
        match shape {
            Shape::String(Some(id)) => Shape::String(Some(self.add_enum(from[*id].clone()))),
            Shape::Struct(id) => Shape::Struct(self.import(from, *id)),
            Shape::SchemaOrBool(id) => Shape::SchemaOrBool(self.import(from, *id)),
            Shape::SchemaOrArray(id) => Shape::SchemaOrArray(self.import(from, *id)),
            Shape::SchemaOrStrings(id) => Shape::SchemaOrStrings(self.import(from, *id)),
            Shape::List(item) => Shape::List(Box::new(self.import_shape(from, item))),
            Shape::Map(value) => Shape::Map(Box::new(self.import_shape(from, value))),
            Shape::ListMessage(item) => Shape::ListMessage(Box::new(self.import_shape(from, item))),
            plain => plain.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_types_bring_what_they_refer_to() {
        let builtin = Schema::builtin();
        let mut builder = Builder::new();
        // Recursive types, with unions, enumerations and maps.
        for name in [
            "apiextensions/v1.JSONSchemaProps",
            "core/v1.PodSpec",
            "meta/v1.ObjectMeta",
        ] {
            builder.import(builtin, builtin.type_named(name).unwrap());
        }
        let schema = builder.build().unwrap();
        let id = schema.type_named("core/v1.PodSpec").unwrap();
        let Shape::List(container) = &schema.field(id, "containers").unwrap().shape else {
            panic!("containers is a list");
        };
        let Shape::Struct(container) = **container else {
            panic!("a container is a struct");
        };
        assert_eq!(schema[container].name, "core/v1.Container");
        let names = |schema: &Schema, id| {
            schema
                .fields(id)
                .iter()
                .map(|field| field.name.clone())
                .collect::<Vec<_>>()
        };
        let original = builtin.type_named("core/v1.Container").unwrap();
        assert_eq!(names(&schema, container), names(builtin, original));
    }

    #[test]
    fn a_declared_type_must_be_defined() {
        let mut builder = Builder::new();
        builder.declare();
        let error = builder.build().unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid schema: a declared type was not defined"
        );
    }
}
