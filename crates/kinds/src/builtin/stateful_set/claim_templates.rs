//! Adds `kind` and `apiVersion` to the claim templates of stateful sets, the only nested objects that have them.
//!
//! The stored form has no type information for nested objects. Kubernetes adds it when it encodes an answer, and so
//! does this module.

use serde_json::{Value, json};

const API_VERSION: &str = "v1";
const KIND: &str = "PersistentVolumeClaim";
/// The start of the list of claims in JSON. Inside a string, its quotes would be escaped.
const LIST: &[u8] = br#""volumeClaimTemplates":["#;
const IDENTITY: &[u8] = br#""kind":"PersistentVolumeClaim","apiVersion":"v1","#;

/// Adds the type to a claim.
pub(super) fn name(claim: &mut Value) {
    claim["apiVersion"] = json!(API_VERSION);
    claim["kind"] = json!(KIND);
}

/// Adds the type to every claim of a set.
pub(super) fn name_in_value(set: &mut Value) {
    let claims = set.pointer_mut("/spec/volumeClaimTemplates");
    let claims = claims.and_then(Value::as_array_mut).into_iter().flatten();
    claims.for_each(name);
}

/// Adds the type to every claim in the JSON of a set that starts at `start`.
pub(super) fn name_in_json(out: &mut Vec<u8>, start: usize) {
    let Some(list) = find(&out[start..], LIST) else {
        return;
    };
    let json = out.split_off(start + list + LIST.len());
    let mut copied = 0;
    for claim in objects(&json) {
        out.extend_from_slice(&json[copied..=claim]);
        out.extend_from_slice(IDENTITY);
        copied = claim + 1;
    }
    out.extend_from_slice(&json[copied..]);
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// The positions at which the objects of a list start. Scanning stops at the end of the list.
fn objects(json: &[u8]) -> Vec<usize> {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    let mut found = Vec::new();
    for (offset, byte) in json.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => {
                if depth == 0 {
                    found.push(offset);
                }
                depth += 1;
            }
            b']' | b'}' if depth == 0 => break,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_get_their_type_in_values_and_in_json() {
        for (before, after) in [
            (r#"{"spec":{}}"#, r#"{"spec":{}}"#),
            (
                r#"{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"]}\""}},{"spec":{"a":["{"]}}],"x":[{}]}}"#,
                r#"{"spec":{"volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"]}\""}},{"kind":"PersistentVolumeClaim","apiVersion":"v1","spec":{"a":["{"]}}],"x":[{}]}}"#,
            ),
            (
                r#"{"metadata":{"annotations":{"a":"{\"volumeClaimTemplates\":[{}]}"}}}"#,
                r#"{"metadata":{"annotations":{"a":"{\"volumeClaimTemplates\":[{}]}"}}}"#,
            ),
        ] {
            let mut out = b"data: ".to_vec();
            out.extend_from_slice(before.as_bytes());
            name_in_json(&mut out, 6);
            assert_eq!(String::from_utf8(out).unwrap(), format!("data: {after}"));
        }
    }
}
