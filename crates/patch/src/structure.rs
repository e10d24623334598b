//! The structure of a value in server-side apply: a unit with one owner, or parts with their own owners.
//!
//! [`Place::structure`] derives it from the schema. Everything in this crate that walks an object by its schema walks
//! [`Place`]s.

use serde_json::Value;
use watchkeeper_wire::schema::{Field, Granularity, ListType, Schema, Shape, TypeId, UnknownFields};

use crate::field_set::{FieldSet, Node, PathElement, Step};

/// A value's place in the schema.
#[derive(Clone, Copy)]
pub(crate) struct Place<'s> {
    schema: &'s Schema,
    kind: PlaceKind<'s>,
}

#[derive(Clone, Copy)]
enum PlaceKind<'s> {
    Root(TypeId),
    Field(&'s Field),
    /// An item of a list or a value of a map.
    Item(&'s Shape),
    /// The content of a field that a type preserves without declaring it.
    Unknown,
}

/// The structure of a value, for apply.
pub(crate) enum Structure<'s> {
    /// A scalar.
    Scalar,
    /// A list, map or struct with one owner as a whole.
    Atomic,
    /// A struct: every field has its own owner.
    Struct(TypeId),
    /// A map: every key has its own owner.
    Map(Place<'s>),
    /// A list of scalars, identified by their values.
    Set(Place<'s>),
    /// A list of structs, identified by key fields.
    Keyed(KeyedList<'s>),
    /// Deduced from the value: every key of an object has its own owner, a list is atomic.
    Deduced,
}

/// A list whose items are identified by key fields.
#[derive(Clone, Copy)]
pub(crate) struct KeyedList<'s> {
    pub(crate) item: Place<'s>,
    keys: &'s [std::borrow::Cow<'static, str>],
}

impl<'s> Place<'s> {
    /// The object itself.
    pub(crate) fn root(schema: &'s Schema, id: TypeId) -> Self {
        Self {
            schema,
            kind: PlaceKind::Root(id),
        }
    }

    pub(crate) fn structure(self) -> Structure<'s> {
        let (shape, field) = match self.kind {
            PlaceKind::Root(id) => return Structure::Struct(id),
            PlaceKind::Unknown => return Structure::Deduced,
            PlaceKind::Field(field) => (&field.shape, Some(field)),
            PlaceKind::Item(shape) => (shape, None),
        };
        let item = |shape| Self {
            schema: self.schema,
            kind: match field.and_then(|field| field.item.as_deref()) {
                Some(item) => PlaceKind::Field(item),
                None => PlaceKind::Item(shape),
            },
        };
        match shape {
            Shape::Struct(id) => match field.and_then(|field| field.struct_type) {
                Some(Granularity::Atomic) => Structure::Atomic,
                None if self.schema[*id].atomic => Structure::Atomic,
                _ => Structure::Struct(*id),
            },
            Shape::Map(value) => match field.and_then(|field| field.map_type) {
                Some(Granularity::Atomic) => Structure::Atomic,
                _ => Structure::Map(item(value)),
            },
            Shape::List(value) => match field {
                Some(Field {
                    list_type: Some(ListType::Set),
                    ..
                }) => Structure::Set(item(value)),
                Some(Field {
                    list_type: Some(ListType::Map),
                    list_map_keys,
                    ..
                }) => Structure::Keyed(KeyedList {
                    item: item(value),
                    keys: list_map_keys,
                }),
                _ => Structure::Atomic,
            },
            Shape::ListMessage(_) | Shape::RawExtension | Shape::Json | Shape::FieldsV1 => Structure::Atomic,
            Shape::Any => Structure::Deduced,
            _ => Structure::Scalar,
        }
    }

    /// The place of a struct's field; `None` if the schema neither declares nor preserves it.
    pub(crate) fn field(self, id: TypeId, name: &str) -> Option<Self> {
        let kind = match self.schema.field(id, name) {
            Some(field) => PlaceKind::Field(field),
            None if self.schema[id].unknown_fields == UnknownFields::Keep => PlaceKind::Unknown,
            None => return None,
        };
        Some(Self {
            schema: self.schema,
            kind,
        })
    }

    /// True if the type belongs to a custom kind, whose fields may have any name.
    pub(crate) fn is_structural(self, id: TypeId) -> bool {
        self.schema[id].structural
    }

    fn unknown(self) -> Self {
        Self {
            schema: self.schema,
            kind: PlaceKind::Unknown,
        }
    }

    /// The place of a field of a struct, or of a key of a map.
    pub(crate) fn child(self, structure: &Structure<'s>, name: &str) -> Option<Self> {
        match structure {
            Structure::Struct(id) => self.field(*id, name),
            Structure::Map(value) => Some(*value),
            Structure::Deduced => Some(self.unknown()),
            _ => None,
        }
    }

    /// The JSON type of a place, whatever its owners.
    pub(crate) fn wants(self) -> Wants {
        let shape = match self.kind {
            PlaceKind::Root(_) => return Wants::Map,
            PlaceKind::Unknown => return Wants::Anything,
            PlaceKind::Field(field) => &field.shape,
            PlaceKind::Item(shape) => shape,
        };
        match shape {
            Shape::Struct(_) | Shape::Map(_) => Wants::Map,
            Shape::List(_) | Shape::ListMessage(_) => Wants::List,
            Shape::String(_) | Shape::Bytes => Wants::Text,
            Shape::Int32 | Shape::Int64 | Shape::Float64 => Wants::Number,
            Shape::Bool => Wants::Boolean,
            _ => Wants::Anything,
        }
    }
}

/// The JSON type of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Map,
    List,
    Text,
    Number,
    Boolean,
    Anything,
}

impl<'s> KeyedList<'s> {
    /// The item's key; a missing key field has its default. `None` if no key field has a value.
    pub(crate) fn key(&self, item: &Value) -> Option<PathElement> {
        // Nearly all lists have one key, and nearly all items set it.
        if let [key] = self.keys
            && let Some(value) = item.get(&**key)
        {
            return Some(PathElement::key([(&**key, value)].into_iter()));
        }
        let defaults: Vec<Option<Value>> = self
            .keys
            .iter()
            .map(|key| item.get(&**key).is_none().then(|| self.default(key)).flatten())
            .collect();
        let values = self.keys.iter().zip(&defaults).filter_map(|(key, default)| {
            let value = item.get(&**key).or(default.as_ref())?;
            Some((&**key, value))
        });
        let mut fields: Vec<(&str, &Value)> = values.collect();
        fields.sort_unstable_by_key(|(name, _)| *name);
        (!fields.is_empty()).then(|| PathElement::key(fields.into_iter()))
    }

    /// True if at least one key field is set or has a default.
    pub(crate) fn has_key(&self, item: &Value) -> bool {
        let is_known =
            |key: &std::borrow::Cow<'_, str>| item.get(&**key).is_some() || self.default(key).is_some();
        self.keys.iter().any(is_known)
    }

    /// True if two items have the same key.
    fn is_same(&self, one: &Value, other: &Value) -> bool {
        let has_default = |key: &str, value: &Value| self.default(key).as_ref() == Some(value);
        self.keys.iter().any(|key| one.get(&**key).is_some())
            && self
                .keys
                .iter()
                .all(|key| match (one.get(&**key), other.get(&**key)) {
                    (Some(value), None) | (None, Some(value)) => has_default(key, value),
                    (one, other) => one == other,
                })
    }

    /// The key fields, as an error message lists them.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.keys.iter().map(|key| format!("{key:?}")).collect()
    }

    fn default(&self, key: &str) -> Option<Value> {
        // Items with one owner as a whole are still identified by their fields.
        let PlaceKind::Item(Shape::Struct(id)) = self.item.kind else {
            return None;
        };
        let default = self.item.schema.field(*id, key)?.default.as_deref()?;
        serde_json::from_str(default).ok()
    }
}

/// The items of a set or keyed list with their path steps, sorted by step, so that duplicates are adjacent. Items
/// without a key are left out: a stored list may hold them, but nobody can own them.
pub(crate) fn identified<'v>(structure: &Structure<'_>, items: &'v [Value]) -> Vec<(PathElement, &'v Value)> {
    let identified = items
        .iter()
        .filter_map(|item| Some((identity(structure, item)?, item)));
    let mut found: Vec<_> = identified.collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

/// The path step of one item of a set or keyed list.
pub(crate) fn identity(structure: &Structure<'_>, item: &Value) -> Option<PathElement> {
    match structure {
        Structure::Set(_) => Some(PathElement::value(item)),
        Structure::Keyed(list) => list.key(item),
        _ => None,
    }
}

/// True if two items of a set or keyed list have the same path step.
pub(crate) fn is_same_item(structure: &Structure<'_>, one: &Value, other: &Value) -> bool {
    match structure {
        Structure::Set(_) => one == other,
        Structure::Keyed(list) => list.is_same(one, other),
        _ => false,
    }
}

/// The set with every struct field that has paths below it added as a path: owning something in `spec` means that
/// `spec` is needed.
pub(crate) fn with_named_fields(place: Place<'_>, set: &FieldSet) -> FieldSet {
    let structure = place.structure();
    let mut all = FieldSet::new();
    for (element, node) in set.nodes() {
        let child = match (element.step(), &structure) {
            (Step::Field(name), structure) => place.child(structure, name),
            (_, Structure::Set(item)) => Some(*item),
            (_, Structure::Keyed(list)) => Some(list.item),
            _ => None,
        };
        let named = matches!(structure, Structure::Struct(_)) && child.is_some();
        let node = Node {
            member: node.member || (named && !node.below.is_empty()),
            below: match child {
                Some(child) => with_named_fields(child, &node.below),
                // Paths the schema does not know are kept unchanged.
                None => node.below.clone(),
            },
        };
        all.add(|| element.clone(), node);
    }
    all
}
