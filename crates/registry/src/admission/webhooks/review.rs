//! The `AdmissionReview` protocol: the request to a webhook and its response.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_meta::{Outcome, Status};

use crate::webhook_client::Review;

const KIND: &str = "AdmissionReview";
/// The only patch type.
const JSON_PATCH: &str = "JSONPatch";

/// The version of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    /// For older webhooks. Kubernetes does not compare type and uid of their responses.
    V1Beta1,
}

/// The response of a webhook.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Verdict {
    pub(super) is_allowed: bool,
    /// The status of a denial.
    pub(super) status: Option<Status>,
    pub(super) warnings: Vec<String>,
    /// The operations of a JSON patch, if any.
    pub(super) patch: Option<Value>,
    /// Annotations for the audit event.
    pub(super) audit_annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Response {
    uid: String,
    allowed: bool,
    status: Option<Status>,
    patch: Option<String>,
    patch_type: Option<String>,
    warnings: Option<Vec<String>>,
    audit_annotations: Option<BTreeMap<String, String>>,
}

impl ReviewVersion {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }

    /// The request as sent.
    pub(super) fn question(self, request: &Value) -> Bytes {
        let review = json!({"kind": KIND, "apiVersion": self.api_version(), "request": request});
        review.to_string().into()
    }

    /// Decodes the response to the request with this uid.
    pub(super) fn answer(self, uid: &str, may_patch: bool, body: &[u8]) -> Result<Verdict, String> {
        let unread = |error| format!("failed to call webhook: the answer cannot be read: {error}");
        let mut review: Value = serde_json::from_slice(body).map_err(unread)?;
        drop_nulls(&mut review);
        let review: Review<Response> = serde_json::from_value(review).map_err(unread)?;
        let response = self.checked(uid, may_patch, review);
        let response = response.map_err(|why| format!("received invalid webhook response: {why}"))?;
        let patch = match response.patch.as_deref() {
            None | Some("") => None,
            // The patch of a denial is ignored. If an unreadable one were an error, a webhook with failure policy
            // `Ignore` could not deny.
            Some(text) if may_patch && response.allowed => Some(operations(text)?),
            Some(_) => None,
        };
        Ok(Verdict {
            is_allowed: response.allowed,
            status: response.status,
            warnings: response.warnings.unwrap_or_default(),
            patch: patch.filter(|operations| operations != &json!([])),
            audit_annotations: response.audit_annotations.unwrap_or_default(),
        })
    }

    fn checked(self, uid: &str, may_patch: bool, mut review: Review<Response>) -> Result<Response, String> {
        let response = review.response.take().ok_or("webhook response was absent")?;
        if self == Self::V1Beta1 {
            return Ok(response);
        }
        if response.uid != uid {
            return Err(format!("expected response.uid={uid:?}, got {:?}", response.uid));
        }
        review.check_type(self.api_version(), KIND)?;
        let has_patch = response.patch.as_deref().is_some_and(|patch| !patch.is_empty());
        match (may_patch, has_patch, response.patch_type.as_deref()) {
            (false, true, _) => Err("validating webhook may not return response.patch".to_owned()),
            (false, false, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
            (true, true, None) => {
                Err("webhook returned response.patch but not response.patchType".to_owned())
            }
            (true, false, Some(_)) => {
                Err("webhook returned response.patchType but not response.patch".to_owned())
            }
            (true, true, Some(kind)) if kind != JSON_PATCH => {
                Err(format!("webhook returned invalid response.patchType of {kind:?}"))
            }
            _ => Ok(response),
        }
    }
}

/// Removes null fields, as Go decodes objects.
fn drop_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(drop_nulls);
    }
}

/// Decodes the operations of a patch.
fn operations(text: &str) -> Result<Value, String> {
    let bytes = STANDARD.decode(text);
    let bytes = bytes.map_err(|error| format!("failed to call webhook: the patch is not base64: {error}"))?;
    let patch = serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string());
    let patch = patch.and_then(|patch| match patch.is_array() {
        true => Ok(patch),
        false => Err("it is not a list of operations".to_owned()),
    });
    patch.map_err(|why| format!("received undecodable patch in webhook response: {why}"))
}

/// The error for a denied write.
pub(super) fn refusal(webhook: &str, status: Option<Status>) -> Status {
    let mut status = status.unwrap_or_default();
    status.code = status.code.max(400);
    status.status = Outcome::Failure;
    let why = match (&*status.message, status.reason.as_str()) {
        ("", "") => " without explanation".to_owned(),
        ("", reason) => format!(": {reason}"),
        (message, _) => format!(": {message}"),
    };
    status.message = format!("admission webhook {webhook:?} denied the request{why}");
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A patch as a webhook sends it.
    fn encoded(patch: Value) -> Value {
        json!(STANDARD.encode(patch.to_string()))
    }

    /// Decodes a response to a request with uid `u`.
    fn answered(version: ReviewVersion, may_patch: bool, response: Value) -> Result<Verdict, String> {
        let review =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        version.answer("u", may_patch, review.to_string().as_bytes())
    }

    #[test]
    fn a_response_that_does_not_match_the_request_is_an_error() {
        let check = |may_patch: bool, response: Value, expected: &str| {
            let refused = answered(ReviewVersion::V1, may_patch, response).unwrap_err();
            assert_eq!(refused, format!("received invalid webhook response: {expected}"));
        };
        let patch = encoded(json!([]));
        check(false, json!(null), "webhook response was absent");
        check(
            false,
            json!({"uid": "v", "allowed": true}),
            r#"expected response.uid="u", got "v""#,
        );
        check(
            false,
            json!({"uid": "u", "patch": patch}),
            "validating webhook may not return response.patch",
        );
        check(
            false,
            json!({"uid": "u", "patchType": "JSONPatch"}),
            "validating webhook may not return response.patchType",
        );
        check(
            true,
            json!({"uid": "u", "patch": patch}),
            "webhook returned response.patch but not response.patchType",
        );
        check(
            true,
            json!({"uid": "u", "patchType": "JSONPatch"}),
            "webhook returned response.patchType but not response.patch",
        );
        check(
            true,
            json!({"uid": "u", "patch": patch, "patchType": "Merge"}),
            r#"webhook returned invalid response.patchType of "Merge""#,
        );
    }

    #[test]
    fn a_response_of_another_kind_is_an_error() {
        let response = json!({"uid": "u", "allowed": true});
        let review = json!({"apiVersion": "v1", "kind": "Pod", "response": response}).to_string();
        assert_eq!(
            ReviewVersion::V1
                .answer("u", false, review.as_bytes())
                .unwrap_err(),
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, \
             Kind=AdmissionReview, got v1, Kind=Pod"
        );
    }

    #[test]
    fn patches_are_lists_of_operations() {
        let check = |patch: Value, expected: Result<Option<Value>, &str>| {
            let response = json!({"uid": "u", "allowed": true, "patch": patch, "patchType": "JSONPatch"});
            let read = answered(ReviewVersion::V1, true, response).map(|verdict| verdict.patch);
            assert_eq!(read, expected.map_err(str::to_owned));
        };
        let operations = json!([{"op": "remove", "path": "/data"}]);
        check(encoded(operations.clone()), Ok(Some(operations)));
        check(encoded(json!([])), Ok(None));
        check(
            encoded(json!({"data": null})),
            Err("received undecodable patch in webhook response: it is not a list of operations"),
        );
        check(
            json!("!"),
            Err("failed to call webhook: the patch is not base64: Invalid symbol 33, offset 0."),
        );
    }

    /// An unreadable response is left to the failure policy; a denial is not.
    #[test]
    fn a_denial_counts_whatever_its_patch() {
        let patch = encoded(json!({"no": "operations"}));
        let response = json!({"uid": "u", "allowed": false, "patch": patch, "patchType": "JSONPatch"});
        let verdict = answered(ReviewVersion::V1, true, response).unwrap();
        assert!(!verdict.is_allowed);
        assert_eq!(verdict.patch, None);
    }

    /// As in Go, `null` is the same as missing.
    #[test]
    fn null_fields_of_a_response_are_ignored() {
        let status = json!({"metadata": null, "status": null, "message": null, "reason": null, "details": null, "code": 403});
        let response = json!({
            "uid": "u", "allowed": null, "status": status, "patch": null, "patchType": null, "warnings": null,
            "auditAnnotations": null,
        });
        let verdict = answered(ReviewVersion::V1, true, response).unwrap();
        assert_eq!(refusal("a.b.c", verdict.status).code, 403);
    }

    #[test]
    fn a_v1beta1_response_need_not_repeat_the_uid() {
        let operations = json!([{"op": "remove", "path": "/data"}]);
        let response = json!({"allowed": true, "patch": encoded(operations.clone())});
        let verdict = answered(ReviewVersion::V1Beta1, true, response).unwrap();
        assert_eq!(verdict.patch, Some(operations));
    }

    #[test]
    fn a_denial_names_the_webhook_and_its_reason() {
        let check = |status: Value, code: i32, expected: &str| {
            let status = refusal("a.b.c", serde_json::from_value(status).unwrap());
            let said = format!("admission webhook \"a.b.c\" denied the request{expected}");
            assert_eq!((status.code, &*status.message), (code, &*said));
            assert_eq!(status.status, Outcome::Failure);
        };
        check(Value::Null, 400, " without explanation");
        check(json!({"message": "no", "code": 403}), 403, ": no");
        check(json!({"reason": "Conflict", "code": 409}), 409, ": Conflict");
        check(
            json!({"status": "Success", "code": 200}),
            400,
            " without explanation",
        );
    }
}
