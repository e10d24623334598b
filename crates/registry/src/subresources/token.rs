//! Token requests: a service account's word, signed, for a while.
//!
//! What a token says is decided here. Who signs it, with which key, is not: that is the server's [`TokenIssuer`].

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use watchkeeper_meta::{FieldError, FieldPath, GroupKind, GroupResource, Status, Time};
use watchkeeper_patch::field_set::FieldSet;
use watchkeeper_patch::managed_fields::{Managers, Writer, empty_object};
use watchkeeper_wire::canonical::canonicalize;
use watchkeeper_wire::schema::Schema;

use crate::body::Body;
use crate::write::{WriteContext, timestamp};
use crate::{Registry, User, metadata, names};

const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";
/// What else is said of whoever shows a token begins with this.
const EXTRA: &str = "authentication.kubernetes.io/";
/// Which token it was.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// An hour, if the client does not say.
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

/// Who signs tokens.
pub struct TokenIssuer<'a> {
    /// The name tokens are issued under, which is also whom they are for if nobody says.
    pub name: &'a str,
    /// How the signature is made, as a token's header calls it: `ES256`.
    pub algorithm: &'a str,
    /// Which key signs.
    pub key_id: &'a str,
    /// Signs these bytes.
    pub sign: &'a (dyn Fn(&[u8]) -> Vec<u8> + Sync),
}

impl fmt::Debug for TokenIssuer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenIssuer")
            .field("name", &self.name)
            .field("algorithm", &self.algorithm)
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

impl Registry {
    /// Answers a `TokenRequest` for a service account.
    pub async fn request_token(
        &self,
        namespace: &str,
        name: &str,
        body: Body<'_>,
        issuer: &TokenIssuer<'_>,
        context: &WriteContext,
    ) -> Result<Value, Status> {
        let mut request = body.read_as(API_VERSION, KIND)?;
        let accounts = self.builtin("", "serviceaccounts")?;
        let account = self.present(&accounts, namespace, name).await?;
        let now = self.clock().now();
        let seconds = request["spec"]["expirationSeconds"]
            .as_i64()
            .unwrap_or(DEFAULT_SECONDS);
        request["spec"]["expirationSeconds"] = json!(seconds);
        let managed = managed_fields(&request, context, &timestamp(now))?;
        check_seconds(seconds)?;
        let bound = self
            .bound_object(namespace, &request["spec"]["boundObjectRef"])
            .await?;
        if request["spec"]["audiences"].as_array().is_none_or(Vec::is_empty) {
            request["spec"]["audiences"] = json!([issuer.name]);
        }
        let expires = Time {
            seconds: now.seconds + seconds,
            nanos: 0,
        };
        let mut private = json!({
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]},
        });
        if let Some((kind, object)) = bound {
            private[kind] = object;
        }
        let claims = json!({
            "aud": request["spec"]["audiences"],
            "exp": expires.seconds,
            "iat": now.seconds,
            "iss": issuer.name,
            "jti": names::uid(),
            "kubernetes.io": private,
            "nbf": now.seconds,
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
        });
        request["metadata"] = json!({
            "name": name,
            "namespace": namespace,
            "uid": account["metadata"]["uid"],
            "creationTimestamp": timestamp(now),
            "managedFields": managed,
        });
        request["status"] = json!({
            "token": signed(&claims, issuer),
            "expirationTimestamp": timestamp(expires),
        });
        completed(request)
    }

    /// Whom a token speaks of, given what it says, which somebody has checked to be signed and in time. A token is
    /// void when its account, or what else it is bound to, is gone or was replaced.
    pub async fn token_holder(&self, claims: &Value) -> Option<User> {
        let private = &claims["kubernetes.io"];
        let namespace = private["namespace"].as_str()?;
        let bound = [
            ("serviceaccount", "serviceaccounts", namespace),
            ("pod", "pods", namespace),
            ("secret", "secrets", namespace),
            ("node", "nodes", ""),
        ];
        let mut extra = BTreeMap::new();
        if let Some(id) = claims["jti"].as_str() {
            extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        for (claim, plural, namespace) in bound {
            let Some(name) = private[claim]["name"].as_str() else {
                continue;
            };
            let definition = self.builtin("", plural).ok()?;
            let found = self.present(&definition, namespace, name).await.ok()?;
            let uid = private[claim]["uid"].as_str()?;
            if metadata::text(&found, "uid") != uid {
                return None;
            }
            if matches!(claim, "pod" | "node") {
                extra.insert(format!("{EXTRA}{claim}-name"), vec![name.to_owned()]);
                extra.insert(format!("{EXTRA}{claim}-uid"), vec![uid.to_owned()]);
            }
        }
        let groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
        let uid = private["serviceaccount"]["uid"].as_str()?;
        Some(User {
            extra,
            ..User::authenticated(claims["sub"].as_str()?, uid, groups)
        })
    }

    /// The object a token is bound to: it is void when that is gone.
    async fn bound_object(
        &self,
        namespace: &str,
        reference: &Value,
    ) -> Result<Option<(&'static str, Value)>, Status> {
        if reference.is_null() {
            return Ok(None);
        }
        let text = |name: &str| reference[name].as_str().unwrap_or_default();
        let (claim, plural, namespace) = match (text("apiVersion"), text("kind")) {
            ("v1", "Pod") => ("pod", "pods", namespace),
            ("v1", "Secret") => ("secret", "secrets", namespace),
            ("v1", "Node") => ("node", "nodes", ""),
            (version, kind) => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(Status::bad_request(why));
            }
        };
        let definition = self.builtin("", plural)?;
        let found = self.present(&definition, namespace, text("name")).await?;
        let (stated, uid) = (text("uid"), metadata::text(&found, "uid"));
        if !stated.is_empty() && stated != uid {
            let why = format!(
                "the UID in the bound object reference ({stated}) does not match the UID in record. The object might \
                 have been deleted and then recreated"
            );
            let kind = GroupResource::new("", text("kind").to_owned());
            return Err(Status::conflict(&kind, text("name"), why));
        }
        Ok(Some((claim, json!({"name": text("name"), "uid": uid}))))
    }
}

fn check_seconds(seconds: i64) -> Result<(), Status> {
    let why = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        seconds if seconds > MAX_SECONDS => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let path = FieldPath::new("spec").child("expirationSeconds");
    let fault = FieldError::invalid(&path, seconds, why);
    let kind = GroupKind::new("authentication.k8s.io", KIND);
    Err(Status::invalid(&kind, "", &[fault]))
}

/// Three parts with dots between them: how it is signed, what it says, the signature.
fn signed(claims: &Value, issuer: &TokenIssuer<'_>) -> String {
    let header = json!({"alg": issuer.algorithm, "kid": issuer.key_id});
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let said = format!("{}.{}", part(&header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode((issuer.sign)(said.as_bytes()));
    format!("{said}.{signature}")
}

/// A request is not stored, yet it says who set its fields.
fn managed_fields(request: &Value, context: &WriteContext, now: &str) -> Result<Value, Status> {
    let schema = Schema::builtin();
    let known = schema
        .kind(API_VERSION, KIND)
        .ok_or_else(Status::path_not_found)?;
    let mut empty = empty_object(schema, known);
    // Printed even when it is not there, so being there is nobody's doing.
    empty["spec"]["boundObjectRef"] = Value::Null;
    let mut object = request.clone();
    let mut managers = Managers::of(&object).unwrap_or_default();
    let writer = Writer {
        manager: &context.manager,
        api_version: API_VERSION,
        subresource: "token",
        time: Some(now),
    };
    managers.record_update(schema, known, &empty, &object, &FieldSet::new(), &writer);
    managers.write_to(&mut object);
    Ok(object["metadata"]["managedFields"].clone())
}

fn completed(request: Value) -> Result<Value, Status> {
    let schema = Schema::builtin();
    let known = schema
        .kind(API_VERSION, KIND)
        .ok_or_else(Status::path_not_found)?;
    let mut request = canonicalize(schema, known, request)
        .map_err(Status::internal_error)?
        .value;
    request["apiVersion"] = json!(API_VERSION);
    request["kind"] = json!(KIND);
    Ok(request)
}
