//! Options of a delete: grace period, propagation to dependents and preconditions.
//!
//! They are sent as a JSON body, or in the query if there is no body. A server reads the query only if the body is
//! empty, as Kubernetes does.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::query::{QueryParams, QueryWriter};
use super::{DryRun, accept};
use crate::Status;
use crate::field_error::{FieldError, FieldErrors, FieldPath};
use crate::quote::quote;

/// Options of a delete. Serializes as the request body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds the object may take to terminate; 0 deletes at once. Only pods have a grace period.
    pub grace_period_seconds: Option<i64>,
    /// Preconditions of the delete.
    pub preconditions: Preconditions,
    /// The older form of `propagation_policy`; not both.
    pub orphan_dependents: Option<bool>,
    /// The fate of dependents; if unset, the kind decides.
    pub propagation_policy: Option<PropagationPolicy>,
    /// Validates and admits, but stores nothing.
    pub dry_run: bool,
}

/// Preconditions of a delete; if one does not hold, the request is a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// The object must have this uid: it is not another object of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The object must have this version: it has not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// The fate of a deleted object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PropagationPolicy {
    /// They stay, without the owner reference.
    Orphan,
    /// They are deleted after the owner.
    Background,
    /// They are deleted before the owner.
    Foreground,
}

impl Preconditions {
    /// True if there are no preconditions.
    pub fn is_empty(&self) -> bool {
        self.uid.is_none() && self.resource_version.is_none()
    }
}

impl PropagationPolicy {
    /// The text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orphan => "Orphan",
            Self::Background => "Background",
            Self::Foreground => "Foreground",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Orphan, Self::Background, Self::Foreground]
            .into_iter()
            .find(|policy| policy.as_str() == word)
    }
}

impl DeleteOptions {
    /// The options in the query of a request without a body.
    pub fn to_query(&self) -> String {
        let mut query = QueryWriter::default();
        for value in DryRun::from(self.dry_run).0 {
            query.push("dryRun", &value);
        }
        query.push_some("gracePeriodSeconds", self.grace_period_seconds);
        query.push_some("orphanDependents", self.orphan_dependents);
        query.push_some(
            "propagationPolicy",
            self.propagation_policy.map(PropagationPolicy::as_str),
        );
        query.push_some("resourceVersion", self.preconditions.resource_version.as_ref());
        query.push_some("uid", self.preconditions.uid.as_ref());
        query.finish()
    }

    /// Reads and checks the query of a request without a body.
    pub fn from_query(query: &str) -> Result<Self, Status> {
        let params = QueryParams::parse(query);
        let text = |name: &str| {
            params
                .first(name)
                .filter(|value| !value.is_empty())
                .map(str::to_owned)
        };
        let preconditions = Preconditions {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        };
        let body = Body {
            grace_period_seconds: params.number("gracePeriodSeconds")?,
            preconditions: Some(preconditions).filter(|preconditions| !preconditions.is_empty()),
            orphan_dependents: params.optional_flag("orphanDependents"),
            propagation_policy: params.first("propagationPolicy").map(str::to_owned),
            dry_run: DryRun::from_params(&params),
        };
        body.check()
    }

    /// Reads and checks the request body. Any API version is accepted, and the kind may be missing.
    pub fn from_json(body: &Value) -> Result<Self, Status> {
        let kind = body["kind"].as_str().unwrap_or_default();
        if !kind.is_empty() && kind != "DeleteOptions" {
            let version = body["apiVersion"].as_str().unwrap_or_default();
            return Err(Status::bad_request(format!(
                "no kind {} is registered for version {} in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
                quote(kind),
                quote(version),
            )));
        }
        let body = Body::deserialize(body).map_err(|error| Status::bad_request(error.to_string()))?;
        body.check()
    }
}

impl Serialize for DeleteOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Typed {
            kind: "DeleteOptions",
            api_version: "v1",
            body: Body::from(self),
        }
        .serialize(serializer)
    }
}

/// The options as on the wire, not yet checked.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<Preconditions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    orphan_dependents: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<String>,
    #[serde(default, skip_serializing_if = "DryRun::is_unset")]
    dry_run: DryRun,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed {
    kind: &'static str,
    api_version: &'static str,
    #[serde(flatten)]
    body: Body,
}

impl From<&DeleteOptions> for Body {
    fn from(options: &DeleteOptions) -> Self {
        let preconditions = Some(options.preconditions.clone());
        Self {
            grace_period_seconds: options.grace_period_seconds,
            preconditions: preconditions.filter(|preconditions| !preconditions.is_empty()),
            orphan_dependents: options.orphan_dependents,
            propagation_policy: options
                .propagation_policy
                .map(|policy| policy.as_str().to_owned()),
            dry_run: DryRun::from(options.dry_run),
        }
    }
}

impl Body {
    fn check(self) -> Result<DeleteOptions, Status> {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("propagationPolicy");
        let word = self.propagation_policy.as_deref();
        let policy = word.and_then(PropagationPolicy::parse);
        if let (Some(word), Some(_)) = (word, self.orphan_dependents) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(&path, word, why));
        }
        if let (Some(word), None) = (word, policy) {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(&path, word, &supported));
        }
        let options = DeleteOptions {
            dry_run: self.dry_run.read(&mut errors),
            grace_period_seconds: self.grace_period_seconds,
            preconditions: self.preconditions.unwrap_or_default(),
            orphan_dependents: self.orphan_dependents,
            propagation_policy: policy,
        };
        accept("DeleteOptions", options, &errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn full() -> DeleteOptions {
        DeleteOptions {
            grace_period_seconds: Some(0),
            preconditions: Preconditions {
                uid: Some("u".into()),
                resource_version: Some("5".into()),
            },
            orphan_dependents: None,
            propagation_policy: Some(PropagationPolicy::Foreground),
            dry_run: true,
        }
    }

    #[test]
    fn bodies_are_those_of_client_go() {
        let body = |options: &DeleteOptions| serde_json::to_string(options).unwrap();
        assert_eq!(
            body(&DeleteOptions::default()),
            r#"{"kind":"DeleteOptions","apiVersion":"v1"}"#
        );
        assert_eq!(
            body(&full()),
            r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"u","resourceVersion":"5"},"propagationPolicy":"Foreground","dryRun":["All"]}"#
        );
    }

    #[test]
    fn what_is_sent_reads_back() {
        let options = full();
        assert_eq!(
            DeleteOptions::from_json(&serde_json::to_value(&options).unwrap()).unwrap(),
            options
        );
        assert_eq!(DeleteOptions::from_query(&options.to_query()).unwrap(), options);
        assert_eq!(
            options.to_query(),
            "dryRun=All&gracePeriodSeconds=0&propagationPolicy=Foreground&resourceVersion=5&uid=u"
        );
    }

    #[test]
    fn bodies_of_many_forms_are_taken() {
        for body in [
            json!({}),
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"}),
            json!({"apiVersion": "nope.example.com/v1", "kind": "DeleteOptions", "nope": 1}),
            json!({"preconditions": null, "dryRun": []}),
        ] {
            assert_eq!(
                DeleteOptions::from_json(&body).unwrap(),
                DeleteOptions::default(),
                "{body}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused_in_kubernetes_words() {
        let invalid = r#"DeleteOptions.meta.k8s.io "" is invalid: "#;
        for (body, message) in [
            (
                json!({"dryRun": ["Nope"]}),
                r#"dryRun: Unsupported value: ["Nope"]: supported values: "All""#,
            ),
            (
                json!({"propagationPolicy": "Nope"}),
                r#"propagationPolicy: Unsupported value: "Nope": supported values: "Foreground", "Background", "Orphan", "nil""#,
            ),
            (
                json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
                r#"propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set"#,
            ),
        ] {
            let status = DeleteOptions::from_json(&body).unwrap_err();
            assert_eq!(
                (status.code, status.message),
                (422, format!("{invalid}{message}"))
            );
        }
        let status = DeleteOptions::from_query("gracePeriodSeconds=abc").unwrap_err();
        assert_eq!(
            (status.code, status.message.as_str()),
            (400, r#"strconv.ParseInt: parsing "abc": invalid syntax"#)
        );
        let status = DeleteOptions::from_json(&json!({"apiVersion": "v1", "kind": "ConfigMap"})).unwrap_err();
        assert_eq!(
            status.message,
            r#"no kind "ConfigMap" is registered for version "v1" in scheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27""#
        );
    }
}
