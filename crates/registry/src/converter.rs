//! A conversion webhook: how it is asked, and how its answer is read.

use serde::Deserialize;
use serde_json::Value;

use crate::webhook_client::WebhookClient;

pub(crate) const KIND: &str = "ConversionReview";
const SUCCESS: &str = "Success";

/// Who converts the objects of a kind.
#[derive(Debug)]
pub(crate) struct Converter {
    pub(crate) client: WebhookClient,
    /// How it is asked, unless it knows no way that we do.
    pub(crate) api_version: Option<&'static str>,
}

/// An answer as it comes.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    response: Option<Response>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Response {
    uid: String,
    converted_objects: Option<Vec<Value>>,
    result: ResultStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResultStatus {
    status: Option<String>,
    message: Option<String>,
}

impl Converter {
    /// Reads what was accepted of a definition's `conversion.webhook`.
    pub(crate) fn read(webhook: &Value) -> Self {
        let versions = webhook["conversionReviewVersions"].as_array();
        let mut versions = versions.into_iter().flatten();
        Self {
            client: WebhookClient::read(&webhook["clientConfig"]),
            api_version: versions.find_map(|version| match version.as_str()? {
                "v1" => Some("apiextensions.k8s.io/v1"),
                "v1beta1" => Some("apiextensions.k8s.io/v1beta1"),
                _ => None,
            }),
        }
    }

    /// The objects of an answer, or why there are none.
    pub(crate) fn answer(&self, uid: &str, body: &[u8]) -> Result<Vec<Value>, String> {
        let review: Review = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let wanted = self.api_version.unwrap_or_default();
        // Answers of the older version are not held to be about the question.
        let is_strict = !wanted.ends_with("beta1");
        if is_strict && (review.api_version != wanted || review.kind != KIND) {
            let (found, kind) = (review.api_version, review.kind);
            return Err(format!(
                "expected webhook response of {wanted}, Kind={KIND}, got {found}, Kind={kind}"
            ));
        }
        let response = review.response.ok_or("no response provided")?;
        if is_strict && response.uid != uid {
            return Err(format!("expected response.uid={uid:?}, got {:?}", response.uid));
        }
        let (status, message) = (response.result.status, response.result.message);
        match (status.unwrap_or_default(), message.unwrap_or_default()) {
            (status, _) if status == SUCCESS => Ok(response.converted_objects.unwrap_or_default()),
            (status, message) if message.is_empty() => {
                Err(format!("response.result.status was '{status}', not 'Success'"))
            }
            (_, message) => Err(message),
        }
    }
}
