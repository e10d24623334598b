//! Encodes a `Status` in every format of errors.
//!
//! Written without the schema, so that reporting an error cannot fail.

use bytes::Bytes;
use watchkeeper_meta::{Outcome, Status, StatusCause, StatusDetails};
use watchkeeper_registry::Format;
use watchkeeper_wire::protobuf::primitive::{WireType, put_bytes, put_tag, put_varint};

use crate::forms;
use crate::respond::to_json;

/// The first bytes of every protobuf document.
const MAGIC: &[u8] = b"k8s\0";

/// Encodes a `Status`.
pub(crate) fn encode(status: &Status, encoding: Format) -> Bytes {
    match encoding {
        Format::Json => to_json(status).into(),
        Format::Yaml => yaml(status).into(),
        Format::Protobuf => protobuf(status).into(),
    }
}

fn yaml(status: &Status) -> Vec<u8> {
    let value = serde_json::to_value(status).expect("a status has text keys");
    forms::yaml(&value)
}

fn protobuf(status: &Status) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_message(&mut out, 1, |out| {
        put_text(out, 1, Status::API_VERSION);
        put_text(out, 2, Status::KIND);
    });
    put_message(&mut out, 2, |out| put_status(out, status));
    put_text(&mut out, 3, "");
    put_text(&mut out, 4, "");
    out
}

/// Go encodes every field that is not a pointer, even if it is empty.
fn put_status(out: &mut Vec<u8>, status: &Status) {
    put_message(out, 1, |out| {
        put_text(out, 1, "");
        put_text(out, 2, status.metadata.resource_version.as_str());
        put_text(out, 3, &status.metadata.continue_token);
        if let Some(count) = status.metadata.remaining_item_count {
            put_number(out, 4, count);
        }
    });
    put_text(out, 2, outcome(status.status));
    put_text(out, 3, &status.message);
    put_text(out, 4, status.reason.as_str());
    if let Some(details) = &status.details {
        put_message(out, 5, |out| put_details(out, details));
    }
    put_number(out, 6, status.code.into());
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Success => "Success",
        Outcome::Failure => "Failure",
        Outcome::Unstated => "",
    }
}

fn put_details(out: &mut Vec<u8>, details: &StatusDetails) {
    put_text(out, 1, &details.name);
    put_text(out, 2, &details.group);
    put_text(out, 3, &details.kind);
    for cause in &details.causes {
        put_message(out, 4, |out| put_cause(out, cause));
    }
    put_number(out, 5, details.retry_after_seconds.into());
    put_text(out, 6, &details.uid);
}

fn put_cause(out: &mut Vec<u8>, cause: &StatusCause) {
    put_text(out, 1, &cause.reason);
    put_text(out, 2, &cause.message);
    put_text(out, 3, &cause.field);
}

fn put_text(out: &mut Vec<u8>, number: u32, text: &str) {
    put_bytes(out, number, text.as_bytes());
}

fn put_number(out: &mut Vec<u8>, number: u32, value: i64) {
    put_tag(out, number, WireType::Varint);
    put_varint(out, value as u64);
}

fn put_message(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut message = Vec::new();
    write(&mut message);
    put_bytes(out, number, &message);
}

/// Escapes markup characters, as Go does. They occur only inside JSON strings, so the whole document can be
/// processed.
pub(crate) fn escape_markup(json: String) -> String {
    if !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    for char in json.chars() {
        match char {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use watchkeeper_meta::GroupResource;

    /// The response of a real server for the same failure.
    #[test]
    fn protobuf_equals_that_of_a_real_server() {
        let status = Status::not_found(&GroupResource::new("", "configmaps"), "zz");
        let recorded = "azhzAAoMCgJ2MRIGU3RhdHVzElEKBgoAEgAaABIHRmFpbHVyZRoZY29uZmlnbWFwcyAienoiIG5vdCBmb3VuZCIITm90\
                        Rm91bmQqFgoCenoSABoKY29uZmlnbWFwcygAMgAwlAMaACIA";
        assert_eq!(STANDARD.encode(encode(&status, Format::Protobuf)), recorded);
    }

    #[test]
    fn json_holds_no_markup() {
        let status = Status::bad_request("<a>&");
        let text = encode(&status, Format::Json);
        assert!(
            std::str::from_utf8(&text)
                .unwrap()
                .contains(r#""message":"\u003ca\u003e\u0026""#)
        );
    }
}
