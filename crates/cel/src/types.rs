//! The types of the checker, printed as in cel-go's messages, and the signatures of functions.

use std::fmt;
use std::sync::Arc;

use crate::declared::Object;
use crate::functions::authorization::CheckStage;

/// The type of an expression.
#[derive(Clone, Debug)]
pub enum Type {
    /// Known only during evaluation.
    Dyn,
    /// The type of an invalid expression: it matches everything, so that an error is reported once.
    Error,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `uint`.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// A timestamp.
    Timestamp,
    /// A duration.
    Duration,
    /// A list of items of one type.
    List(Arc<Type>),
    /// A map from keys to values.
    Map(Arc<Type>, Arc<Type>),
    /// An object with declared fields.
    Object(Arc<Object>),
    /// The type of `type(x)`.
    Type(Arc<Type>),
    /// An optional value.
    Optional(Arc<Type>),
    /// A type that only functions can read: `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A type whose values expressions construct by name: `Object.spec`.
    Message(Arc<str>),
    /// A type parameter of a signature, or a type variable.
    Param(u32),
}

impl Type {
    /// A list of items of a type.
    pub fn list(of: Type) -> Self {
        Self::List(Arc::new(of))
    }

    /// A map from keys of one type to values of another.
    pub fn map(keys: Type, values: Type) -> Self {
        Self::Map(Arc::new(keys), Arc::new(values))
    }

    /// The types of `authorizer` and of `authorizer.requestResource`.
    pub fn authorizer() -> (Self, Self) {
        let of = |stage: CheckStage| Self::Opaque(stage.type_name());
        (of(CheckStage::Authorizer), of(CheckStage::Resource))
    }

    pub(crate) fn optional(of: Type) -> Self {
        Self::Optional(Arc::new(of))
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The types whose names are values: `type(x) == int`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "list" => Self::list(Self::Dyn),
            "map" => Self::map(Self::Dyn, Self::Dyn),
            "null_type" => Self::Null,
            "type" => Self::Type(Arc::new(Self::Dyn)),
            "dyn" => Self::Dyn,
            "google.protobuf.Timestamp" => Self::Timestamp,
            "google.protobuf.Duration" => Self::Duration,
            "optional_type" => Self::optional(Self::Dyn),
            _ => Self::Opaque(OPAQUE.into_iter().find(|opaque| *opaque == name)?),
        })
    }

    /// The name of the type of a value, without its parameters.
    pub(crate) fn plain_name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::List(_) => "list".to_owned(),
            Self::Map(..) => "map".to_owned(),
            Self::Type(_) => "type".to_owned(),
            Self::Optional(_) => "optional_type".to_owned(),
            other => other.to_string(),
        }
    }
}

/// The types of Kubernetes' libraries.
const OPAQUE: [&str; 11] = [
    "kubernetes.Quantity",
    "net.IP",
    "net.CIDR",
    "kubernetes.URL",
    "kubernetes.NamedFormat",
    "kubernetes.Semver",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
];

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) | (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Optional(a), Self::Optional(b)) => a == b,
            (Self::Map(a, x), Self::Map(b, y)) => a == b && x == y,
            (Self::Object(a), Self::Object(b)) => Arc::ptr_eq(a, b) || a.name == b.name,
            (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (Self::Message(a), Self::Message(b)) => a == b,
            (Self::Param(a), Self::Param(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Type(of) => write!(f, "type({of})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Message(name) => f.write_str(name),
            Self::Param(number) => write!(f, "_var{number}"),
        }
    }
}

/// A signature: `string.(int, int) -> string`, `(list(A)) -> int`.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) target: Option<Type>,
    pub(crate) arguments: Vec<Type>,
    pub(crate) result: Type,
}

impl Signature {
    /// Parses a signature of the function tables.
    pub(crate) fn read(text: &str) -> Self {
        let (taken, result) = text.split_once(" -> ").unwrap_or((text, "dyn"));
        let (target, arguments) = match taken.split_once(".(") {
            Some((target, arguments)) => (Some(read_type(target)), arguments),
            None => (None, &taken[1..]),
        };
        let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
        Self {
            target,
            arguments: split_top(arguments).map(read_type).collect(),
            result: read_type(result),
        }
    }
}

/// Splits at the commas outside parentheses.
fn split_top(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let parts = text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

fn read_type(text: &str) -> Type {
    let inner = |prefix: &str| text.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(')'));
    if let Some(of) = inner("list(") {
        return Type::list(read_type(of));
    }
    if let Some(of) = inner("optional(") {
        return Type::optional(read_type(of));
    }
    if let Some(of) = inner("type(") {
        return Type::Type(Arc::new(read_type(of)));
    }
    if let Some(of) = inner("map(") {
        let mut parts = split_top(of).map(read_type);
        return Type::map(
            parts.next().unwrap_or(Type::Dyn),
            parts.next().unwrap_or(Type::Dyn),
        );
    }
    match text {
        "A" => Type::Param(0),
        "B" => Type::Param(1),
        "null" => Type::Null,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        name => Type::named(name).unwrap_or_else(|| unreachable!("a signature names no such type: {name}")),
    }
}
