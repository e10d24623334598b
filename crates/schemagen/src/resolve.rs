//! Determines the shape of every field: resolves names to indexes, removes aliases, recognises special types.

use std::collections::BTreeMap;

use watchkeeper_wire::schema::{
    Enum, EnumId, Field, Granularity, ListType, PatchStrategy, Shape, Text, Type, TypeId,
};

use crate::GenerateError;
use crate::table::{FieldRow, Table};

/// Types whose encoding is not in the table.
const SPECIAL: [(&str, Shape); 10] = [
    ("meta/v1.Time", Shape::Time),
    ("meta/v1.MicroTime", Shape::MicroTime),
    ("meta/v1.Duration", Shape::Duration),
    ("meta/v1.FieldsV1", Shape::FieldsV1),
    ("resource.Quantity", Shape::Quantity),
    ("intstr.IntOrString", Shape::IntOrString),
    ("runtime.RawExtension", Shape::RawExtension),
    ("apiextensions/v1.JSON", Shape::Json),
    ("any", Shape::Any),
    ("time.Time", Shape::Time),
];

/// The type that unions of a JSON schema and something simpler refer to.
const JSON_SCHEMA: &str = "apiextensions/v1.JSONSchemaProps";

/// Structs that are not messages: special encodings and the envelope.
const NOT_MESSAGES: [&str; 13] = [
    "meta/v1.Time",
    "meta/v1.MicroTime",
    "meta/v1.Duration",
    "resource.Quantity",
    "resource.QuantityValue",
    "intstr.IntOrString",
    "runtime.RawExtension",
    "runtime.TypeMeta",
    "runtime.Unknown",
    "apiextensions/v1.JSON",
    "apiextensions/v1.JSONSchemaPropsOrArray",
    "apiextensions/v1.JSONSchemaPropsOrBool",
    "apiextensions/v1.JSONSchemaPropsOrStringArray",
];

/// The types in the order of their names, and the enumerations.
pub fn resolve(table: &Table<'_>) -> Result<(Vec<Type>, Vec<Enum>), GenerateError> {
    let names = table.structs.keys().filter(|name| !NOT_MESSAGES.contains(name));
    let closed = table
        .aliases
        .iter()
        .filter(|(_, alias)| alias.closed && !alias.values.is_empty());
    let resolver = Resolver {
        table,
        types: positions(names.copied()),
        enums: positions(closed.clone().map(|(name, _)| *name)),
    };
    let enums = closed.map(|(name, alias)| Enum {
        name: owned(name),
        values: alias.values.iter().copied().map(owned).collect(),
    });
    let types = resolver.types.keys().map(|name| resolver.declared_type(name));
    Ok((types.collect::<Result<_, _>>()?, enums.collect()))
}

struct Resolver<'a> {
    table: &'a Table<'a>,
    types: BTreeMap<&'a str, usize>,
    enums: BTreeMap<&'a str, usize>,
}

impl Resolver<'_> {
    fn declared_type(&self, name: &str) -> Result<Type, GenerateError> {
        let row = &self.table.structs[name];
        let fields = row.fields.iter().map(|field| self.field(name, field));
        let mut it = Type::new(owned(name), fields.collect::<Result<_, _>>()?);
        it.atomic = row.markers.contains(&"structType=atomic");
        // Servers create lists of kinds from empty slices; the lists of the meta package start as nil.
        if !name.starts_with("meta/")
            && it.fields.iter().any(|field| field.declared == "meta/v1.ListMeta")
            && let Some(items) = it.fields.iter_mut().find(|field| field.name == "items")
        {
            items.list_items = true;
        }
        Ok(it)
    }

    fn field(&self, owner: &str, row: &FieldRow<'_>) -> Result<Field, GenerateError> {
        let pointer = row.declared.starts_with('*');
        let shape = self.shape(row.declared.trim_start_matches('*'));
        let shape = shape.ok_or_else(|| GenerateError::Undeclared {
            field: format!("{owner}.{}", row.name),
            declared: row.declared.trim_start_matches('*').to_owned(),
        })?;
        let marked = |marker| row.markers.contains(&marker);
        let valued = |marker| {
            row.markers
                .iter()
                .filter_map(move |have| have.strip_prefix(marker))
        };
        Ok(Field {
            name: owned(row.name),
            shape,
            declared: owned(row.declared),
            number: row.number,
            pointer,
            embedded: row.name.is_empty(),
            omit_empty: row.flags.contains(&"omitempty"),
            omit_zero: row.flags.contains(&"omitzero"),
            required: marked("required"),
            optional: marked("optional"),
            nullable: marked("nullable"),
            list_items: false,
            patch: PatchStrategy {
                merge: row.patch_strategy.contains(&"merge"),
                retain_keys: row.patch_strategy.contains(&"retainKeys"),
                replace: row.patch_strategy.contains(&"replace"),
            },
            patch_merge_key: Some(row.patch_merge_key).filter(|key| !key.is_empty()).map(owned),
            list_type: valued("listType=").next().map(list_type),
            list_map_keys: valued("listMapKey=").map(owned).collect(),
            map_type: valued("mapType=").next().map(granularity),
            struct_type: valued("structType=").next().map(granularity),
            item: None,
            default: valued("default=").next().map(|text| owned(&self.default(text))),
        })
    }

    /// The shape of a type; `None` if it is not declared.
    fn shape(&self, declared: &str) -> Option<Shape> {
        if let Some(item) = declared.strip_prefix("[]").filter(|item| *item != "byte") {
            return Some(Shape::List(Box::new(self.shape(item)?)));
        }
        if let Some((_, value)) = declared
            .strip_prefix("map[")
            .and_then(|rest| rest.split_once(']'))
        {
            return Some(Shape::Map(Box::new(self.shape(value)?)));
        }
        if let Some((_, special)) = SPECIAL.iter().find(|(name, _)| *name == declared) {
            return Some(special.clone());
        }
        let json_schema = || self.types.get(JSON_SCHEMA).copied().map(TypeId::new);
        match declared {
            "string" => Some(Shape::String(None)),
            "bool" => Some(Shape::Bool),
            "int32" => Some(Shape::Int32),
            "int64" => Some(Shape::Int64),
            "float64" => Some(Shape::Float64),
            "[]byte" => Some(Shape::Bytes),
            "apiextensions/v1.JSONSchemaPropsOrBool" => json_schema().map(Shape::SchemaOrBool),
            "apiextensions/v1.JSONSchemaPropsOrArray" => json_schema().map(Shape::SchemaOrArray),
            "apiextensions/v1.JSONSchemaPropsOrStringArray" => json_schema().map(Shape::SchemaOrStrings),
            name => match self.types.get(name) {
                Some(index) => Some(Shape::Struct(TypeId::new(*index))),
                None => self.alias(name),
            },
        }
    }

    fn alias(&self, name: &str) -> Option<Shape> {
        if let Some(index) = self.enums.get(name) {
            return Some(Shape::String(Some(EnumId::new(*index))));
        }
        match self.table.aliases.get(name)?.underlying {
            // In protobuf, a named list of strings is a message; other named lists are plain.
            "[]string" => Some(Shape::ListMessage(Box::new(Shape::String(None)))),
            underlying => self.shape(underlying),
        }
    }

    /// Resolves `ref(Name)` to its constant; anything else is JSON already.
    fn default(&self, text: &str) -> String {
        let constant = text.strip_prefix("ref(").and_then(|rest| rest.strip_suffix(')'));
        match constant.and_then(|name| self.table.constants.get(name)) {
            Some(value) => format!("{value:?}"),
            None => text.to_owned(),
        }
    }
}

fn list_type(text: &str) -> ListType {
    match text {
        "map" => ListType::Map,
        "set" => ListType::Set,
        _ => ListType::Atomic,
    }
}

fn granularity(text: &str) -> Granularity {
    match text {
        "atomic" => Granularity::Atomic,
        _ => Granularity::Granular,
    }
}

fn positions<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    names.enumerate().map(|(index, name)| (name, index)).collect()
}

fn owned(text: &str) -> Text {
    Text::Owned(text.to_owned())
}
