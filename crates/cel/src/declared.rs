//! Declarations of variables: their types with maximum sizes, down to every field. The checker uses the types, the
//! cost estimate the sizes, and evaluation the mapping from JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::parser::RESERVED;
use crate::types::Type;

/// A value's type and its maximum size.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The type.
    pub shape: Shape,
    /// The maximum bytes of a text, items of a list or entries of a map.
    pub max_size: u64,
}

/// The type of a value in JSON.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Any value.
    Dyn,
    /// A boolean.
    Bool,
    /// An integer.
    Int,
    /// Any number.
    Double,
    /// A text.
    String,
    /// A text in base64.
    Bytes,
    /// A text in RFC 3339.
    Timestamp,
    /// A text that is a date; its midnight.
    Date,
    /// A text such as `1h30m`.
    Duration,
    /// A list of items.
    List(Arc<List>),
    /// A map from texts to values.
    Map(Arc<Declared>),
    /// An object with declared fields.
    Object(Arc<Object>),
    /// An optional value.
    Optional(Arc<Declared>),
    /// The result of another expression, or another value that does not come from JSON.
    Of(Type),
}

/// A list and the identity of its items.
#[derive(Clone, Debug)]
pub struct List {
    /// The type of the items.
    pub items: Declared,
    /// The identity of the items.
    pub identity: Identity,
}

/// The identity of list items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// By index: lists are equal if their items are, in order.
    #[default]
    Place,
    /// By value; the order is ignored.
    Value,
    /// By some of their fields; the order is ignored.
    Keys(Vec<String>),
}

/// An object with declared fields.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// The name of the type, as shown in messages.
    pub name: String,
    /// The fields by their names in expressions.
    pub fields: BTreeMap<String, Field>,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: String,
    /// Its type.
    pub declared: Declared,
}

/// An undeclared value.
pub(crate) static DYN: Declared = Declared {
    shape: Shape::Dyn,
    max_size: u64::MAX,
};

impl Declared {
    /// A value without a maximum size.
    pub fn plain(shape: Shape) -> Self {
        Self { shape, max_size: 1 }
    }

    /// A value whose type is known only during evaluation.
    pub fn dynamic() -> Self {
        DYN.clone()
    }

    /// An object.
    pub fn object(object: Object) -> Self {
        Self::plain(Shape::Object(Arc::new(object)))
    }

    /// The type for the checker.
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

    /// The declaration of its items or values.
    pub(crate) fn element(&self) -> &Self {
        match &self.shape {
            Shape::List(list) => &list.items,
            Shape::Map(values) | Shape::Optional(values) => values,
            _ => &DYN,
        }
    }

    /// The declaration of a field or entry.
    pub(crate) fn member(&self, name: &str) -> &Self {
        match &self.shape {
            Shape::Object(object) => object.fields.get(name).map_or(&DYN, |field| &field.declared),
            Shape::Map(values) => values,
            Shape::Optional(of) => of.member(name),
            _ => &DYN,
        }
    }
}

/// The name of a field in expressions: characters that are not part of identifiers are escaped. `None` if there is no
/// such name.
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
