//! The body of a write: decodes bytes in one of three formats into an object of the resource's kind, in canonical
//! form.

mod custom;

use serde_json::{Map, Value};
use watchkeeper_meta::{FieldValidation, GroupVersion, Status};
use watchkeeper_wire::canonical::{
    BodyError, StrictError, canonicalize, json_type, read_body, read_body_into_one, strict_errors,
};
use watchkeeper_wire::protobuf::envelope::MAGIC;
use watchkeeper_wire::protobuf::primitive::{ProtobufError, ProtobufErrorKind};
use watchkeeper_wire::protobuf::{Envelope, Message};
use watchkeeper_wire::schema::{Schema, TypeId};
use watchkeeper_wire::tree_size::{TREE_LIMIT, is_large_json};
use watchkeeper_wire::yaml::{self, YamlErrorKind};

use self::custom::{IdentityError, check_identity};
use crate::context::WriteContext;
use crate::definition::Definition;

/// `application/json`.
pub const JSON: &str = "application/json";
/// `application/yaml`.
pub const YAML: &str = "application/yaml";
/// `application/vnd.kubernetes.protobuf`.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The format of a body, in the server's order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Format {
    /// The media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Yaml => YAML,
            Self::Protobuf => PROTOBUF,
        }
    }

    /// The `Content-Type` of a watch stream. JSON has its plain name, for old clients.
    pub const fn stream_media_type(self) -> &'static str {
        match self {
            Self::Json | Self::Yaml => JSON,
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

/// The body of a write.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// The format.
    pub format: Format,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A decoded body whose kind is not checked yet.
pub(crate) struct Raw {
    pub(crate) value: Value,
    pub(crate) strict_errors: Vec<String>,
    pub(crate) is_yaml: bool,
}

/// The reason a body cannot be decoded.
enum Unread {
    /// It is not an object; the text is that of Go's decoders.
    Unrecognized(String),
    /// It has more values than the server accepts.
    TooLarge,
}

impl From<String> for Unread {
    fn from(why: String) -> Self {
        Self::Unrecognized(why)
    }
}

impl Unread {
    fn into_status(self, unrecognized: impl Fn(String) -> Status) -> Status {
        match self {
            Self::Unrecognized(why) => unrecognized(why),
            Self::TooLarge => too_many_values(),
        }
    }
}

/// The error for a body with too many values: 413, as for too many bytes. It is well-formed, and a retry would fail
/// too.
pub fn too_many_values() -> Status {
    Status::request_entity_too_large(format!("limit is {TREE_LIMIT} values"))
}

impl Body<'_> {
    /// Decodes the body as an object of a resource.
    pub(crate) fn read(&self, definition: &Definition, context: &WriteContext) -> Result<Value, Status> {
        let unrecognized = |why: String| {
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {why} ({})",
                definition.resource.kind,
                excerpt(self.bytes),
            ))
        };
        let wanted = (&*definition.api_version, &*definition.resource.kind);
        let raw = self.read_raw(wanted);
        let raw = raw.map_err(|unread| unread.into_status(unrecognized))?;
        let raw = match definition.is_custom() {
            true => raw,
            false => self.merge_duplicate_keys(raw),
        };
        if definition.is_custom() {
            let shown = match self.format {
                Format::Json => String::from_utf8_lossy(self.bytes).into_owned(),
                _ => raw.value.to_string(),
            };
            check_identity(definition, &raw.value, &shown).map_err(|refusal| match refusal {
                IdentityError::Unrecognized(why) => unrecognized(why),
                IdentityError::Status(status) => status,
            })?;
        }
        object_of(self, definition, raw, context)
    }

    /// For built-in kinds, duplicate keys are merged into one field, as Go decodes into a struct.
    fn merge_duplicate_keys(&self, raw: Raw) -> Raw {
        let grown = match self.format {
            Format::Json if !raw.strict_errors.is_empty() => read_body_into_one(self.bytes),
            _ => None,
        };
        match grown {
            Some(value) => Raw { value, ..raw },
            None => raw,
        }
    }

    /// Decodes the body as an object that is not stored: options, a binding, a review.
    pub(crate) fn read_as(&self, api_version: &str, kind: &str) -> Result<Value, Status> {
        let unrecognized = |why: String| {
            let shown = excerpt(self.bytes);
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
            ))
        };
        let raw = self.read_raw((api_version, kind));
        let value = raw.map_err(|unread| unread.into_status(unrecognized))?.value;
        let stated = value.get("kind").and_then(Value::as_str).unwrap_or(kind);
        let cannot = |why: &dyn std::fmt::Display| {
            Status::bad_request(format!(
                "{stated} in version \"v1\" cannot be handled as a {kind}: {why}"
            ))
        };
        let stated_version = value
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if stated != kind && Schema::builtin().kind(stated_version, stated).is_none() {
            return Err(cannot(&unknown_kind(stated_version, stated)));
        }
        if stated != kind {
            let group = api_version.split_once('/').map_or("core", |(group, _)| group);
            let group = group.split('.').next().unwrap_or(group);
            return Err(cannot(&format_args!(
                "converting (v1.{stated}) to ({group}.{kind}): unknown conversion"
            )));
        }
        let schema = Schema::builtin();
        let known = schema
            .kind(api_version, kind)
            .ok_or_else(|| cannot(&"unknown kind"))?;
        canonicalize(schema, known, value.clone())
            .map(|read| read.value)
            .map_err(|error| cannot(&error))
    }

    /// The errors of strict decoding in Go's order: that of the JSON, whose keys are sorted if it was YAML. `doubled`
    /// names the duplicate keys; custom objects are decoded without a type first.
    fn strict_errors(
        &self,
        schema: &Schema,
        id: TypeId,
        mut doubled: Vec<String>,
        unknown: &[StrictError],
    ) -> Vec<String> {
        if !std::ptr::eq(schema, Schema::builtin()) {
            doubled.extend(texts(unknown));
            return doubled;
        }
        match self.format {
            Format::Json => {
                let mut json = serde_json::Deserializer::from_slice(self.bytes);
                texts(&strict_errors(schema, id, &mut json))
            }
            Format::Yaml => {
                let value = yaml_body(self.bytes).map(|raw| raw.value).unwrap_or_default();
                doubled.extend(texts(&strict_errors(schema, id, value)));
                doubled
            }
            Format::Protobuf => Vec::new(),
        }
    }

    /// Decodes the bytes. `wanted` is the kind of a protobuf message that does not state its own.
    fn read_raw(&self, wanted: (&str, &str)) -> Result<Raw, Unread> {
        match self.format {
            Format::Json => {
                if is_large_json(self.bytes) {
                    return Err(Unread::TooLarge);
                }
                let body = read_body(self.bytes).map_err(|error| no_version(&error))?;
                must_be_object(&body.value)?;
                Ok(Raw {
                    value: body.value,
                    strict_errors: texts(&body.duplicates),
                    is_yaml: false,
                })
            }
            Format::Yaml => yaml_body(self.bytes),
            Format::Protobuf => {
                let schema = Schema::builtin();
                if !self.bytes.starts_with(&MAGIC) {
                    let text = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
                    return Err(Unread::Unrecognized(text.to_owned()));
                }
                let envelope = Envelope::read(self.bytes).map_err(protobuf_problem)?;
                let (api_version, kind) = match envelope.kind {
                    "" => wanted,
                    kind => (envelope.api_version, kind),
                };
                let message = Message::of_kind(schema, api_version, kind, envelope.raw);
                let message = message.map_err(protobuf_problem)?;
                if message.is_large() {
                    return Err(Unread::TooLarge);
                }
                Ok(Raw {
                    value: message.to_value().map_err(protobuf_problem)?,
                    strict_errors: Vec::new(),
                    is_yaml: false,
                })
            }
        }
    }
}

/// Checks that the decoded body is an object of the resource's kind.
fn object_of(
    body: &Body<'_>,
    definition: &Definition,
    raw: Raw,
    context: &WriteContext,
) -> Result<Value, Status> {
    let text = |name: &str| {
        raw.value
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    // A body without a type has that of the path.
    let or = |named: String, meant: &str| if named.is_empty() { meant.to_owned() } else { named };
    let api_version = or(text("apiVersion"), &definition.api_version);
    let kind = or(text("kind"), &definition.resource.kind);
    let version = match api_version.parse::<GroupVersion>() {
        Ok(parsed) => parsed.version.into_owned(),
        Err(_) => api_version.clone(),
    };
    let cannot = |why: &dyn std::fmt::Display| {
        let wanted = &definition.resource.kind;
        Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {wanted}: {why}"
        ))
    };
    let known = definition.schema.kind(&api_version, &kind);
    let known = known.ok_or_else(|| cannot(&unknown_kind(&api_version, &kind)))?;
    let mut value = raw.value;
    if value.is_null() {
        value = Value::Object(Default::default());
    }
    let read = canonicalize(&definition.schema, known, value).map_err(|error| cannot(&error))?;
    context.emptied.set(read.emptied);
    if known != definition.type_id {
        return Err(cannot(&unknown_conversion(definition, &kind)));
    }
    let mut strict_errors = raw.strict_errors;
    if raw.is_yaml && context.field_validation == FieldValidation::Strict && !strict_errors.is_empty() {
        // Go's YAML decoder reports all errors as one.
        strict_errors = vec![format!(
            "yaml: unmarshal errors:\n  {}",
            strict_errors.join("\n  ")
        )];
    }
    if !strict_errors.is_empty() || !read.unknown.is_empty() {
        strict_errors = body.strict_errors(&definition.schema, known, strict_errors, &read.unknown);
    }
    match context.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => strict_errors
            .iter()
            .for_each(|complaint| context.warnings.add(complaint)),
        FieldValidation::Strict if strict_errors.is_empty() => {}
        FieldValidation::Strict => {
            return Err(cannot(&format_args!(
                "strict decoding error: {}",
                strict_errors.join(", ")
            )));
        }
    }
    let mut value = read.value;
    value["apiVersion"] = definition.api_version.as_str().into();
    value["kind"] = definition.resource.kind.as_ref().into();
    Ok(value)
}

/// Go's error for an unregistered kind.
pub(crate) fn unknown_kind(api_version: &str, kind: &str) -> String {
    let scheme = "pkg/api/legacyscheme/scheme.go:30";
    format!("no kind {kind:?} is registered for version {api_version:?} in scheme {scheme:?}")
}

/// Go's error for an object of another kind.
pub(crate) fn unknown_conversion(definition: &Definition, kind: &str) -> String {
    let (group, wanted) = (definition.internal_group(), &definition.resource.kind);
    format!("converting (v1.{kind}) to ({group}.{wanted}): unknown conversion")
}

/// A YAML body: only the first document is read.
fn yaml_body(bytes: &[u8]) -> Result<Raw, Unread> {
    let document = yaml::first_document(bytes, yaml::Mode::Lenient).map_err(|error| match error.kind {
        YamlErrorKind::TooManyValues => Unread::TooLarge,
        _ => Unread::Unrecognized(error.to_go_string()),
    })?;
    must_be_object(&document.value)?;
    let strict_errors = document.duplicates.iter().map(ToString::to_string).collect();
    Ok(Raw {
        value: document.value,
        strict_errors,
        is_yaml: true,
    })
}

/// Go's errors for an invalid protobuf body, as far as they are known.
fn protobuf_problem(error: ProtobufError) -> Unread {
    Unread::Unrecognized(match &error.kind {
        ProtobufErrorKind::Truncated => "unexpected EOF".to_owned(),
        ProtobufErrorKind::WireType(wire_type) => format!("proto: illegal wireType {wire_type}"),
        _ => error.to_string(),
    })
}

/// A body must be a JSON object, and `apiVersion` and `kind` must be strings if present.
fn must_be_object(value: &Value) -> Result<(), String> {
    let found = match value {
        Value::Object(fields) => return names_are_texts(fields),
        Value::Null => return Ok(()),
        other => json_type(other),
    };
    let wanted = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    Err(format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type {wanted}"
    ))
}

fn names_are_texts(fields: &Map<String, Value>) -> Result<(), String> {
    let named = ["apiVersion", "kind"].map(|name| (name, fields.get(name)));
    let wrong = named.into_iter().find_map(|(name, value)| {
        let value = value.filter(|value| !value.is_string() && !value.is_null())?;
        Some((name, json_type(value)))
    });
    wrong.map_or(Ok(()), |(name, found)| {
        Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go struct field \
             .{name} of type string"
        ))
    })
}

fn no_version(error: &BodyError) -> String {
    format!("couldn't get version/kind; json parse error: {error}")
}

fn texts(strict_errors: &[StrictError]) -> Vec<String> {
    strict_errors.iter().map(StrictError::to_string).collect()
}

/// The start of a body: text if it looks like JSON, else hexadecimal.
fn excerpt(bytes: &[u8]) -> String {
    const LENGTH: usize = 30;
    if bytes.is_empty() {
        return "<empty>".to_owned();
    }
    let start = &bytes[..bytes.len().min(LENGTH)];
    let shown = if bytes.starts_with(b"{") {
        String::from_utf8_lossy(start).into_owned()
    } else {
        start.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    if bytes.len() > LENGTH {
        format!("{shown} ...")
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_errors_are_in_the_order_of_the_body() {
        let definitions = Definition::builtin();
        let definition = definitions
            .iter()
            .find(|definition| definition.resource.kind == "ConfigMap")
            .unwrap();
        let check = |format, bytes: &str, expected: &[&str]| {
            let bytes = bytes.as_bytes();
            let context = WriteContext {
                field_validation: FieldValidation::Warn,
                ..WriteContext::default()
            };
            Body { format, bytes }.read(definition, &context).unwrap();
            assert_eq!(context.warnings.take(), expected);
        };
        check(
            Format::Json,
            r#"{"z":1,"metadata":{"name":"a","y":2,"name":"b"},"data":{"k":"1","k":"2"},"a":3}"#,
            &[
                r#"unknown field "z""#,
                r#"unknown field "metadata.y""#,
                r#"duplicate field "metadata.name""#,
                r#"duplicate field "data.k""#,
                r#"unknown field "a""#,
            ],
        );
        check(
            Format::Yaml,
            "z: 1\nmetadata: {name: a, x: 2}\na: 3\na: 4\n",
            &[
                r#"line 4: key "a" already set in map"#,
                r#"unknown field "a""#,
                r#"unknown field "metadata.x""#,
                r#"unknown field "z""#,
            ],
        );
    }
}
