//! Options and small objects sent as a body.

use serde_json::Value;
use watchkeeper_meta::{DeleteOptions, Status};
use watchkeeper_registry::{Format, too_many_values};
use watchkeeper_wire::canonical::read_body;
use watchkeeper_wire::protobuf::Message;
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::yaml::{self, Mode};

use crate::filter::Call;
use crate::negotiate::content_type;
use crate::respond::Failure;

/// Decodes delete options from a body in any format. Every group and version has its own DeleteOptions, all with the
/// same fields.
pub(super) fn delete_options(call: &Call, bytes: &[u8]) -> Result<DeleteOptions, Failure> {
    let value = read_kind(call, bytes, "meta/v1.DeleteOptions")?;
    Ok(DeleteOptions::from_json(&value)?)
}

/// Decodes a body of one schema type in any format.
pub(super) fn read_kind(call: &Call, bytes: &[u8], type_name: &str) -> Result<Value, Failure> {
    Ok(match content_type(call.content_type())? {
        Format::Json => json(bytes)?,
        Format::Yaml => yaml(bytes)?,
        Format::Protobuf => protobuf(bytes, type_name)?,
    })
}

fn json(bytes: &[u8]) -> Result<Value, Status> {
    let body = read_body(bytes);
    let body = body.map_err(|error| {
        Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
    })?;
    Ok(body.value)
}

fn yaml(bytes: &[u8]) -> Result<Value, Status> {
    let document = yaml::first_document(bytes, Mode::Lenient);
    Ok(document
        .map_err(|error| Status::bad_request(error.to_go_string()))?
        .value)
}

fn protobuf(bytes: &[u8], type_name: &str) -> Result<Value, Status> {
    let unreadable = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
    let schema = Schema::builtin();
    let envelope = watchkeeper_wire::protobuf::Envelope::read(bytes).map_err(|error| unreadable(&error))?;
    let id = schema
        .type_named(type_name)
        .ok_or_else(|| Status::internal_error(format_args!("the schema has no {type_name}")))?;
    let message = Message::of_type(schema, id, envelope.raw);
    if message.is_large() {
        return Err(too_many_values());
    }
    let mut value = message.to_value().map_err(|error| unreadable(&error))?;
    if !envelope.kind.is_empty() {
        value["kind"] = envelope.kind.into();
        value["apiVersion"] = envelope.api_version.into();
    }
    Ok(value)
}
