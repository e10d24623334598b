//! The values of expressions. Values from JSON are borrowed and read on demand; constructed values are shared.

mod compare;
mod list;
mod map;
mod message;
mod text;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde_json::Value as Json;
use watchkeeper_wire::values::Quantity;

pub(crate) use self::compare::{compare, contains, equal};
pub(crate) use self::list::List;
pub(crate) use self::map::Map;
pub use self::message::Message;
pub use self::text::Text;
use crate::ast::Literal;
use crate::authorizer::{Authorizer, Decision, Question, ResourceTarget, Target};
use crate::declared::{DYN, Declared, Shape};
use crate::error::EvalError;
use crate::functions::authorization::{Check, CheckStage};
use crate::functions::named_formats::NamedFormat;
use crate::functions::semver::Semver;
use crate::functions::time::{parse_duration, parse_timestamp};
use crate::functions::url::Url;
use crate::types::Type;

/// The longest text of a time. Times are parsed each time they are read.
const MAX_TIME_BYTES: usize = 256;

/// A value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A number with a fraction.
    Double(f64),
    /// A text.
    String(Text<'a>),
    /// Bytes.
    Bytes(Rc<[u8]>),
    /// A timestamp, in UTC.
    Timestamp(DateTime),
    /// A duration.
    Duration(SignedDuration),
    /// A list.
    #[doc(hidden)]
    List(List<'a>),
    /// A map or an object.
    #[doc(hidden)]
    Map(Map<'a>),
    /// A value of a named type.
    Message(Message<'a>),
    /// A type.
    Type(Type),
    /// An optional value.
    Optional(Option<Rc<Value<'a>>>),
    /// A value of one of Kubernetes' libraries.
    #[doc(hidden)]
    Opaque(Opaque),
}

/// Values that only functions can read.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub enum Opaque {
    Quantity(Rc<Quantity>),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Url(Rc<Url>),
    Format(&'static NamedFormat),
    Semver(Rc<Semver>),
    Check(Rc<Check>),
    Decision(Rc<Decision>),
}

impl<'a> Value<'a> {
    /// Undeclared JSON.
    pub fn dynamic(json: &'a Json) -> Self {
        // Undeclared JSON is never malformed.
        Self::from_json(json, &DYN).unwrap_or(Self::Null)
    }

    /// JSON with its declaration. A value that does not match its declaration gets its natural type; a text that
    /// should be a timestamp, duration or the like and is not is an error.
    pub fn from_json(json: &'a Json, declared: &'a Declared) -> Result<Self, EvalError> {
        Ok(match (json, &declared.shape) {
            (Json::Null, _) => Self::Null,
            (json, Shape::Optional(of)) => Self::Optional(Some(Rc::new(Self::from_json(json, of)?))),
            (Json::Bool(value), _) => Self::Bool(*value),
            (Json::Number(number), Shape::Double) => Self::Double(number.as_f64().unwrap_or_default()),
            (Json::Number(number), shape) => match (number.as_i64(), number.as_f64().unwrap_or_default()) {
                (Some(value), _) => Self::Int(value),
                (None, value) if matches!(shape, Shape::Int) && value.fract() == 0.0 => {
                    Self::Int(value as i64)
                }
                (None, value) => Self::Double(value),
            },
            (Json::String(text), shape) => Self::from_text(text, shape)?,
            (Json::Array(items), _) => Self::List(List::Json { items, declared }),
            (Json::Object(members), Shape::Object(object)) => Self::Map(Map::Object { members, object }),
            (Json::Object(members), _) => Self::Map(Map::Json { members, declared }),
        })
    }

    fn from_text(text: &'a str, shape: &Shape) -> Result<Self, EvalError> {
        let is_time = matches!(shape, Shape::Timestamp | Shape::Date | Shape::Duration);
        if is_time && text.len() > MAX_TIME_BYTES {
            return Err(EvalError::failed("a time is too long"));
        }
        Ok(match shape {
            Shape::Bytes => {
                let bytes = STANDARD.decode(text);
                Self::Bytes(
                    bytes
                        .map_err(|error| EvalError::failed(error.to_string()))?
                        .into(),
                )
            }
            Shape::Timestamp => Self::Timestamp(parse_timestamp(text)?),
            Shape::Date => Self::Timestamp(parse_timestamp(&format!("{text}T00:00:00Z"))?),
            Shape::Duration => Self::Duration(parse_duration(text)?),
            _ => Self::String(Text::Borrowed(text)),
        })
    }

    pub(crate) fn literal(literal: &'a Literal) -> Self {
        match literal {
            Literal::Null => Self::Null,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Int(value) => Self::Int(*value),
            Literal::Uint(value) => Self::Uint(*value),
            Literal::Double(value) => Self::Double(*value),
            Literal::String(text) => Self::String(Text::Borrowed(text)),
            Literal::Bytes(bytes) => Self::Bytes(bytes.as_ref().into()),
        }
    }

    /// A constructed text.
    pub fn text(text: impl Into<Rc<str>>) -> Self {
        Self::String(Text::Made(text.into()))
    }

    /// `authorizer`: checks the user of the current request.
    pub fn authorizer(authorizer: Rc<dyn Authorizer>) -> Self {
        Self::Opaque(Opaque::Check(Rc::new(Check {
            stage: CheckStage::Authorizer,
            question: Question::default(),
            authorizer,
        })))
    }

    /// `authorizer.requestResource`: checks the resource of the current request.
    pub fn request_resource(authorizer: Rc<dyn Authorizer>, target: ResourceTarget) -> Self {
        Self::Opaque(Opaque::Check(Rc::new(Check {
            stage: CheckStage::Resource,
            question: Question {
                target: Target::Resource(target),
                ..Question::default()
            },
            authorizer,
        })))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List::Made(items.into()))
    }

    /// A map with these names, which must be distinct.
    pub fn members<'n>(members: impl IntoIterator<Item = (&'n str, Self)>) -> Self {
        let members = members.into_iter();
        let entries = members.map(|(name, value)| (Self::text(name), value));
        // Duplicate names make the map null.
        Map::of_entries(entries.collect()).map_or(Self::Null, Self::Map)
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The size, on which costs are based.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::String(text) => text.len() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Opaque(Opaque::Ip(address) | Opaque::Cidr(address, _)) => match address {
                IpAddr::V4(_) => 4,
                IpAddr::V6(_) => 16,
            },
            _ => 1,
        }
    }

    /// The bytes of a text.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::String(_) | Self::Bytes(_) => self.size(),
            _ => 0,
        }
    }

    /// The type as `type(x)` returns it: containers without parameters.
    pub(crate) fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Duration(_) => Type::Duration,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(Map::Object { object, .. }) => Type::Object((*object).clone()),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Message(message) => Type::Message(message.name.into()),
            Self::Type(_) => Type::Type(Arc::new(Type::Dyn)),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Opaque(opaque) => Type::Opaque(opaque.type_name()),
        }
    }
}

impl Opaque {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Check(check) => check.stage.type_name(),
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}
