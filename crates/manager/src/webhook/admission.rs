//! Admission reviews: a typed request in; a verdict out, with the changes as a JSON patch.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchkeeper_meta::error_chain;
use watchkeeper_patch::json_patch;

use super::{Route, mutation};

/// An admission request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "K: DeserializeOwned"))]
pub struct AdmissionRequest<K> {
    /// The id of the request, for the log.
    pub uid: String,
    /// The operation.
    pub operation: Operation,
    /// The kind of the object, as sent to the webhook.
    pub kind: Kind,
    /// Its resource.
    pub resource: ResourceName,
    /// The subresource: `status`, `scale`; empty for the object itself.
    #[serde(default)]
    pub sub_resource: String,
    /// The object's name; empty if the server generates it.
    #[serde(default)]
    pub name: String,
    /// The object's namespace; empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// The user.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The new object; `None` for a delete.
    #[serde(default = "none")]
    pub object: Option<K>,
    /// The stored object; `None` for a create.
    #[serde(default = "none")]
    pub old_object: Option<K>,
    /// True if nothing will be stored.
    #[serde(default)]
    pub dry_run: bool,
    /// The options of the write.
    #[serde(default)]
    pub options: Value,
}

/// Group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `Pod`.
    pub kind: String,
}

/// Group, version and plural name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceName {
    /// Empty for the core group.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `pods`.
    pub resource: String,
}

/// The operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// Create.
    Create,
    /// Update or patch.
    Update,
    /// Delete.
    Delete,
    /// Connect: `exec`, `proxy`.
    Connect,
}

/// The user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// The name.
    pub username: String,
    /// The unique id; names can be reused.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further attributes of the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The write is allowed: `()`, or a `Vec<String>` of warnings for the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Warnings, which kubectl prints.
    pub warnings: Vec<String>,
}

impl From<()> for Allowed {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<Vec<String>> for Allowed {
    fn from(warnings: Vec<String>) -> Self {
        Self { warnings }
    }
}

/// A changed object, with optional warnings for the user.
#[derive(Clone, Debug)]
pub struct Changed<K> {
    /// The object to store.
    pub object: K,
    /// Warnings.
    pub warnings: Vec<String>,
}

impl<K> From<K> for Changed<K> {
    fn from(object: K) -> Self {
        let warnings = Vec::new();
        Self { object, warnings }
    }
}

/// The write is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The HTTP status code of the response to the user.
    pub code: u16,
    /// The message.
    pub message: String,
    /// The reason, one word that programs can compare: `Forbidden`, `Invalid`.
    pub reason: &'static str,
}

impl Denied {
    /// 403: it is not allowed.
    pub fn forbidden(why: impl ToString) -> Self {
        Self::new(403, "Forbidden", why)
    }

    /// 422: a value is invalid.
    pub fn invalid(why: impl ToString) -> Self {
        Self::new(422, "Invalid", why)
    }

    /// 500: the webhook failed.
    pub fn internal(why: impl ToString) -> Self {
        Self::new(500, "InternalError", why)
    }

    fn new(code: u16, reason: &'static str, why: impl ToString) -> Self {
        let message = why.to_string();
        Self {
            code,
            message,
            reason,
        }
    }
}

impl From<String> for Denied {
    /// 403.
    fn from(why: String) -> Self {
        Self::forbidden(why)
    }
}

impl From<&str> for Denied {
    /// 403.
    fn from(why: &str) -> Self {
        Self::forbidden(why)
    }
}

impl From<watchkeeper_client::Error> for Denied {
    /// 500: a request of the handler failed.
    fn from(error: watchkeeper_client::Error) -> Self {
        Self::internal(error_chain(&error))
    }
}

/// A review of either version.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Value,
}

impl Review {
    fn read(review: Value) -> Result<Self, String> {
        let review: Self =
            serde_json::from_value(review).map_err(|error| format!("this is no review: {error}"))?;
        match &*review.kind {
            "AdmissionReview" => Ok(review),
            other => Err(format!("this is no AdmissionReview but {other:?}")),
        }
    }

    /// The response to this review.
    fn answer(&self, mut response: Value) -> Value {
        response["uid"] = self.request["uid"].clone();
        json!({"apiVersion": self.api_version, "kind": self.kind, "response": response})
    }
}

pub(super) fn validating<K, A, D, F, W>(handler: F) -> Route
where
    K: DeserializeOwned + Send + 'static,
    A: Into<Allowed>,
    D: Into<Denied>,
    F: Fn(AdmissionRequest<K>) -> W + Send + Sync + 'static,
    W: Future<Output = Result<A, D>> + Send + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |review| {
        let handler = handler.clone();
        async move {
            let review = Review::read(review)?;
            let request = match decoded(&review.request) {
                Ok(request) => request,
                Err(denied) => return Ok(review.answer(refusal(denied))),
            };
            let response = match handler(request).await {
                Ok(allowed) => approval(allowed.into().warnings),
                Err(denied) => refusal(denied.into()),
            };
            Ok(review.answer(response))
        }
        .boxed()
    })
}

pub(super) fn mutating<K, C, D, F, W>(handler: F) -> Route
where
    K: DeserializeOwned + Serialize + Send + 'static,
    C: Into<Changed<K>>,
    D: Into<Denied>,
    F: Fn(K, AdmissionRequest<K>) -> W + Send + Sync + 'static,
    W: Future<Output = Result<C, D>> + Send + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |review| {
        let handler = handler.clone();
        async move {
            let review = Review::read(review)?;
            let mut request = match decoded::<K>(&review.request) {
                Ok(request) => request,
                Err(denied) => return Ok(review.answer(refusal(denied))),
            };
            let Some(object) = request.object.take() else {
                return Ok(review.answer(approval(Vec::new())));
            };
            // Before the handler gets it: its changes are the difference from the struct's current form.
            let before = serde_json::to_value(&object).map_err(|error| error.to_string())?;
            let response = match handler(object, request).await {
                Ok(changed) => {
                    let changed = changed.into();
                    let after = serde_json::to_value(&changed.object).map_err(|error| error.to_string())?;
                    let raw = &review.request["object"];
                    let patch = json_patch::between(raw, &mutation::changed(raw, &before, &after));
                    change(&patch, changed.warnings)
                }
                Err(denied) => refusal(denied.into()),
            };
            Ok(review.answer(response))
        }
        .boxed()
    })
}

/// The request with decoded objects. One that does not decode is denied; the message names the field.
fn decoded<K: DeserializeOwned>(request: &Value) -> Result<AdmissionRequest<K>, Denied> {
    serde_path_to_error::deserialize(request)
        .map_err(|error| Denied::new(400, "BadRequest", format!("{}: {}", error.path(), error.inner())))
}

fn approval(warnings: Vec<String>) -> Value {
    let mut response = json!({"allowed": true});
    if !warnings.is_empty() {
        response["warnings"] = json!(warnings);
    }
    response
}

fn change(patch: &Value, warnings: Vec<String>) -> Value {
    let mut response = approval(warnings);
    if patch != &json!([]) {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(patch.to_string()));
    }
    response
}

fn refusal(denied: Denied) -> Value {
    let Denied {
        code,
        message,
        reason,
    } = denied;
    json!({"allowed": false, "status": {"code": code, "message": message, "reason": reason}})
}

/// `#[serde(default)]` would require a default of the object.
fn none<K>() -> Option<K> {
    None
}

#[cfg(test)]
mod tests {
    use watchkeeper_meta::Resource;

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Site {
        spec: Spec,
    }

    #[derive(Serialize, Deserialize)]
    struct Spec {
        replicas: u32,
        #[serde(default)]
        tags: Vec<String>,
    }

    fn review(object: Value) -> Value {
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u", "operation": "CREATE", "object": object, "oldObject": null,
                "kind": {"group": "example.com", "version": "v1", "kind": "Site"},
                "resource": {"group": "example.com", "version": "v1", "resource": "sites"},
                "userInfo": {"username": "me", "groups": ["us"]},
            },
        })
    }

    #[tokio::test]
    async fn an_object_that_does_not_decode_is_refused_by_the_name_of_its_field() {
        let route = validating(|_: AdmissionRequest<Site>| async { Ok::<_, Denied>(()) });
        let answer = route(review(json!({"spec": {"replicas": "two"}}))).await.unwrap();
        let response = &answer["response"];
        assert_eq!(
            (&response["uid"], &response["allowed"]),
            (&json!("u"), &json!(false))
        );
        assert_eq!(response["status"]["code"], 400);
        let message = response["status"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("object.spec.replicas: invalid type: string"),
            "{message}"
        );
    }

    #[tokio::test]
    async fn warnings_reach_the_writer() {
        let route = validating(|request: AdmissionRequest<Site>| async move {
            assert_eq!(request.user_info.groups, ["us"]);
            Ok::<_, Denied>(vec!["soon gone".to_owned()])
        });
        let answer = route(review(json!({"spec": {"replicas": 1}}))).await.unwrap();
        assert_eq!(
            answer["response"],
            json!({"uid": "u", "allowed": true, "warnings": ["soon gone"]})
        );
    }

    #[tokio::test]
    async fn only_what_the_handler_changed_is_in_the_patch() {
        let route = mutating(|mut site: Site, _| async move {
            site.spec.tags.push("new".into());
            Ok::<_, Denied>(site)
        });
        let object = json!({"spec": {"replicas": 1, "unknown": {"stays": true}}});
        let answer = route(review(object)).await.unwrap();
        let patch = STANDARD
            .decode(answer["response"]["patch"].as_str().unwrap())
            .unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(
            patch,
            json!([{"op": "add", "path": "/spec/tags", "value": ["new"]}])
        );
    }

    #[tokio::test]
    async fn a_handler_that_changes_nothing_answers_without_a_patch() {
        let route = mutating(|site: Site, _| async move { Ok::<_, Denied>(site) });
        let answer = route(review(json!({"spec": {"replicas": 1}}))).await.unwrap();
        assert_eq!(answer["response"], json!({"uid": "u", "allowed": true}));
    }

    #[tokio::test]
    async fn a_failed_request_of_a_handler_is_an_error_of_the_webhook() {
        let cluster = watchkeeper_testing::TestCluster::start().await.unwrap();
        let namespaces = Resource::cluster("", "v1", "Namespace", "namespaces");
        let namespaces = cluster.client().dynamic(namespaces);
        let route = validating(move |request: AdmissionRequest<Site>| {
            let namespaces = namespaces.clone();
            async move {
                namespaces.get(&request.uid).await?;
                Ok::<_, Denied>(())
            }
        });
        let answer = route(review(json!({"spec": {"replicas": 1}}))).await.unwrap();
        let status = &answer["response"]["status"];
        assert_eq!(
            (&status["code"], &status["reason"]),
            (&json!(500), &json!("InternalError"))
        );
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("namespaces \"u\" not found"), "{message}");
        cluster.stop().await;
    }

    #[tokio::test]
    async fn what_is_no_review_is_not_answered() {
        let route = validating(|_: AdmissionRequest<Site>| async { Ok::<_, Denied>(()) });
        let why = route(json!({"kind": "Pod", "request": {}})).await.unwrap_err();
        assert_eq!(why, "this is no AdmissionReview but \"Pod\"");
    }
}
