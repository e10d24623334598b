//! What an expression is told about its variables: their types with the sizes they may have, down to every field. The
//! checker takes types from here, the estimate sizes, and the evaluation the meaning of JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::parser::RESERVED;
use crate::types::Type;

/// A value's type and how large it may be.
#[derive(Clone, Debug)]
pub struct Declared {
    /// What it is.
    pub shape: Shape,
    /// The most bytes of a text, items of a list or entries of a map.
    pub max_size: u64,
}

/// What a value in JSON means.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Whatever stands there.
    Dyn,
    /// A boolean.
    Bool,
    /// A number without a fraction.
    Int,
    /// Any number.
    Double,
    /// A text.
    String,
    /// A text in base64.
    Bytes,
    /// A text in RFC 3339.
    Timestamp,
    /// A text that is a date, which means its midnight.
    Date,
    /// A text such as `1h30m`.
    Duration,
    /// A list of items.
    List(Arc<List>),
    /// A map from texts to values.
    Map(Arc<Declared>),
    /// Fields that are declared each.
    Object(Arc<Object>),
    /// Something that may be absent, which is a value of its own.
    Optional(Arc<Declared>),
    /// What another expression evaluates to, or another value that does not come from JSON.
    Of(Type),
}

/// A list of items, and which of them are the same.
#[derive(Clone, Debug)]
pub struct List {
    /// What items are.
    pub items: Declared,
    /// How items are told apart.
    pub identity: Identity,
}

/// How the items of a list are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// By their place: lists are equal if their items are, in order.
    #[default]
    Place,
    /// By what they are; their order means nothing.
    Value,
    /// By some of their fields; their order means nothing.
    Keys(Vec<String>),
}

/// An object with declared fields.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// Tells it from other types; messages show it.
    pub name: String,
    /// The fields by the names that expressions have for them.
    pub fields: BTreeMap<String, Field>,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: String,
    /// What it is.
    pub declared: Declared,
}

/// What is not declared further.
pub(crate) static DYN: Declared = Declared {
    shape: Shape::Dyn,
    max_size: u64::MAX,
};

impl Declared {
    /// A value without a size.
    pub fn plain(shape: Shape) -> Self {
        Self { shape, max_size: 1 }
    }

    /// A value that is known only when it is evaluated.
    pub fn dynamic() -> Self {
        DYN.clone()
    }

    /// An object.
    pub fn object(object: Object) -> Self {
        Self::plain(Shape::Object(Arc::new(object)))
    }

    /// The type that the checker sees.
    pub fn to_type(&self) -> Type {
        match &self.shape {
            Shape::Dyn => Type::Dyn,
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Double => Type::Double,
            Shape::String => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::Timestamp | Shape::Date => Type::Timestamp,
            Shape::Duration => Type::Duration,
            Shape::List(list) => Type::list(list.items.to_type()),
            Shape::Map(values) => Type::map(Type::String, values.to_type()),
            Shape::Object(object) => Type::Object(object.clone()),
            Shape::Optional(of) => Type::optional(of.to_type()),
            Shape::Of(found) => found.clone(),
        }
    }

    /// What the items or values in it are.
    pub(crate) fn element(&self) -> &Self {
        match &self.shape {
            Shape::List(list) => &list.items,
            Shape::Map(values) | Shape::Optional(values) => values,
            _ => &DYN,
        }
    }

    /// What a field or entry of it is.
    pub(crate) fn member(&self, name: &str) -> &Self {
        match &self.shape {
            Shape::Object(object) => object.fields.get(name).map_or(&DYN, |field| &field.declared),
            Shape::Map(values) => values,
            Shape::Optional(of) => of.member(name),
            _ => &DYN,
        }
    }
}

/// The name that expressions have for a field: what is no identifier is spelled out. `None` if there is no such name.
pub fn escape(name: &str) -> Option<String> {
    const WORDS: [&str; 4] = ["true", "false", "null", "in"];
    if WORDS.contains(&name) || RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_allowed) {
        return None;
    }
    let escaped = name.replace("__", "__underscores__");
    Some(
        escaped
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__"),
    )
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_are_escaped_as_kubernetes_escapes_them() {
        for (name, escaped) in [
            ("plain", Some("plain")),
            ("a.b", Some("a__dot__b")),
            ("a-b/c", Some("a__dash__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("_a", Some("_a")),
            ("namespace", Some("__namespace__")),
            ("int", Some("int")),
            ("1a", None),
            ("", None),
            ("ä", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
