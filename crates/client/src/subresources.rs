//! Subresources: the scale of a workload, the eviction of a pod, the token of a service account.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_meta::{
    CreateOptions, DeleteOptions, GetOptions, ObjectRequests, PatchKind, PatchOptions, Payload, Time,
};
use watchkeeper_wire::Object;

use crate::call::Call;
use crate::dynamic::{DynamicApi, ObjectOrStatus};
use crate::error::{Error, ErrorKind};
use crate::secret::Secret;

/// The scale of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// The desired number of replicas, `spec.replicas`.
    pub desired: i32,
    /// The current number of replicas, `status.replicas`.
    pub current: i32,
    /// The label selector of their pods.
    pub selector: String,
}

/// Options of a token request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenOptions {
    /// The audiences; by default the API server.
    pub audiences: Vec<String>,
    /// The lifetime; by default an hour. Servers may choose another one.
    pub expires_after: Option<Duration>,
}

/// A token of a service account.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// The token itself.
    pub token: Secret,
    /// The expiry.
    pub expiration_timestamp: Time,
}

impl DynamicApi {
    /// Reads the scale of an object.
    pub fn scale<'a>(&'a self, name: &'a str) -> Call<'a, GetOptions, Scale> {
        let scaled = Call::new(move |options| {
            self.send(self.build(Method::GET, self.part(name, "scale").get(options)))
        });
        scaled.then(move |answer| self.read_scale(Method::GET, name, answer?))
    }

    /// Sets the number of replicas of an object.
    pub fn scale_to<'a>(&'a self, name: &'a str, replicas: i32) -> Call<'a, PatchOptions, Scale> {
        let scaled = Call::new(move |options| {
            let patch = json!({"spec": {"replicas": replicas}}).to_string().into_bytes();
            let request = self.part(name, "scale").patch(PatchKind::Merge, patch, options);
            self.send(self.build(Method::PATCH, request))
        });
        scaled.then(move |answer| self.read_scale(Method::PATCH, name, answer?))
    }

    /// Evicts a pod. A refusal by a disruption budget is [`is_too_many_requests`](Error::is_too_many_requests).
    pub fn evict<'a>(&'a self, name: &'a str) -> Call<'a, DeleteOptions, ()> {
        Call::new(move |options: &DeleteOptions| {
            let eviction = json!({
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": name, "namespace": self.namespace_name()},
                "deleteOptions": options,
            });
            let evicted = self.send_for_either(self.post_to(name, "eviction", &eviction));
            Box::pin(async move { evicted.await.map(drop) })
        })
    }

    /// Requests a token of a service account.
    pub fn token<'a>(&'a self, name: &'a str) -> Call<'a, TokenOptions, Token> {
        Call::new(move |options: &TokenOptions| {
            let expires_after = options.expires_after.map(|after| after.as_secs());
            let wish = json!({
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"audiences": options.audiences, "expirationSeconds": expires_after},
            });
            let answer = self.send_for_either(self.post_to(name, "token", &wish));
            Box::pin(async move { self.read_token(name, answer.await?) })
        })
    }

    fn part<'a>(&'a self, name: &'a str, subresource: &'a str) -> ObjectRequests<'a> {
        self.collection().object(name).subresource(subresource)
    }

    fn post_to(
        &self,
        name: &str,
        subresource: &str,
        body: &Value,
    ) -> Result<http::Request<bytes::Bytes>, Error> {
        let payload = Payload::json(body.to_string().into_bytes());
        let request = self
            .part(name, subresource)
            .create(payload, &CreateOptions::default());
        self.build(Method::POST, request)
    }

    fn read_scale(&self, method: Method, name: &str, answer: Object) -> Result<Scale, Error> {
        let value = answer.to_value();
        let value = value.map_err(|error| self.unreadable(&method, name, &error))?;
        let count = |path: &str| value.pointer(path).and_then(Value::as_i64).unwrap_or_default();
        Ok(Scale {
            desired: i32::try_from(count("/spec/replicas")).unwrap_or(i32::MAX),
            current: i32::try_from(count("/status/replicas")).unwrap_or(i32::MAX),
            selector: value["status"]["selector"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        })
    }

    fn read_token(&self, name: &str, answer: ObjectOrStatus<Object>) -> Result<Token, Error> {
        let unreadable = |error: &dyn std::fmt::Display| self.unreadable(&Method::POST, name, error);
        let ObjectOrStatus::Object(answer) = answer else {
            return Err(unreadable(&"it is no token"));
        };
        let mut value = answer.to_value().map_err(|error| unreadable(&error))?;
        serde_json::from_value(value["status"].take()).map_err(|error| unreadable(&error))
    }

    fn unreadable(&self, method: &Method, name: &str, error: &dyn std::fmt::Display) -> Error {
        Error::new(method, self.url(name), ErrorKind::Decode(error.to_string()))
    }
}
