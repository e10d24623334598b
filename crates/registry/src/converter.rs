//! The protocol of a conversion webhook: its configuration and its responses.

use serde::Deserialize;
use serde_json::Value;

use crate::webhook_client::{Review, WebhookClient};

pub(crate) const KIND: &str = "ConversionReview";
const SUCCESS: &str = "Success";

/// The conversion webhook of a kind.
#[derive(Debug)]
pub(crate) struct Converter {
    pub(crate) client: WebhookClient,
    /// The version of the review to send; `None` if the webhook supports no known one.
    pub(crate) api_version: Option<&'static str>,
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
    /// Reads the validated `conversion.webhook` of a definition.
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

    /// The objects of a response, or the error.
    pub(crate) fn answer(&self, uid: &str, body: &[u8]) -> Result<Vec<Value>, String> {
        let review: Review<Response> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let wanted = self.api_version.unwrap_or_default();
        // For v1beta1, Kubernetes does not compare type and uid.
        let is_strict = !wanted.ends_with("beta1");
        if is_strict {
            review.check_type(wanted, KIND)?;
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
